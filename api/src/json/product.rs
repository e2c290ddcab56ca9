//! The record of a product: `/api/v1/products/{product}`.

use std::borrow::Cow;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use model::{
    Gtin, InvalidInput, Language, ProductDetails, ProductId, ProductRecord, Revision, WebUrl,
};
use serde::Serialize;
use serde_json::{Value, json};
use table::{ProductChange, WriteError};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    fields::{Fields, object},
    headers::Conditions,
    parameters::Parsed,
    schema,
};
use crate::{callers::ProductWriter, entity_tag::strong_tag, error::ApiError, store::StoreClients};

/// Which record to write, and on which conditions.
type ProductTarget = (ProductId, Conditions);

/// What a site says about a product.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Product, example = example)]
pub(crate) struct ProductBody<'record> {
    product: &'record str,
    /// The name for people.
    name: &'record str,
    /// The product's page in the shop.
    #[schema(required)]
    url: Option<&'record str>,
    /// A picture of the product.
    #[schema(required)]
    image: Option<&'record str>,
    #[schema(required)]
    brand: Option<&'record str>,
    /// 8, 12, 13 or 14 digits.
    #[schema(required)]
    gtin: Option<&'record str>,
    #[schema(required)]
    sku: Option<&'record str>,
    /// The language of the name: a BCP 47 tag.
    #[schema(required)]
    language: Option<&'record str>,
    /// Its version, a ULID: in quotes it is its entity tag.
    #[schema(value_type = String)]
    revision: Revision,
}

fn example() -> Value {
    json!({
        "product": "espresso-machine", "name": "Espresso machine Ada 3", "url": "https://shop.example/espresso-machine",
        "image": "https://shop.example/espresso-machine.jpg", "brand": "Ada", "gtin": "4006381333931", "sku": "ADA-3",
        "language": "en", "revision": "01JCP3D7W0Q4N1R5Y8B3C6D9EF"
    })
}

/// Describes the body of a put.
pub(crate) struct NewProductBody;

impl PartialSchema for NewProductBody {
    fn schema() -> RefOr<Schema> {
        let gtin = schema::or_null(schema::text("^(?:[0-9]{8}|[0-9]{12,14})$"));
        let invisible = "Without a visible character it is none";
        object([
            (
                "name",
                schema::line(ProductDetails::NAME_MAX_CHARS),
                "The name for people: one line with at least one visible character",
            ),
            ("url", schema::optional_url(), "The product's page in the shop: pages of comments link to it"),
            ("image", schema::optional_url(), "A picture of the product, for its pages and for search engines"),
            ("brand", schema::optional_line(ProductDetails::BRAND_MAX_CHARS), invisible),
            ("gtin", gtin, "With its check digit (GS1); an ISBN-13, EAN or UPC is one"),
            ("sku", schema::optional_line(ProductDetails::SKU_MAX_CHARS), invisible),
            ("language", schema::or_null(schema::language()), "The language of the name: a BCP 47 tag"),
        ])
        .description(Some("The whole record: what is left out, or null, the product does not have."))
        .required("name")
        .examples([json!({
            "name": "Espresso machine Ada 3", "url": "https://shop.example/espresso-machine", "brand": "Ada",
            "gtin": "4006381333931", "language": "en",
        })])
        .into()
    }
}

impl ToSchema for NewProductBody {
    fn name() -> Cow<'static, str> {
        "NewProduct".into()
    }
}

/// What a record says; a field that is null counts as left out.
///
/// # Errors
/// Names the field that is missing or wrong.
fn details(fields: &Fields) -> Result<ProductDetails, ApiError> {
    let name = optional_text(fields, "name")?;
    let name = name.ok_or_else(|| ApiError::invalid("name", "is missing"))?;
    Ok(ProductDetails {
        name: ProductDetails::new_name(name)?,
        url: optional_url(fields, "url")?,
        image: optional_url(fields, "image")?,
        brand: ProductDetails::new_brand(optional_text(fields, "brand")?)?,
        gtin: parsed(optional_text(fields, "gtin")?, Gtin::parse)?,
        sku: ProductDetails::new_sku(optional_text(fields, "sku")?)?,
        language: parsed(optional_text(fields, "language")?, Language::parse)?,
    })
}

fn optional_text(fields: &Fields, field: &'static str) -> Result<Option<String>, ApiError> {
    Ok(fields.text_or_null(field)?.flatten())
}

fn optional_url(fields: &Fields, field: &'static str) -> Result<Option<WebUrl>, ApiError> {
    parsed(optional_text(fields, field)?, |url| {
        WebUrl::parse(field, url)
    })
}

fn parsed<T>(
    text: Option<String>,
    parse: impl Fn(&str) -> Result<T, InvalidInput>,
) -> Result<Option<T>, ApiError> {
    Ok(text.map(|text| parse(&text)).transpose()?)
}

/// The record of a product, as it is now.
///
/// A product may have comments without a record, and a record without comments.
#[utoipa::path(
    get,
    path = "/api/v1/products/{product}",
    tag = "products",
    params(Parsed<ProductId>),
    responses(
        (
            status = 200,
            description = "The record",
            body = ProductBody<'static>,
            headers(("ETag" = String, description = "Its revision, for `If-Match`")),
        ),
    ),
)]
pub(crate) async fn get_product(
    Parsed(product): Parsed<ProductId>,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    let record = stores
        .product(&product)
        .await?
        .ok_or(ApiError::NoSuchProduct)?;
    let mut answer = answer(StatusCode::OK, &record);
    // The client may change next what it reads here, so no cache may answer.
    answer.headers_mut().insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-cache"),
    );
    Ok(answer)
}

/// The record of a product, new or in place of the one before.
///
/// A put that changes nothing keeps the revision. `If-None-Match: *` only creates, `If-Match: *`
/// only replaces.
#[utoipa::path(
    put,
    path = "/api/v1/products/{product}",
    tag = "products",
    params(Parsed<ProductTarget>),
    request_body(content = NewProductBody, content_type = "application/json"),
    responses(
        (
            status = 200,
            description = "The record that was there, replaced; other processes show it within their cache's age",
            body = ProductBody<'static>,
            headers(("ETag" = String, description = "Its revision")),
        ),
        (
            status = 201,
            description = "The new record",
            body = ProductBody<'static>,
            headers(("ETag" = String, description = "Its revision")),
        ),
    ),
    security(("token" = ["products:write"])),
)]
pub(crate) async fn put_product(
    _: ProductWriter,
    Parsed((product, conditions)): Parsed<ProductTarget>,
    request: HttpRequest,
    payload: web::Payload,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    ProductId::parse(product.as_str())?;
    let details =
        details(&Fields::read::<NewProductBody>(&request, payload, &["application/json"]).await?)?;
    let put = stores
        .put_product(&product, &details, |current| conditions.hold(current))
        .await?;
    let status = match put.change {
        ProductChange::Created => StatusCode::CREATED,
        ProductChange::Replaced | ProductChange::Nothing => StatusCode::OK,
    };
    Ok(answer(status, &put.record))
}

/// The end of a record; the product's comments stay.
#[utoipa::path(
    delete,
    path = "/api/v1/products/{product}",
    tag = "products",
    params(Parsed<ProductTarget>),
    responses((status = 204, description = "It is gone; other processes show it within their cache's age")),
    security(("token" = ["products:write"])),
)]
pub(crate) async fn delete_product(
    _: ProductWriter,
    Parsed((product, conditions)): Parsed<ProductTarget>,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    let deleted = stores
        .delete_product(&product, |current| conditions.hold(current))
        .await;
    if let Err(WriteError::NotFound) = deleted {
        return Err(ApiError::NoSuchProduct);
    }
    deleted?;
    Ok(HttpResponse::NoContent().finish())
}

fn answer(
    status: StatusCode,
    ProductRecord {
        product,
        revision,
        details,
    }: &ProductRecord,
) -> HttpResponse {
    let body = ProductBody {
        product: product.as_str(),
        name: &details.name,
        url: details.url.as_ref().map(WebUrl::as_str),
        image: details.image.as_ref().map(WebUrl::as_str),
        brand: details.brand.as_deref(),
        gtin: details.gtin.as_ref().map(Gtin::as_str),
        sku: details.sku.as_deref(),
        language: details.language.as_ref().map(Language::as_str),
        revision: *revision,
    };
    HttpResponse::build(status)
        .insert_header((header::ETAG, strong_tag(*revision)))
        .json(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::tests::refused_field;

    fn of(json: Value) -> Result<ProductDetails, ApiError> {
        details(&Fields::parse::<NewProductBody>(
            json.to_string().as_bytes(),
        )?)
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
        let nulls = of(
            json!({ "name": "Name", "url": null, "gtin": null, "brand": "", "sku": "\u{200b}" }),
        )
        .unwrap();
        assert_eq!(bare, nulls);
    }
}
