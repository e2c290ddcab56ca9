//! The page index: a comment's rank in every base set, so that a page number costs the same on every page.
//!
//! - `query`: what a reader asks, and what it answers.
//! - `readiness`: whether readers may believe a partition.
//! - `settings`: where the index is.
//! - `redis`: the index itself. No type of the Redis client leaves this folder.

mod query;
mod readiness;
mod redis;
mod settings;

pub use query::{Ends, Extent, IndexAnswer, PageStart, PageStartQuery, Position, ProductTotal, Stats};
pub use readiness::NotReady;
pub use redis::{
    Advance, IndexPart, IndexPartition, IndexScanPosition, Mark, PageIndex, Rebuild, ServerIdentity, VouchTime,
};
pub use settings::{PageIndexArgs, PageIndexConfig, RedisMode};
