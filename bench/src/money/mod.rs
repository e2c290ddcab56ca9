//! What designs cost, from what was measured of them and from published prices. No I/O.
//!
//! - `prices`: `bench/prices.json`, which says where each price was found, and when.
//! - `usage`: what a design uses for a page view, a write, a stored comment; what a month asks of it.
//! - `bill`: the month's cost by part.
//! - `break_even`: from how many page views a month one design is cheaper than another.
//! - `summary`: tables, the plot, and where Pagemark loses.
//!
//! **What is billed**, as AWS documents it ("DynamoDB read and write operations",
//! <https://docs.aws.amazon.com/he_il/amazondynamodb/latest/developerguide/read-write-operations.md>; "DynamoDB item sizes
//! and formats"; "Using Global Secondary Indexes in DynamoDB"):
//! - A write takes a unit for each 1 KB of the item (the larger of before and after), rounded up, in the table; and, as
//!   much again in each index that the item is in and that the write changes. A write that changes an item's key in an index takes two
//!   there: the old entry goes, the new one comes
//!   (<https://repost.aws/de/questions/QU2yF7CynBThyPzvg4szJAQA/dynamodb-cost-for-index-writes>).
//! - A transaction takes twice as many in the table. Indexes follow on their own and take as many as for any write, as
//!   AWS's own calculator has it
//!   (<https://raw.githubusercontent.com/aws/agent-toolkit-for-aws/main/skills/specialized-skills/database-skills/amazon-dynamodb/scripts/calculate_costs.py>).
//! - A Query takes half a unit for each 4 KB of all its items together, rounded up, because an index is eventually
//!   consistent; items that the reader throws away count. So a page of a union by several queries is rounded up for each.
//! - Storage is billed by size and 100 bytes more for each item, in the table and in each index; point-in-time
//!   recovery by the table's size.
//! - Stream reads by Lambda are free.
//!
//! `Usage` is in such units, so nothing here applies these rules: what measures does, and `model::size`.
//!
//! **What is left out**: what costs the same in both designs (Fargate, load balancer, logs, data to readers), and spending
//! the difference on a cache (DAX, a CDN), with which pages of either design would be faster. Left out too are what only
//! Pagemark has beside Redis and the two stream functions, some dollars a month: the repair job's function, alarms and secrets
//! (`docs/deploy.md`); and of the other design its counters, without which its pages show no totals.
//! A GB is taken to be 1,000,000,000 bytes; by one of 2^30, storage and recovery would be 7 % cheaper in both designs.

mod bill;
mod break_even;
mod prices;
mod summary;
mod usage;

pub(crate) use prices::Prices;
pub(crate) use summary::{Compared, Summary};
pub(crate) use usage::{PerRatings, PerWrite, Usage, Workload, WriteUsage};
