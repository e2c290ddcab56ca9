//! A row to import: what it says, and its import.

use model::Timestamp;
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

impl ImportRow {
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
