//! What a month costs in each design, by published prices: `bench cost` for a reader's own month, and the page of the
//! benchmarks for the default one. Nothing is measured, and no server is needed.
//!
//! - `month`: the load that is asked about.
//! - `prices`: `bench/prices.json`, which gives the source and date of each price.
//! - `units`: the units and bytes that DynamoDB bills for items.
//! - `design`: what a design takes for a page view, a write and a stored comment. `model` computes it from the sizes of
//!   items.
//! - `bill`: the month's cost by part.
//! - `break_even`: the number of page views at which one design becomes cheaper than another.
//! - `answer`: the tables, the numbers that decide, and the plot.
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
//! Tests compare these units with those that the engine counts.
//!
//! **What is left out:**
//! - Costs that are equal in both designs: Fargate, load balancer, logs, data to readers.
//! - A cache in front of Pagemark, and other caches than Redis (DAX, a CDN). They would make pages of either design
//!   faster. The design with counters is also counted with a cache in the same Redis, at assumed hit rates
//!   (`Design::behind_cache`).
//! - Pagemark's other parts besides Redis and the two stream functions: the repair job's function, alarms and secrets.
//!   They cost some dollars a month (`docs/deploy.md`).
//!
//! A GB counts as 1,000,000,000 bytes. With 2^30 bytes, storage and recovery would be 7 % cheaper in both designs.

mod answer;
mod bill;
mod break_even;
mod design;
mod model;
mod month;
mod prices;
mod units;

use std::fs;

use anyhow::Context;

use crate::report::Section;
use answer::{Answer, Compared};
use model::{cached_designs, designs};
use month::Month;

pub(crate) use break_even::BreakEven;
pub(crate) use design::Write;
#[cfg(test)]
pub(crate) use model::tests::write_units_of_short_comments;
pub(crate) use month::CostArgs;
pub(crate) use prices::Prices;
pub(crate) use units::{STORAGE_OVERHEAD_BYTES, consistent_read_units};

/// Prints the bills of a reader's month.
pub(crate) fn print(args: &CostArgs) -> anyhow::Result<()> {
    let prices = match &args.region_prices {
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            Prices::parse(&text).with_context(|| file.display().to_string())?
        }
        None => Prices::published()?,
    };
    let month = &Month::of(args)?;
    let answer = Answer::of(&Compared { month, designs: designs(&month.shape)?, prices: &prices })?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        print!("{answer}");
    }
    Ok(())
}

/// Adds the bills of the default month of `bench cost`, also with a cache in front of four indexes.
pub(crate) fn add_bills(section: &mut Section) -> anyhow::Result<()> {
    let (prices, month) = (&Prices::published()?, &Month::parse("")?);
    let designs = designs(&month.shape)?;
    let all = designs.iter().cloned().chain(cached_designs(&month.shape)?).collect();
    let [compared, with_caches] = [designs, all].map(|designs| Compared { month, designs, prices });
    section.tables.extend(Answer::of(&with_caches)?.tables());
    section.plots.push(compared.plot());
    for (quantity, design, value) in with_caches.numbers() {
        section.numbers.entry(quantity).or_default().insert(design.to_owned(), value);
    }
    section.facts.insert("month".to_owned(), month.text());
    Ok(())
}
