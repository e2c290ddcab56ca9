//! What a month costs in each design, by published prices: `pagemark cost` for a reader's own
//! month, and the published pages for the default one. Nothing is measured, and no server is
//! needed.
//!
//! **What is billed**, as AWS documents it ("DynamoDB read and write operations", "DynamoDB item
//! sizes and formats", "Using Global Secondary Indexes in DynamoDB"):
//!
//! - A write takes a unit for each 1 KB of the item, in the table and in each index that changes.
//!   An index where the item's key changes takes two. A transaction takes twice as many in the
//!   table.
//! - A Query takes half a unit for each 4 KB of all its items together, rounded up.
//! - Storage is billed by size plus 100 bytes for each item, point-in-time recovery by the table's
//!   size. A GB has 1,000,000,000 bytes.
//! - Stream reads by Lambda are free.

mod bill;
mod design;
mod markdown;
mod month;
mod number;
mod prices;
mod statement;

pub use bill::{Billed, PARTS, meeting};
pub use design::{
    Design, FOUR_INDEXES, FOUR_INDEXES_BATCH, FOUR_INDEXES_COUNTERS, FOUR_INDEXES_PAGE_INDEX,
    FOUR_INDEXES_STREAM, PAGEMARK, Write, designs, items, primary_item, stored_bytes,
};
pub use markdown::{Cells, MarkdownTable};
pub use month::{LEFT_OUT, Month};
pub use number::{NOT_A_NUMBER, as_f64, count, text};
pub use prices::{Prices, RedisCluster, Stack, TableClass};
pub use statement::{SIZES, bills, needs, sizes, statement};

/// Prices are those of a million units.
pub const MILLION: f64 = 1e6;
