//! A row to import: what it says, and its import.

use table::{Table, WriteError};

use super::{ImportError, ImportOptions, Outcome, comment::CommentRow, product::ProductRow};

#[derive(Debug)]
pub(super) enum Content {
    Comment(CommentRow),
    Product(ProductRow),
}

impl Content {
    /// What it is stored under. Rows with one key are imported in order.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Comment(row) => row.comment.id.as_str(),
            Self::Product(row) => row.product.as_str(),
        }
    }

    /// Writes it unless it is there, or as the options say.
    pub(super) async fn import(
        &self,
        table: &Table,
        options: &ImportOptions,
    ) -> Result<Outcome, WriteError> {
        match self {
            Self::Comment(row) => row.import(table, options).await,
            Self::Product(row) => row.import(table, options).await,
        }
    }
}

#[derive(Debug)]
pub(super) struct Row {
    /// The number of its first line, from 1.
    pub(super) number: u64,
    /// What the row says, or the reason why it says nothing.
    pub(super) content: Result<Content, String>,
    pub(super) text: String,
    /// What may be wrong with the row although it can be imported.
    pub(super) doubt: Option<&'static str>,
}

impl Row {
    pub(super) fn new(number: u64, content: Result<Content, String>, text: String) -> Self {
        Self {
            number,
            content,
            text,
            doubt: None,
        }
    }
}

pub(super) type Rows = Box<dyn Iterator<Item = Result<Row, ImportError>> + Send>;
