//! The finders. They differ only in where they look and in what a position is. The finders of
//! `primaries` and of the quarantine stand beside their only users.
//!
//! | finder | looks at | position |
//! | --- | --- | --- |
//! | `journal` | the comments that the change journal names | an instant |
//! | `table_scan` | the items of one segment of the table, and the scores of their comments | an item's key |
//! | `index_scan` | every member and name of the page index | a cursor |
//! | `primaries` | the entries of the table's index `primaries` | a shard's key |
//! | `quarantine` | the comments that batches in quarantine name | a batch |

pub(crate) mod index_scan;
pub(crate) mod journal;
pub(crate) mod spellings;
pub(crate) mod table_scan;

pub(crate) const ITEMS_PER_COMMENT: u64 = 32;
