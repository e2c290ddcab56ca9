//! `compare`: compares this design with the one with four indexes, for an engineer who must choose.
//!
//! Both designs hold the same comments, in separate tables on one engine, behind one client with the same settings.
//! Before the timing, the pages of every filter at every measured depth must have the same comments in the same order.
//! The engine's import loads only the items of the requested filter keys.
//!
//! - **Reading.** The library calls of both designs, without HTTP. Pagemark asks the page index for the start of the
//!   page (one call to Redis), then the table (one Query). The other design queries one partition of an index, or one
//!   per rating in parallel, and merges. It knows its cursors. One page is read repeatedly: the first, the middle and
//!   the last one, with filters by one to five ratings, in one language or any. The designs take turns in rounds.
//! - **The engine answers one call at a time**, so here the parallel queries of the other design wait for each other.
//!   On DynamoDB they do not. So the same reads are also measured **over connections with a delay** (`network`), where
//!   the engine's time is small compared with the round trip. There, one round trip of parallel queries competes with a
//!   round trip to Redis and one to DynamoDB.
//! - **Consumed**: `ConsumedCapacity` as the engine counts it. Tests compare it with DynamoDB's rules.
//! - **Writing**: `writes`. **Storage**: `storage`. **Money**: [`crate::money`].

mod contestants;
mod costs;
mod network;
mod reads;
mod storage;
mod usage;
mod writes;

use std::time::Duration;

use anyhow::Context;

use crate::{
    http::address_in,
    money::{Compared, Prices, Summary},
    options::Options,
    report::{Limit, Report},
};
use contestants::Ask;
use contestants::{Comments, Contestants};
use network::Road;
use reads::{Depth, Load, Reading};

/// Numbers of concurrent clients.
const CLIENTS: [usize; 3] = [1, 4, 16];
/// Round trips of the connections with a delay, to the table and then to Redis. DynamoDB answers within "single-digit
/// milliseconds" (AWS: "What is Amazon DynamoDB?"), and Redis in the same zone in much less than one. Both are
/// assumptions.
const TABLE_ROUND_TRIP: Duration = Duration::from_millis(4);
const REDIS_ROUND_TRIP: Duration = Duration::from_micros(500);

/// Measures.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> anyhow::Result<()> {
    let quick = options.quick;
    let comments = Comments::new(options.data.as_deref(), options.comments_or(5_000, 100_000))?;
    let many = comments.all.len();
    report.step(&format!("loading {many} comments"));
    let contestants = Contestants::fill(&comments).await?;
    report.step(&format!("{} items are loaded; comparing pages", contestants.items));

    let mut costs = Vec::new();
    for listing in &contestants.listings {
        for depth in Depth::ALL {
            let ask = Ask::new(listing, depth.page_of(listing))?;
            costs.push(costs::read(&contestants, ask, depth).await?);
        }
    }
    report.table(costs::table(&costs))?;

    let near = contestants.reader(None, false).await?;
    let mut at_one_client = Vec::new();
    for clients in CLIENTS {
        report.step(&format!("reading, {clients} clients"));
        // Each client sends a few requests in a half of a round.
        let load =
            Load { clients, rounds: if quick { 1 } else { 5 }, requests: if quick { 20 } else { 60 + 12 * clients } };
        let readings = read_all(&near, &costs, &Depth::ALL, load).await?;
        let about = format!(
            "{clients} clients, {} rounds of {} requests each way in turn, pages of 20 of {many} comments; the engine answers \
             one call at a time",
            load.rounds, load.requests
        );
        report.table(reads::table(format!("compare: reading, {clients} clients"), about, &readings))?;
        if clients == 1 {
            at_one_client = readings;
        }
    }

    report.step("reading over a road with a delay");
    let (engine, redis) = contestants.addresses();
    let engine = Road::to(address_in(&engine)?, TABLE_ROUND_TRIP)?;
    let redis = Road::to(address_in(&redis)?, REDIS_ROUND_TRIP)?;
    let addresses = (format!("http://{}", engine.address()), format!("redis://{}/", redis.address()));
    let far = contestants.reader(Some((&addresses.0, &addresses.1)), false).await?;
    let load = Load { clients: 1, rounds: if quick { 1 } else { 3 }, requests: if quick { 10 } else { 40 } };
    let over_a_road = read_all(&far, &costs, &[Depth::Deep], load).await?;
    let about = format!(
        "One client, {} rounds of {} requests each way in turn; {} ms to DynamoDB and back, {} ms to Redis and back, and what \
         both take besides",
        load.rounds,
        load.requests,
        TABLE_ROUND_TRIP.as_secs_f64() * 1e3,
        REDIS_ROUND_TRIP.as_secs_f64() * 1e3
    );
    report.table(reads::table("compare: reading over a road with a delay".to_owned(), about, &over_a_road))?;
    let redis_bytes = contestants.redis_bytes;
    contestants.stop().await;

    report.step("writing");
    let writings = writes::measure(if quick { 20 } else { 300 }).await?;
    report.table(writes::table(&writings))?;

    report.step("storage");
    let in_32_sets = storage::redis_bytes_in_32_sets(&comments.all).await?;
    let pagemark = storage::Stored { redis_bytes, ..storage::pagemark(&comments.all)? };
    let four = storage::four_index(&comments.all)?;
    report.table(storage::table(many, pagemark, four, in_32_sets))?;
    let ratio = pagemark.all_bytes() / four.all_bytes();
    report.ratio_noted("storage_vs_four_index", ratio, Limit::None, "DynamoDB's bytes, the less the better");

    let (ours, theirs) = (
        usage::pagemark(&costs, &over_a_road, &writings, pagemark).context("all numbers of ratings were read")?,
        usage::four_index(&costs, &over_a_road, &writings, four).context("all numbers of ratings were read")?,
    );
    let prices = Prices::published()?;
    let workloads = usage::workloads(&comments.all);
    let compared = Compared { ours: &ours, theirs: &theirs, prices: &prices, workloads: &workloads };
    let Summary { tables, plot, losses } = Summary::of(&compared);
    for table in tables {
        report.table(table)?;
    }
    report.plot(plot)?;
    if let Some(losses) = losses {
        report.loses("money", &losses);
    }
    if let Some(slower) = usage::slower(&at_one_client, &over_a_road) {
        report.loses("compare", &slower);
    }
    if let Some(slower) = usage::slower_writes(&writings) {
        report.loses("compare, writing", &slower);
    }
    Ok(())
}

/// Reads every filter at these depths.
async fn read_all(
    reader: &contestants::Reader,
    costs: &[costs::Costs],
    depths: &[Depth],
    load: Load,
) -> anyhow::Result<Vec<Reading>> {
    let mut readings = Vec::new();
    for costs in costs.iter().filter(|costs| depths.contains(&costs.depth)) {
        readings.push(reads::read(reader, costs.ask.clone(), costs.depth, load).await?);
    }
    Ok(readings)
}
