//! The page index inside one process: for a site on one machine, without a server.
//!
//! An index inside the process is never half right: an edit changes one entry, under a lock. So
//! names of products and languages, and the sets that `redis-index` keeps apart, all follow from
//! the entries.

mod backend;
mod codes;
mod counted_tree;
mod partition;
mod product;
mod snapshot;
mod times;

pub use backend::EmbeddedIndex;
pub use snapshot::SnapshotError;
