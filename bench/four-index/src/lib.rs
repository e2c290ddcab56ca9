//! The design that Pagemark is compared with: one item a comment, four indexes, and a query for each rating of a filter.
//!
//! It is that of Alex Reid's series of articles on filtering in DynamoDB (parts 2, 3 and 4): a query planner, parallel
//! queries that are merged, a page token that combines the keys of all partitions, counters to skip empty ones.
//! Only benchmarks and tests use it; nothing that is deployed depends on it.
//!
//! Where it departs from the articles:
//! - **The sort key is unique**: `<instant>#<comment id>`, [`model::Cd`], instead of the creation date. Comments of one
//!   instant are common in real data, and the order of index items with equal sort keys is not documented: two queries,
//!   or a merge and a query, could each order them otherwise, and a page would repeat or lose some.
//! - **A partition without a comment on the page goes on where it stood**, at its previous key or its beginning; one that
//!   has ended is not asked again. The articles decrement a key there.
//! - **Counters change in the transaction of the comment's write**, so they are never below the truth: a counter that
//!   says zero too early hides comments.
//! - An edit and a deletion happen only to the revision, language and rating that were read; otherwise the counters would
//!   come off what was never counted.
//! - The revision is projected too: Pagemark's pages tell it, and the next edit needs it.
//!
//! **Invariant:** the pages of any filter, one after the other by their cursors, are those that Pagemark numbers
//! (`tests/designs.rs`).
//!
//! - `key`: the indexes and their keys; which partitions a filter asks.
//! - `item`: the items, and what stands in the indexes.
//! - `merge`: merges the answers of partitions into a page, with the position at which each resumes.
//! - `cursor`: the combined key as text.
//! - `counters`: the statistics items.
//! - `cost`: what calls took, and what writes take by DynamoDB's rules.
//! - `table`, `writer`: the calls.

mod cost;
mod counters;
mod cursor;
mod error;
mod item;
mod key;
mod merge;
mod table;
mod writer;

pub use cost::{ReadCost, WriteCost, write_cost_by_rules};
pub use counters::{Counters, KeepCounters, Tally, counter_items};
pub use cursor::{Cursor, CursorError};
pub use error::Error;
pub use item::{comment_item, projection};
pub use key::{Index, Partition, Plan};
pub use table::{FourIndexTable, Page, PageQuery};
