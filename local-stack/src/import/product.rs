//! A line of a file of products' records, and its import. An export writes the same lines.

use model::{Gtin, Language, ProductDetails, ProductId, ProductRecord, WebUrl};
use process::StoreError;
use serde::{Deserialize, Serialize};
use table::{ProductChange, Table, WriteError};

use super::{
    Existing, ImportOptions, Importable, LOOKUPS_MAX, Outcome,
    line::{NOT_LINES, described},
};

/// The fields of a line. Unknown ones are refused: a misspelt field would otherwise be lost without notice.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    product: ProductId,
    name: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    brand: Option<String>,
    #[serde(default)]
    gtin: Option<String>,
    #[serde(default)]
    sku: Option<String>,
    #[serde(default)]
    language: Option<Language>,
}

/// A record to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProduct {
    /// The product.
    pub product: ProductId,
    /// What the record says.
    pub details: ProductDetails,
}

/// Reads a line: one JSON object.
///
/// # Errors
/// The reason why the line is not a record, in one line.
pub fn parse_product_line(line: &[u8]) -> Result<NewProduct, String> {
    if line.starts_with(b"[") {
        return Err(NOT_LINES.to_owned());
    }
    let Line { product, name, url, image, brand, gtin, sku, language } =
        serde_json::from_slice(line).map_err(|error| described(&error))?;
    let url_of = |field, text: Option<String>| text.map(|text| WebUrl::parse(field, &text)).transpose();
    let details = || {
        Ok(ProductDetails {
            name: ProductDetails::new_name(name)?,
            url: url_of("url", url)?,
            image: url_of("image", image)?,
            brand: ProductDetails::new_brand(brand)?,
            gtin: gtin.map(|text| Gtin::parse(&text)).transpose()?,
            sku: ProductDetails::new_sku(sku)?,
            language,
        })
    };
    let details = details().map_err(|error: model::InvalidInput| error.to_string())?;
    Ok(NewProduct { product, details })
}

/// Writes a record as a line, without the line's end. Equal records give equal lines, whatever their revisions.
///
/// # Errors
/// Never fails in practice: every field is a text.
pub fn to_product_line(record: ProductRecord) -> serde_json::Result<String> {
    let ProductRecord { product, revision: _, details } = record;
    let ProductDetails { name, url, image, brand, gtin, sku, language } = details;
    let (url, image, gtin) = (url.map(String::from), image.map(String::from), gtin.map(String::from));
    serde_json::to_string(&Line { product, name, url, image, brand, gtin, sku, language })
}

impl Importable for NewProduct {
    fn product(&self) -> &ProductId {
        &self.product
    }

    fn key(&self) -> &str {
        self.product.as_str()
    }

    async fn import(&self, table: &Table, options: &ImportOptions) -> Result<Outcome, StoreError> {
        let name = self.product.as_str();
        for _ in 0..LOOKUPS_MAX {
            let present = match table.product(&self.product).await {
                Err(StoreError::Malformed(malformed)) => {
                    return Ok(Outcome::Refused(format!("product: the record of {name:?} is {malformed}")));
                }
                read => read?,
            };
            match &present {
                Some(present) if present.details == self.details => return Ok(Outcome::Unchanged),
                Some(_) if options.existing == Existing::Keep => return Ok(Outcome::Differing),
                Some(_) if options.dry_run => return Ok(Outcome::Updated),
                None if options.dry_run => return Ok(Outcome::Created),
                Some(_) | None => {}
            }
            // Only this record is changed, and none that took its place since.
            let revision = present.map(|present| present.revision);
            match table.put_product(&self.product, &self.details, |current| current == revision).await {
                Ok(put) => {
                    return Ok(match put.change {
                        ProductChange::Created => Outcome::Created,
                        ProductChange::Replaced => Outcome::Updated,
                        ProductChange::Nothing => Outcome::Unchanged,
                    });
                }
                Err(WriteError::PreconditionFailed { .. } | WriteError::Contended) => {}
                Err(WriteError::Store(error)) => return Err(error),
                Err(other) => return Ok(Outcome::Refused(other.to_string())),
            }
        }
        Ok(Outcome::Refused(format!("product: {name:?} is being changed; import it again later")))
    }
}

#[cfg(test)]
mod tests {
    use model::{Revision, Timestamp};

    use super::*;

    const GOOD: &str = r#"{"product":"a/b","name":"Machine","url":"https://a/b","image":null,"brand":"Ada","gtin":"4006381333931","sku":null,"language":"EN"}"#;

    #[test]
    fn a_line_reads_back_as_its_record_and_names_every_field() {
        let NewProduct { product, details } = parse_product_line(GOOD.as_bytes()).unwrap();
        let record = ProductRecord { product, revision: Revision::after(None, Timestamp::MIN, 1), details };
        assert_eq!(to_product_line(record).unwrap(), GOOD.replace("EN", "en"));
        let least = parse_product_line(br#"{"product":"p","name":"Name"}"#).unwrap();
        assert_eq!((least.details.url, least.details.language), (None, None));
    }

    #[test]
    fn a_bad_line_of_a_product_says_what_is_wrong() {
        for (old, new, expected) in [
            ("a/b\",\"name", "..\",\"name", "product: \"..\""),
            ("Machine", " ", "name: is empty"),
            ("\"name\":\"Machine\",", "", "missing field `name`"),
            ("https://a/b", "ftp://a/b", "url: \"ftp://a/b\" is not a URL"),
            ("\"image\":null", "\"image\":\"a.jpg\"", "image: \"a.jpg\" is not a URL"),
            ("3931", "3932", "gtin: \"4006381333932\" has a wrong check digit"),
            ("EN", "e", "language"),
            ("\"sku\"", "\"SKU\"", "SKU"),
            ("{", "[{", "JSON Lines"),
        ] {
            let error = parse_product_line(GOOD.replace(old, new).as_bytes()).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
