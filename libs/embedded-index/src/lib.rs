//! The page index inside one process: for a site on one machine, without a server.
//!
//! - `backend`: what the index does, each call under the lock of one partition.
//! - `partition`: a partition's marker and products.
//! - `product`: the comments of one product, in a counted tree.
//! - `counted_tree`: ranks under any filter, in one descent.
//! - `codes`: what the tree counts: languages and ratings.
//! - `snapshot`: keeps the index over a restart.
//! - `times`: finds a comment's place in the tree by its id alone.
//!
//! An index inside the process is never half right: an edit changes one entry, under a lock. So names of products and
//! languages, and the sets that `redis-index` keeps apart, all follow from the entries.

mod backend;
mod codes;
mod counted_tree;
mod partition;
mod product;
mod snapshot;
mod times;

pub use backend::EmbeddedIndex;
pub use snapshot::SnapshotError;
