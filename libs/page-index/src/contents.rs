//! What a page index holds, for callers that compare it with the table.

use std::collections::BTreeMap;

use model::{BaseSet, ProductId};
use serde::{Deserialize, Serialize};

use crate::{IndexPartition, ServerIdentity};

#[derive(Debug, Clone, PartialEq)]
pub enum IndexPart {
    /// Members of base sets, and their scores.
    Members(BTreeMap<BaseSet, Vec<(String, f64)>>),
    /// Names of products, escaped as in filter keys.
    Products(IndexPartition, Vec<String>),
    Languages(ProductId, Vec<String>),
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
