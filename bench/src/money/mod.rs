//! Computes the cost of designs from measurements and published prices. No I/O.
//!
//! - `prices`: `bench/prices.json`, which gives the source and date of each price.
//! - `units`: the units and bytes that DynamoDB bills for items.
//! - `usage`: a design's usage for a page view, a write and a stored comment; and the load of a month.
//! - `bill`: the month's cost by part.
//! - `break_even`: the number of page views per month at which one design becomes cheaper than another.
//! - `summary`: tables, the numbers that decide, and the plot.
//!
//! **What is billed**, as AWS documents it ("DynamoDB read and write operations",
//! <https://docs.aws.amazon.com/he_il/amazondynamodb/latest/developerguide/read-write-operations.md>; "DynamoDB item
//! sizes and formats"; "Using Global Secondary Indexes in DynamoDB"):
//! - A write takes a unit for each 1 KB of the item (the larger of before and after), rounded up, in the table. It
//!   takes the same again in each index that contains the item and that the write changes. A write that changes an
//!   item's key in an index takes two units there, because the old entry is deleted and a new one is put
//!   (<https://repost.aws/de/questions/QU2yF7CynBThyPzvg4szJAQA/dynamodb-cost-for-index-writes>).
//! - A transaction takes twice as many units in the table. Indexes follow on their own and take as many as for any
//!   write, like in AWS's own calculator
//!   (<https://raw.githubusercontent.com/aws/agent-toolkit-for-aws/main/skills/specialized-skills/database-skills/amazon-dynamodb/scripts/calculate_costs.py>).
//! - A Query takes half a unit for each 4 KB of all its items together, rounded up, because an index is eventually
//!   consistent. Items that the reader discards count too. So a page that unites several queries is rounded up for each
//!   query.
//! - Storage is billed by size plus 100 bytes for each item, in the table and in each index; point-in-time recovery by
//!   the table's size.
//! - Stream reads by Lambda are free.
//!
//! `Usage` is in such units. The measurements count them, and [`crate::cost`] computes them from the sizes of items.
//!
//! **What is left out:**
//! - Costs that are equal in both designs: Fargate, load balancer, logs, data to readers.
//! - A cache in front of Pagemark, and other caches than Redis (DAX, a CDN). They would make pages of either design
//!   faster. The design with counters is also counted with a cache in the same Redis, at assumed hit rates
//!   (`Usage::behind_cache`).
//! - Pagemark's other parts besides Redis and the two stream functions: the repair job's function, alarms and secrets.
//!   They cost some dollars a month (`docs/deploy.md`).
//! - Reads of the other design's counters for the totals of a page, about half a unit each. That design is counted twice,
//!   without and with counters. Without them its pages show no totals.
//!
//! A GB counts as 1,000,000,000 bytes. With 2^30 bytes, storage and recovery would be 7 % cheaper in both designs.

mod bill;
mod break_even;
mod prices;
mod summary;
mod units;
mod usage;

pub(crate) use bill::{Bill, Scope};
pub(crate) use break_even::{BreakEven, break_even_by_mix, write_cost_times};
pub(crate) use prices::Prices;
pub(crate) use summary::{Compared, break_even, mix};
pub(crate) use units::{STORAGE_OVERHEAD_BYTES, consistent_read_units, query_units};
pub(crate) use usage::{
    FUNCTION_MEMORY_GB, FUNCTIONS, PerRatings, PerWrite, Usage, VIEW_SHARES, WRITE_SHARES, Workload, Write, WriteUsage,
    audit_read_units,
};
