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
//! - **Several queries are not timed on the engine.** For two to four ratings the other design sends a query for each in
//!   parallel, and the engine answers one call at a time.
//! - The middle pages in any language are also read **from a table that answers in parallel** (`recorded_table`), with
//!   assumed delays: varying ones, and equal ones. All numbers of ratings are timed there. So is the first page of a
//!   product without some ratings, with and without counters.
//! - The middle pages that take one query are also read beside the four-index design **behind a cache** (`cached`), for
//!   the money of Pagemark's Redis.
//! - **Consumed**: `ConsumedCapacity` as the engine counts it. Tests compare it with DynamoDB's rules.
//! - **Writing**: `writes`. **Storage**: `storage`. **Money** is computed for the page: [`crate::money`].

mod cached;
mod contestants;
mod costs;
mod reads;
mod storage;
mod writes;

use std::{net::SocketAddr, time::Duration};

use anyhow::ensure;
use strum::VariantArray;

use crate::{
    delayed_proxy::DelayedProxy,
    http::address_in,
    index::bytes_in_32_sets,
    options::{Effort, Options},
    recorded_table::{Delay, MEDIAN, P99, REDIS_ROUND_TRIP, RecordedTable},
    report::{FOUR_INDEXES, PAGEMARK, Quantity, Report},
};
pub(crate) use cached::page_json;
pub(crate) use contestants::{Ask, Contestants, RATINGS, Reader, name as filter_name};
use contestants::{Comments, is_any_language, is_sparse};
use costs::Costs;
pub(crate) use reads::Depth;
use reads::{How, Reading, is_one_query};
use storage::Stored;

/// Callers of a table that answers in parallel. More would queue for the two cores, and the figures would show that queue.
const FAR_CALLERS: u32 = 2;
/// The quantities of middle pages, by number of ratings.
const VARYING: [(usize, Quantity); 5] = [
    (1, Quantity::OneRatingPageDelayedUs),
    (2, Quantity::TwoRatingsPageDelayedUs),
    (3, Quantity::ThreeRatingsPageDelayedUs),
    (4, Quantity::FourRatingsPageDelayedUs),
    (5, Quantity::AnyRatingPageDelayedUs),
];
/// Pages of one query have no parallel ones that the kind of delay could change.
const EQUAL: [(usize, Quantity); 3] = [
    (2, Quantity::TwoRatingsPageEqualDelaysUs),
    (3, Quantity::ThreeRatingsPageEqualDelaysUs),
    (4, Quantity::FourRatingsPageEqualDelaysUs),
];

pub(crate) async fn measure(report: &mut Report, options: &Options) -> anyhow::Result<()> {
    let quick = options.quick;
    let comments = Comments::new(options.data.as_deref(), options.comments_or(5_000, 50_000))?;
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

    read_near(report, &contestants, &costs, many, quick).await?;
    read_far(report, &contestants, &costs, quick).await?;
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
    Ok(())
}

async fn read_near(
    report: &mut Report,
    contestants: &Contestants,
    costs: &[Costs],
    comments: usize,
    quick: bool,
) -> anyhow::Result<()> {
    report.step("reading");
    let load = if quick { Effort { rounds: 1, a_half: 20 } } else { Effort { rounds: 3, a_half: 100 } };
    let how = How { load, callers: 1, answers_in_parallel: false, skips_empty: false };
    let reader = contestants.reader(false);
    let readings = read_all(&reader, costs, how).await?;
    let about = format!(", pages of 20 of {comments} comments");
    report.table(reads::table("compare: reading", how, &about, &readings));
    let cached = cached::read(&reader, &contestants.stores.redis.url(), costs, load).await?;
    report.table(cached::table("compare: reading beside a cache", load, &about, &cached));
    Ok(())
}

/// Reads the middle pages in any language from a table that answers in parallel after a delay, and Redis after another.
async fn read_far(report: &mut Report, contestants: &Contestants, costs: &[Costs], quick: bool) -> anyhow::Result<()> {
    let redis = DelayedProxy::to(address_in(&contestants.stores.redis.url())?, REDIS_ROUND_TRIP)?;
    let redis_url = format!("redis://{}/", redis.address());
    let engine = address_in(&contestants.stores.engine.endpoint_url())?;
    let sparse: Vec<&Costs> = costs.iter().filter(|costs| is_sparse_first(costs)).collect();
    let costs: Vec<&Costs> = costs.iter().filter(|costs| is_far(costs)).collect();

    let load = if quick { Effort { rounds: 1, a_half: 10 } } else { Effort { rounds: 5, a_half: 400 } };
    report.step("reading from a table that answers in parallel, equal delays");
    let equal = Far::new(engine, &redis_url, Delay::Equal, contestants, load).await?;
    let of_several: Vec<&Costs> = costs.iter().copied().filter(|costs| !is_one_query(&costs.ask.listing)).collect();
    let readings = equal.read(&of_several, equal.how).await?;
    report.table(reads::table("compare: reading, equal delays", equal.how, &equal.about, &readings));
    reads::numbers(report, &readings, &EQUAL);

    report.step("reading from a table that answers in parallel, varying delays");
    let varying = Far::new(engine, &redis_url, Delay::Varying, contestants, load).await?;
    let readings = varying.read(&costs, varying.how).await?;
    report.table(reads::table("compare: reading, varying delays", varying.how, &varying.about, &readings));
    reads::numbers(report, &readings, &VARYING);
    report.plot(reads::plot(&readings));

    let load = if quick { load } else { Effort { rounds: 5, a_half: 200 } };
    let [queried, skipped] = [false, true].map(|skips_empty| How { load, skips_empty, ..varying.how });
    for (queried, skipped) in varying.read(&sparse, queried).await?.iter().zip(&varying.read(&sparse, skipped).await?) {
        report.table(reads::skipping_table(&varying.about, queried, skipped));
    }
    let cached = cached::read(&varying.reader, &redis_url, costs.iter().copied(), load).await?;
    report.table(cached::table("compare: reading beside a cache, varying delays", load, &varying.about, &cached));
    cached::numbers(report, &cached);
    Ok(())
}

/// Whether a page is read with delays.
fn is_far(costs: &Costs) -> bool {
    costs.depth == Depth::Deep && is_any_language(&costs.ask.listing)
}

/// The first page of a product that lacks some of the filter's ratings: only there do counters save queries.
fn is_sparse_first(costs: &Costs) -> bool {
    costs.depth == Depth::First && is_sparse(&costs.ask.listing)
}

/// A table that answers in parallel, and a reader of it.
struct Far {
    how: How,
    about: String,
    reader: Reader,
    table: RecordedTable,
}

impl Far {
    async fn new(
        engine: SocketAddr,
        redis_url: &str,
        delay: Delay,
        contestants: &Contestants,
        load: Effort,
    ) -> anyhow::Result<Self> {
        let table = RecordedTable::before(engine, delay).await?;
        let reader = contestants.reader_at(&table.url(), redis_url).await?;
        let how = How { load, callers: FAR_CALLERS, answers_in_parallel: true, skips_empty: false };
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let median = ms(MEDIAN);
        let about = match delay {
            Delay::Equal => format!("the table answers after {median} ms"),
            Delay::Varying => format!(
                "the table answers after {median} ms at the median and {} ms at the 99th percentile, log-normal",
                ms(P99)
            ),
        };
        let about = format!("; {about}; a round trip to Redis takes {} ms more than on loopback", ms(REDIS_ROUND_TRIP));
        Ok(Self { how, about, reader, table })
    }

    async fn read(&self, costs: &[&Costs], how: How) -> anyhow::Result<Vec<Reading>> {
        let readings = read_all(&self.reader, costs.iter().copied(), how).await?;
        ensure!(self.table.most_waiting() > 1, "the table answered one call at a time");
        Ok(readings)
    }
}

async fn read_all<'costs>(
    reader: &Reader,
    costs: impl IntoIterator<Item = &'costs Costs>,
    how: How,
) -> anyhow::Result<Vec<Reading>> {
    let mut readings = Vec::new();
    for costs in costs {
        readings.push(reads::read(reader, &costs.ask, costs.depth, how).await?);
    }
    Ok(readings)
}
