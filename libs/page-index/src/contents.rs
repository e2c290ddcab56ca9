//! What a page index holds, for callers that compare it with the table.

use model::{BaseSet, ProductId};
use serde::{Deserialize, Serialize};

use crate::{IndexPartition, ServerIdentity};

/// A part of a page index's content.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexPart {
    /// Members of a base set with their scores.
    Members(BaseSet, Vec<(String, f64)>),
    /// Names of products, escaped as in filter keys.
    Products(IndexPartition, Vec<String>),
    /// Names of a product's languages.
    Languages(ProductId, Vec<String>),
    /// A key that Pagemark never creates. A rebuild removes it.
    Unknown(String),
    /// A key with a value of the wrong type, and why it cannot be read. A rebuild removes it.
    Unreadable(String, String),
    /// The step found nothing.
    Nothing,
}

/// The position from which an index scan resumes. It is valid only for the index that gave it
/// ([`Contents::is_index_scan_valid`](crate::Contents::is_index_scan_valid)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexScanPosition {
    /// The servers that the scan reads.
    pub servers: ServerIdentity,
    /// Which server has which keys.
    pub layout: String,
    /// The index of the part that is being read: a server, or a partition.
    pub part: usize,
    /// How far the part is read, up to the pending keys.
    pub cursor: String,
    /// Whether the pending keys are the last ones of the part.
    pub is_last: bool,
    /// Keys that are not read yet.
    pub pending: Vec<String>,
    /// How far the last pending key is read.
    pub key_cursor: String,
}
