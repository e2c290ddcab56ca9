//! The key of an item.

use model::Malformed;
use serde::{Deserialize, Serialize};

/// The position from which a scan continues: the key of the last item that is already done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemKey {
    /// The partition key.
    pub pk: String,
    /// The sort key.
    pub sk: String,
}

/// An entry of the index `primaries` whose item is invalid.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidEntry {
    /// The key of the item.
    pub key: ItemKey,
    /// The problem.
    pub problem: Malformed,
}
