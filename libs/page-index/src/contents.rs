//! What a page index holds, for callers that compare it with the table.

use std::collections::BTreeSet;

use model::{CommentId, ProductId, RankEntry, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{IndexPartition, ServerIdentity};

/// A comment that is looked for in the page index.
#[derive(Debug, Clone)]
pub struct Sought<'comment> {
    pub product: &'comment ProductId,
    pub id: &'comment CommentId,
    /// The creation times that it may have there; `None` for any. That may take long: one call reads
    /// each product once, for all of its comments.
    pub times: Option<BTreeSet<Timestamp>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum IndexPart {
    /// Comments, with their entries.
    Entries(Vec<(CommentId, RankEntry)>),
    /// Names of products, escaped as in filter keys.
    Products(IndexPartition, Vec<String>),
    /// A product with wrong counts.
    Miscounted(ProductId),
    /// A key that Pagemark never creates. A rebuild removes it.
    Unknown(String),
    /// A key with a value of the wrong type, and why it cannot be read. A rebuild removes it.
    Unreadable(String, String),
    Nothing,
}

/// The position from which an index scan resumes. Valid only for the index that gave it
/// ([`Contents::is_index_scan_valid`](crate::Contents::is_index_scan_valid)).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexScanPosition {
    pub servers: ServerIdentity,
    pub layout: String,
    pub part: usize,
    pub cursor: String,
    pub is_last: bool,
    pub pending: Vec<String>,
    pub key_cursor: String,
}
