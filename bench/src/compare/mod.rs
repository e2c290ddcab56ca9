//! `compare`: compares this design with the one with four indexes, for an engineer who must choose.
//!
//! Both designs hold the same comments, in separate tables on one engine, behind one client with the same settings.
//! Before the timing, the pages of every filter at every measured depth must have the same comments in the same order.
//! The engine's import loads only the items of the requested filter keys.
//!
//! - **Reading.** The library calls of both designs, without HTTP. Pagemark asks the page index for the start of the
//!   page (one call to Redis), then the table (one Query). The other design queries one partition of an index. It knows
//!   its cursors. One page is read repeatedly: the first, the middle and the last one, with filters by one to five
//!   ratings, in one language or any. The designs take turns in rounds.
//! - **Several queries are not timed.** For two to four ratings the other design sends a query for each in parallel, and
//!   the engine answers one call at a time. On DynamoDB such queries do not wait for each other.
//! - The middle pages are also read **over connections with a delay** (`delayed_proxy`), where a round trip takes longer
//!   than the engine.
//! - The middle pages that take one query are also read beside the four-index design **behind a cache** (`cached`), for
//!   the money of Pagemark's Redis.
//! - **Consumed**: `ConsumedCapacity` as the engine counts it. Tests compare it with DynamoDB's rules.
//! - **Writing**: `writes`. **Storage**: `storage`. **Money**: [`crate::money`].

mod cached;
mod contestants;
mod costs;
mod reads;
mod storage;
mod usage;
mod writes;

use std::time::Duration;

use anyhow::Context;
use four_index::KeepCounters;
use strum::VariantArray;

use crate::{
    delayed_proxy::DelayedProxy,
    http::address_in,
    index::bytes_in_32_sets,
    money::{Compared, Prices, Usage, mix},
    options::{Effort, Options},
    report::{FOUR_INDEXES, FOUR_INDEXES_CACHED, HITS_OF_TEN, PAGEMARK, Quantity, Report},
};
pub(crate) use contestants::{Ask, RATINGS, Reader, name as filter_name};
use contestants::{Comments, Contestants};
use costs::Costs;
pub(crate) use reads::Depth;
use reads::Reading;
use storage::Stored;
use writes::Writings;

/// Round trips of the connections with a delay, to the table and then to Redis. DynamoDB answers within "single-digit
/// milliseconds" (AWS: "What is Amazon DynamoDB?"), and Redis in the same zone in much less than one. Both are
/// assumptions.
const TABLE_ROUND_TRIP: Duration = Duration::from_millis(4);
const REDIS_ROUND_TRIP: Duration = Duration::from_micros(500);

pub(crate) async fn measure(report: &mut Report, options: &Options) -> anyhow::Result<()> {
    let quick = options.quick;
    let comments = Comments::new(options.data.as_deref(), options.comments_or(5_000, 100_000))?;
    let many = comments.all.len();
    report.step(&format!("loading {many} comments"));
    let contestants = Contestants::fill(&comments).await?;
    report.step(&format!("{} items are loaded; comparing pages", contestants.stores.items));
    let mut costs = Vec::new();
    for listing in &contestants.listings {
        for depth in Depth::VARIANTS {
            costs.push(costs::read(&contestants, Ask::new(listing, depth.page_of(listing))?, *depth).await?);
        }
    }
    report.table(costs::table(&costs));

    let near = read_near(report, &contestants, &costs, many, quick).await?;
    reads::numbers(report, &near, [Quantity::OneRatingPageUs, Quantity::AnyRatingPageUs]);
    report.plot(reads::plot(&near));
    let far = read_far(report, &contestants, &costs, quick).await?;
    reads::numbers(report, &far, [Quantity::OneRatingPageDelayedUs, Quantity::AnyRatingPageDelayedUs]);
    let redis_bytes = contestants.stores.redis_bytes;
    contestants.stores.stop().await;

    report.step("writing");
    let writings = writes::measure(if quick { 20 } else { 300 }).await?;
    report.table(writes::table(&writings));
    writes::numbers(report, &writings);

    report.step("storage");
    let some = comments.all.iter().take(storage::IN_32_SETS).cloned().map(Ok);
    let in_32_sets = bytes_in_32_sets(some).await?;
    let pagemark = Stored { redis_bytes, ..storage::pagemark(&comments.all)? };
    let four = storage::four_index(&comments.all);
    report.table(storage::table(many, pagemark, four, in_32_sets));
    report.plot(storage::plot()?);
    report.number(Quantity::StoredBytes, PAGEMARK, pagemark.all_bytes());
    report.number(Quantity::StoredBytes, FOUR_INDEXES, four.all_bytes());
    money(report, &comments, &usages(&costs, &writings, pagemark, four).context("all numbers of ratings were read")?)
}

/// The usage of Pagemark, and of the other design without and with counters.
fn usages(costs: &[Costs], writings: &[Writings], pagemark: Stored, four: Stored) -> Option<(Usage, [Usage; 2])> {
    let plain = usage::four_index(costs, writings, four, KeepCounters::No)?;
    let counting = usage::four_index(costs, writings, four, KeepCounters::Yes)?;
    Some((usage::pagemark(costs, writings, pagemark)?, [plain, counting]))
}

fn money(report: &mut Report, comments: &Comments, (ours, others): &(Usage, [Usage; 2])) -> anyhow::Result<()> {
    let (prices, workloads) = (Prices::published()?, usage::workloads(&comments.all));
    let compared = Compared { ours, others, prices: &prices, workloads: &workloads };
    let [_, counting] = others;
    let cached = HITS_OF_TEN.into_iter().zip(FOUR_INDEXES_CACHED);
    let cached: Vec<Usage> =
        cached.map(|(hits, design)| counting.behind_cache(design, hits, ours.redis_bytes)).collect();
    let behind_cache = Compared { others: &cached, ..compared };
    compared.tables().into_iter().chain([behind_cache.cache_table()]).for_each(|table| report.table(table));
    report.plot(compared.plot());
    for (quantity, design, value) in compared.numbers().into_iter().chain(behind_cache.numbers()) {
        report.number(quantity, design, value);
    }
    if let Some(workload) = workloads.first() {
        report.fact("mix", mix(workload));
        report.fact("month", workload.name.as_str());
    }
    Ok(())
}

async fn read_near(
    report: &mut Report,
    contestants: &Contestants,
    costs: &[Costs],
    comments: usize,
    quick: bool,
) -> anyhow::Result<Vec<Reading>> {
    report.step("reading");
    let load = if quick { Effort { rounds: 1, a_half: 20 } } else { Effort { rounds: 5, a_half: 200 } };
    let reader = contestants.reader(false);
    let readings = read_all(&reader, costs, Depth::VARIANTS, load).await?;
    let about = format!(", pages of 20 of {comments} comments");
    report.table(reads::table("compare: reading", load, &about, &readings));
    let cached = cached::read(&reader, &contestants.stores.redis.url(), costs, load).await?;
    report.table(cached::table("compare: reading beside a cache", load, &about, &cached));
    Ok(readings)
}

/// Reads the middle pages over connections with a delay.
async fn read_far(
    report: &mut Report,
    contestants: &Contestants,
    costs: &[Costs],
    quick: bool,
) -> anyhow::Result<Vec<Reading>> {
    report.step("reading over connections with a delay");
    let engine = DelayedProxy::to(address_in(&contestants.stores.engine.endpoint_url())?, TABLE_ROUND_TRIP)?;
    let redis = DelayedProxy::to(address_in(&contestants.stores.redis.url())?, REDIS_ROUND_TRIP)?;
    let (table_url, redis_url) = (format!("http://{}", engine.address()), format!("redis://{}/", redis.address()));
    let reader = contestants.reader_at(&table_url, &redis_url).await?;
    let load = if quick { Effort { rounds: 1, a_half: 10 } } else { Effort { rounds: 3, a_half: 40 } };
    let readings = read_all(&reader, costs, &[Depth::Deep], load).await?;
    let about = format!(
        "; {} ms to DynamoDB and back, {} ms to Redis and back, and what both take besides",
        TABLE_ROUND_TRIP.as_secs_f64() * 1e3,
        REDIS_ROUND_TRIP.as_secs_f64() * 1e3
    );
    report.table(reads::table("compare: reading over connections with a delay", load, &about, &readings));
    let cached = cached::read(&reader, &redis_url, costs, load).await?;
    report.table(cached::table("compare: reading beside a cache over connections with a delay", load, &about, &cached));
    cached::numbers(report, &cached);
    Ok(readings)
}

async fn read_all(reader: &Reader, costs: &[Costs], depths: &[Depth], load: Effort) -> anyhow::Result<Vec<Reading>> {
    let mut readings = Vec::new();
    for costs in costs.iter().filter(|costs| depths.contains(&costs.depth)) {
        readings.push(reads::read(reader, &costs.ask, costs.depth, load).await?);
    }
    Ok(readings)
}
