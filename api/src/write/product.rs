//! The fields of a product's record that a client sets. Every field is checked, and none is ignored.

use model::{Gtin, InvalidInput, Language, ProductDetails, WebUrl};
use serde_json::Value;

use super::content::{Fields, parse_text};
use crate::error::ApiError;

pub(crate) const PRODUCT_FIELDS: [&str; 7] = ["name", "url", "image", "brand", "gtin", "sku", "language"];

/// What a record says; a field that is null counts as left out.
///
/// # Errors
/// Names the field that is missing, wrong or unknown.
pub(crate) fn details(fields: &Fields) -> Result<ProductDetails, ApiError> {
    if let Some(unknown) = fields.keys().find(|name| !PRODUCT_FIELDS.contains(&name.as_str())) {
        let problem = format!("is not a field of a product; there are {}", PRODUCT_FIELDS.join(", "));
        return Err(ApiError::invalid(unknown.clone(), problem));
    }
    let text = |field| match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => parse_text(field, value).map(Some),
    };
    let url = |field| -> Result<_, ApiError> { parsed(text(field)?, |url| WebUrl::parse(field, url)) };
    let name = text("name")?.ok_or_else(|| ApiError::invalid("name", "is missing"))?;
    Ok(ProductDetails {
        name: ProductDetails::new_name(name)?,
        url: url("url")?,
        image: url("image")?,
        brand: ProductDetails::new_brand(text("brand")?)?,
        gtin: parsed(text("gtin")?, Gtin::parse)?,
        sku: ProductDetails::new_sku(text("sku")?)?,
        language: parsed(text("language")?, Language::parse)?,
    })
}

fn parsed<T>(text: Option<String>, parse: impl Fn(&str) -> Result<T, InvalidInput>) -> Result<Option<T>, ApiError> {
    Ok(text.map(|text| parse(&text)).transpose()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::tests::refused_field;

    fn of(json: Value) -> Result<ProductDetails, ApiError> {
        details(&serde_json::from_value(json).unwrap())
    }

    #[test]
    fn every_wrong_field_of_a_product_is_named() {
        assert_eq!(refused_field(of(json!({}))), "name");
        assert_eq!(refused_field(of(json!({ "name": null }))), "name");
        for (field, value) in [
            ("name", json!(" ")),
            ("name", json!(7)),
            ("url", json!("javascript:alert(1)")),
            ("image", json!("/a.jpg")),
            ("brand", json!(["Ada"])),
            ("gtin", json!(4_006_381_333_931_u64)),
            ("gtin", json!("4006381333932")),
            ("sku", json!("a\nb")),
            ("language", json!("e")),
            ("product", json!("p")),
        ] {
            let mut fields = json!({ "name": "Name" });
            fields[field] = value;
            assert_eq!(refused_field(of(fields)), field);
        }
    }

    #[test]
    fn null_and_invisible_texts_are_left_out() {
        let bare = of(json!({ "name": "Name" })).unwrap();
        let nulls = of(json!({ "name": "Name", "url": null, "gtin": null, "brand": "", "sku": "\u{200b}" })).unwrap();
        assert_eq!(bare, nulls);
    }
}
