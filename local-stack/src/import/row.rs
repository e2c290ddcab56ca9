//! A row to import: what it says, and its import.

use model::{ProductId, Timestamp};
use percent_encoding::percent_decode_str;
use table::{Table, WriteError};

use super::{
    ImportError, ImportOptions, comment::CommentRow, earlier::EarlierRow, imported::ImportedRow,
    product::ProductRow,
};

#[derive(Debug)]
pub(super) enum RowContent {
    Comment(CommentRow),
    Product(ProductRow),
}

impl RowContent {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Comment(_) => "comment",
            Self::Product(_) => "product",
        }
    }

    /// What it is stored under. ImportRows with one key are imported in order.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Comment(row) => row.comment.id.as_str(),
            Self::Product(row) => row.product.as_str(),
        }
    }

    /// The date of a comment.
    pub(super) fn created_at(&self) -> Option<Timestamp> {
        match self {
            Self::Comment(row) => Some(row.comment.created_at),
            Self::Product(_) => None,
        }
    }

    /// What may be wrong with it although it can be imported.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        match self {
            Self::Comment(row) => {
                doubts.extend(encoded_product(&row.comment.product));
                doubts.extend(row.comment_doubts());
            }
            Self::Product(row) => doubts.extend(encoded_product(&row.product)),
        }
        doubts
    }

    /// Writes it unless it is there, or as the options say.
    pub(super) async fn import(
        &self,
        table: &Table,
        options: &ImportOptions,
        earlier: Option<&EarlierRow>,
    ) -> Result<ImportedRow, WriteError> {
        match self {
            Self::Comment(row) => row.import(table, options, earlier).await,
            Self::Product(row) => row.import(table, options, earlier).await,
        }
    }
}

/// A product that looks percent-encoded, as in WordPress's addresses. Its page here has another
/// address than at the shop.
fn encoded_product(product: &ProductId) -> Option<String> {
    let product = product.as_str();
    let decoded = percent_decode_str(product).decode_utf8().ok()?;
    if decoded == product {
        return None;
    }
    Some(format!(
        "product: {product:?} looks percent-encoded, so its address here encodes the % again; the shop probably means {decoded:?}"
    ))
}

#[derive(Debug)]
pub(super) struct ImportRow {
    /// The number of its first line, from 1.
    pub(super) number: u64,
    /// What the row says, or the reason why it says nothing.
    pub(super) content: Result<RowContent, String>,
    pub(super) text: String,
    /// What may be wrong with the row although it can be imported.
    pub(super) doubt: Option<&'static str>,
}

/// Why a row is no comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowError {
    /// This row alone is wrong.
    Bad(String),
    /// One of its columns looks like a status, and nobody has decided about it. So no row counts.
    Undecided(String),
}

impl From<String> for RowError {
    fn from(reason: String) -> Self {
        Self::Bad(reason)
    }
}

impl ImportRow {
    /// A row that was read.
    ///
    /// # Errors
    /// Nobody has decided about one of its columns.
    pub(super) fn read(
        number: u64,
        content: Result<RowContent, RowError>,
        text: String,
    ) -> Result<Self, ImportError> {
        match content {
            Ok(content) => Ok(Self::new(number, Ok(content), text)),
            Err(RowError::Bad(reason)) => Ok(Self::new(number, Err(reason), text)),
            Err(RowError::Undecided(why)) => Err(ImportError::Undecided(number, why)),
        }
    }

    pub(super) fn new(number: u64, content: Result<RowContent, String>, text: String) -> Self {
        Self {
            number,
            content,
            text,
            doubt: None,
        }
    }
}

pub(super) type ImportRows = Box<dyn Iterator<Item = Result<ImportRow, ImportError>> + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(text: &str) -> Option<String> {
        encoded_product(&ProductId::parse(text).unwrap())
    }

    #[test]
    fn a_product_in_percent_encoding_is_doubted() {
        let found = doubt("caf%C3%A9").unwrap();
        assert!(found.contains("café"), "{found}");
        for plain in ["café", "100%", "a%20%", "50%zz", "a%ff"] {
            assert_eq!(doubt(plain).is_some(), plain == "a%20%", "{plain}");
        }
    }
}
