//! The design that Pagemark is compared with: one item per comment, four indexes, and one query for
//! each rating of a filter.
//!
//! It follows Alex Reid's articles on filtering in DynamoDB (parts 2, 3 and 4). A plan names the
//! partitions. Parallel queries read them, and their answers are merged. A token has the position
//! in each partition. Counters give totals. The measurements and the bills of
//! `libs/cost` use it.
//!
//! Differences from the articles:
//! - **The sort key is unique**: `<instant>#<comment id>`, [`model::Cd`], instead of the creation
//!   date. The order of index items with equal sort keys is not documented, so a page would repeat
//!   or lose comments of one instant.
//! - **A partition without a comment on the page resumes where it stood**, at its previous key or
//!   its beginning. A partition that has ended is not queried again. The articles decrement a key
//!   there.
//! - **Counters change in the transaction of the comment's write**: otherwise totals would differ
//!   from the comments. A function that follows the table's stream may change them in batches
//!   instead. That takes fewer units and promises less (`writer`).
//! - An edit and a deletion apply only to the revision, language and rating that were read.
//!   Otherwise they would decrease counters that never counted the comment.
//!
//! **Invariant:** the pages of any filter, followed by their cursors or named by a page index,
//! equal Pagemark's numbered pages. `bench compare` and `bench depth` time no others.

mod cost;
mod counters;
mod cursor;
mod item;
mod key;
mod merge;
mod table;
mod writer;

pub use cost::{ReadCost, WriteCost, write_cost_by_rules};
pub use counters::{KeepCounters, RatingCounters, Tally};
pub use cursor::MergedCursor;
pub use item::{comment_item, projection};
pub use key::{Index, MergedQuery, SORT_KEY};
pub use table::{FourIndexTable, MergedPage};
