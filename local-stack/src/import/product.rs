//! A line of a file of products' records, and its import. An export writes the same lines.

use model::{
    Gtin, InvalidInput, Language, ProductDetails, ProductId, ProductRecord, Revision, Timestamp,
    WebUrl,
};
use serde::{Deserialize, Serialize};
use table::{Table, WriteError};

use super::{
    ImportOptions, RowOutcome,
    comment::{described, named},
    earlier::EarlierRow,
    emptied,
    imported::ImportedRow,
};

/// A record to import: the fields of a line. Unknown ones are refused: a misspelt field would
/// otherwise be lost without notice. An optional field is `None` if it is missing, and `Some(None)`
/// if it is null.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProductRow {
    pub(super) product: ProductId,
    name: String,
    #[serde(default, deserialize_with = "named")]
    url: Option<Option<WebUrl>>,
    #[serde(default, deserialize_with = "named")]
    image: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    brand: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    gtin: Option<Option<Gtin>>,
    #[serde(default, deserialize_with = "named")]
    sku: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    language: Option<Option<Language>>,
}

/// Reads a line: one JSON object. The error says in one line why it is not a record.
pub(super) fn read_product(line: &[u8]) -> Result<ProductRow, String> {
    let row: ProductRow = serde_json::from_slice(line).map_err(|error| described(&error))?;
    let checked = ProductId::parse(row.product.as_str()).and_then(|_| row.details(None));
    checked.map(|_| row).map_err(|error| error.to_string())
}

/// Writes a record as a line, without the line's end. Equal records give equal lines, also with
/// different revisions.
pub fn to_product_line(record: ProductRecord) -> serde_json::Result<String> {
    let ProductRecord {
        product,
        revision: _,
        details,
    } = record;
    serde_json::to_string(&ProductRow {
        product,
        name: details.name,
        url: Some(details.url),
        image: Some(details.image.map(|image| image.to_string())),
        brand: Some(details.brand),
        gtin: Some(details.gtin),
        sku: Some(details.sku),
        language: Some(details.language),
    })
}

impl ProductRow {
    /// The record as the row says, with what it does not name from the present one.
    fn details(&self, present: Option<&ProductDetails>) -> Result<ProductDetails, InvalidInput> {
        let present = present.cloned().unwrap_or_default();
        let name = ProductDetails::new_name(self.name.clone())?;
        let image = match self.image.clone() {
            Some(text) => text.map(|text| WebUrl::parse("image", &text)).transpose()?,
            None => present.image,
        };
        let brand = match self.brand.clone() {
            Some(brand) => ProductDetails::new_brand(brand)?,
            None => present.brand,
        };
        let sku = match self.sku.clone() {
            Some(sku) => ProductDetails::new_sku(sku)?,
            None => present.sku,
        };
        let language = match self.language.clone() {
            Some(tag) => tag.map(|tag| Language::parse(tag.as_str())).transpose()?,
            None => present.language,
        };
        Ok(ProductDetails {
            name,
            url: self.url.clone().unwrap_or(present.url),
            image,
            brand,
            gtin: self.gtin.clone().unwrap_or(present.gtin),
            sku,
            language,
        })
    }

    pub(super) async fn import(
        &self,
        table: &Table,
        options: &ImportOptions,
        earlier: Option<&EarlierRow>,
    ) -> Result<ImportedRow, WriteError> {
        let present = match earlier.and_then(|earlier| earlier.stored.as_deref()) {
            Some(line) => Some(stored_record(line)?),
            None => table.product(&self.product).await?,
        };
        let details = self.details(present.as_ref().map(|present| &present.details))?;
        let outcome = match (&present, earlier) {
            (Some(present), _) if present.details == details => {
                return Ok(match earlier {
                    Some(_) => RowOutcome::Repeated.into(),
                    None => RowOutcome::Unchanged.into(),
                });
            }
            (Some(_), Some(earlier)) if !options.update => {
                let product = self.product.as_str();
                let place = &earlier.place;
                let reason = format!("product: {product:?} is also in {place}, with other values");
                return Ok(RowOutcome::Refused(reason).into());
            }
            (Some(_), None) if !options.update => return Ok(RowOutcome::Differing.into()),
            (Some(present), _) => RowOutcome::Updated {
                emptied: emptied(filled(&present.details), filled(&details)),
            },
            (None, _) => RowOutcome::Created,
        };
        let revision = present.map(|present| present.revision);
        if options.dry_run {
            let record = ProductRecord {
                product: self.product.clone(),
                revision: Revision::after(revision, Timestamp::MIN, 0),
                details,
            };
            return Ok(ImportedRow {
                outcome,
                stored: to_product_line(record).ok(),
            });
        }
        // Only this record is changed, and none that replaced it since.
        table
            .put_product(&self.product, &details, |current| current == revision)
            .await?;
        Ok(outcome.into())
    }
}

/// Reads a line of [`to_product_line`].
fn stored_record(line: &str) -> Result<ProductRecord, InvalidInput> {
    let row = read_product(line.as_bytes()).map_err(|why| InvalidInput::new("product", why))?;
    Ok(ProductRecord {
        details: row.details(None)?,
        product: row.product,
        revision: Revision::after(None, Timestamp::MIN, 0),
    })
}

/// Which of the fields that a record may lack it has.
fn filled(details: &ProductDetails) -> [bool; 6] {
    let ProductDetails {
        name: _,
        url,
        image,
        brand,
        gtin,
        sku,
        language,
    } = details;
    [
        url.is_some(),
        image.is_some(),
        brand.is_some(),
        gtin.is_some(),
        sku.is_some(),
        language.is_some(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"product":"a/b","name":"Machine","url":"https://a/b","image":null,"brand":"Ada","gtin":"4006381333931","sku":null,"language":"EN"}"#;

    #[test]
    fn a_line_reads_back_as_its_record_and_names_every_field() {
        let row = read_product(GOOD.as_bytes()).unwrap();
        let details = row.details(None).unwrap();
        let record = ProductRecord {
            product: row.product,
            revision: Revision::after(None, Timestamp::MIN, 1),
            details: details.clone(),
        };
        assert_eq!(to_product_line(record).unwrap(), GOOD.replace("EN", "en"));
        let least = read_product(br#"{"product":"p","name":"Name"}"#).unwrap();
        assert_eq!(
            least.details(None).map(|least| (least.url, least.language)),
            Ok((None, None))
        );
        // What a line does not name stays, and null empties it.
        let kept = least.details(Some(&details)).unwrap();
        assert_eq!(
            kept,
            ProductDetails {
                name: "Name".to_owned(),
                ..details.clone()
            }
        );
        let emptied = read_product(br#"{"product":"p","name":"Machine","brand":null}"#).unwrap();
        assert_eq!(
            emptied.details(Some(&details)),
            Ok(ProductDetails {
                brand: None,
                ..details.clone()
            })
        );
    }

    #[test]
    fn a_bad_line_of_a_product_says_what_is_wrong() {
        for (old, new, expected) in [
            ("a/b\",\"name", "..\",\"name", "product: \"..\""),
            ("Machine", " ", "name: is empty"),
            (
                "a/b\",\"name",
                "\u{feff}a\",\"name",
                "product: \"\\u{feff}a\" begins or ends with",
            ),
            ("\"name\":\"Machine\",", "", "missing field `name`"),
            (
                "https://a/b",
                "ftp://a/b",
                "url: \"ftp://a/b\" is not a URL",
            ),
            (
                "\"image\":null",
                "\"image\":\"a.jpg\"",
                "image: \"a.jpg\" is not a URL",
            ),
            (
                "3931",
                "3932",
                "gtin: \"4006381333932\" has a wrong check digit",
            ),
            ("EN", "e", "language"),
            ("EN", "german", "language: \"german\" is not a language tag"),
            ("\"sku\"", "\"SKU\"", "SKU"),
        ] {
            let error = read_product(GOOD.replace(old, new).as_bytes()).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
