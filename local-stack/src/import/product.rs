//! A line of a file of products' records, and its import. An export writes the same lines.

use model::{Gtin, InvalidInput, Language, ProductDetails, ProductId, ProductRecord, WebUrl};
use process::StoreError;
use serde::{Deserialize, Serialize};
use table::{ProductChange, Table, WriteError};

use super::{
    ImportOptions, Importable, LOOKUPS_MAX, Outcome,
    comment::{NOT_LINES, described, named},
};

/// A record to import: the fields of a line. Unknown ones are refused: a misspelt field would otherwise be lost without
/// notice. Of the optional ones, a missing one is `None`, and null is `Some(None)`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProductRow {
    product: ProductId,
    name: String,
    #[serde(default, deserialize_with = "named")]
    url: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    image: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    brand: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    gtin: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    sku: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    language: Option<Option<Language>>,
}

/// Reads a line: one JSON object. The error says in one line why it is no record.
pub fn parse_product_line(line: &[u8]) -> Result<ProductRow, String> {
    if line.starts_with(b"[") {
        return Err(NOT_LINES.to_owned());
    }
    let row: ProductRow = serde_json::from_slice(line).map_err(|error| described(&error))?;
    row.details(None).map_err(|error| error.to_string())?;
    Ok(row)
}

/// Writes a record as a line, without the line's end. Equal records give equal lines, whatever their revisions.
pub fn to_product_line(record: ProductRecord) -> serde_json::Result<String> {
    let ProductRecord { product, revision: _, details } = record;
    serde_json::to_string(&ProductRow {
        product,
        name: details.name,
        url: Some(details.url.map(String::from)),
        image: Some(details.image.map(String::from)),
        brand: Some(details.brand),
        gtin: Some(details.gtin.map(String::from)),
        sku: Some(details.sku),
        language: Some(details.language),
    })
}

impl ProductRow {
    /// The record as the row says, with what it does not name from the present one.
    fn details(&self, present: Option<&ProductDetails>) -> Result<ProductDetails, InvalidInput> {
        Ok(ProductDetails {
            name: ProductDetails::new_name(self.name.clone())?,
            url: field(&self.url, present.map(|present| &present.url), |text| WebUrl::parse("url", &text).map(Some))?,
            image: field(&self.image, present.map(|present| &present.image), |text| {
                WebUrl::parse("image", &text).map(Some)
            })?,
            brand: field(&self.brand, present.map(|present| &present.brand), |text| {
                ProductDetails::new_brand(Some(text))
            })?,
            gtin: field(&self.gtin, present.map(|present| &present.gtin), |text| Gtin::parse(&text).map(Some))?,
            sku: field(&self.sku, present.map(|present| &present.sku), |text| ProductDetails::new_sku(Some(text)))?,
            language: field(&self.language, present.map(|present| &present.language), |language| Ok(Some(language)))?,
        })
    }
}

/// The value of a field that the row names, or else the present one.
fn field<V: Clone, T: Clone>(
    row: &Option<Option<V>>,
    present: Option<&Option<T>>,
    parse: impl Fn(V) -> Result<Option<T>, InvalidInput>,
) -> Result<Option<T>, InvalidInput> {
    match row {
        Some(Some(value)) => parse(value.clone()),
        Some(None) => Ok(None),
        None => Ok(present.cloned().flatten()),
    }
}

impl Importable for ProductRow {
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
            let details = match self.details(present.as_ref().map(|present| &present.details)) {
                Ok(details) => details,
                Err(error) => return Ok(Outcome::Refused(error.to_string())),
            };
            match &present {
                Some(present) if present.details == details => return Ok(Outcome::Unchanged),
                Some(_) if !options.update => return Ok(Outcome::Differing),
                Some(_) if options.dry_run => return Ok(Outcome::Updated),
                None if options.dry_run => return Ok(Outcome::Created),
                Some(_) | None => {}
            }
            // Only this record is changed, and none that took its place since.
            let revision = present.map(|present| present.revision);
            match table.put_product(&self.product, &details, |current| current == revision).await {
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
        let row = parse_product_line(GOOD.as_bytes()).unwrap();
        let details = row.details(None).unwrap();
        let record = ProductRecord {
            product: row.product,
            revision: Revision::after(None, Timestamp::MIN, 1),
            details: details.clone(),
        };
        assert_eq!(to_product_line(record).unwrap(), GOOD.replace("EN", "en"));
        let least = parse_product_line(br#"{"product":"p","name":"Name"}"#).unwrap();
        assert_eq!(least.details(None).map(|least| (least.url, least.language)), Ok((None, None)));
        // What a line does not name stays, and null empties it.
        let kept = least.details(Some(&details)).unwrap();
        assert_eq!(kept, ProductDetails { name: "Name".to_owned(), ..details.clone() });
        let emptied = parse_product_line(br#"{"product":"p","name":"Machine","brand":null}"#).unwrap();
        assert_eq!(emptied.details(Some(&details)), Ok(ProductDetails { brand: None, ..details.clone() }));
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
