//! Reads pages: latency and throughput, in rounds in which the designs take turns.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::ensure;
use model::Comment;
use strum::VariantArray;

use super::contestants::{self, Ask, Reader};
use crate::{
    listing::Listing,
    report::{Table, row},
    statistics::{Latencies, Rounds, timed},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Depth {
    First,
    #[strum(to_string = "middle")]
    Deep,
    Last,
}

impl Depth {
    /// The number of the page at this depth of a listing.
    pub(super) fn page_of(self, listing: &Listing) -> u64 {
        match self {
            Self::First => 1,
            Self::Deep => listing.pages().div_ceil(2),
            Self::Last => listing.pages(),
        }
    }
}

/// The latencies of a filter's page in both designs.
pub(super) struct Reading {
    pub(super) listing: Arc<Listing>,
    pub(super) depth: Depth,
    pub(super) pagemark: Latencies,
    pub(super) four: Latencies,
    rounds: Rounds,
    load: Load,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) rounds: u32,
    /// Requests in a half of a round.
    pub(super) requests: u32,
}

impl fmt::Display for Load {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} rounds of {} requests each way in turn", self.rounds, self.requests)
    }
}

pub(super) async fn read(reader: &Reader, ask: &Ask, depth: Depth, load: Load) -> anyhow::Result<Reading> {
    // The first round warms up.
    let (mut pagemark, mut four, mut is_warm) = (Latencies::new()?, Latencies::new()?, false);
    let rounds = Rounds::run(load.rounds, async || {
        let ours = latencies(load.requests, async || reader.pagemark(ask).await).await?;
        let theirs = latencies(load.requests, async || Ok(reader.four_index(ask, false).await?.comments)).await?;
        let sums = (ours.iter().sum(), theirs.iter().sum());
        if is_warm {
            ours.into_iter().for_each(|latency| pagemark.record(latency));
            theirs.into_iter().for_each(|latency| four.record(latency));
        }
        is_warm = true;
        Ok(sums)
    });
    let rounds = rounds.await?;
    Ok(Reading { listing: ask.listing.clone(), depth, pagemark, four, rounds, load })
}

async fn latencies(
    requests: u32,
    page: impl AsyncFn() -> anyhow::Result<Vec<Comment>>,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    for _ in 0..requests {
        let (comments, took) = timed(page()).await?;
        ensure!(!comments.is_empty(), "an empty page");
        latencies.push(took);
    }
    Ok(latencies)
}

/// The table: one row per filter and page.
pub(super) fn table(name: &str, about: String, readings: &[Reading]) -> Table {
    let columns = [
        "filter",
        "ratings",
        "page",
        "Pagemark p50, us",
        "p99, us",
        "pages/s",
        "four-index p50, us",
        "p99, us",
        "pages/s",
        "rate of Pagemark / four-index",
        "lowest",
        "highest",
    ];
    let row = |reading: &Reading| {
        let Reading { listing, depth, pagemark, four, rounds, load } = reading;
        let (lowest, highest) = rounds.ratio_range();
        row![
            contestants::name(listing),
            listing.ratings(),
            depth.to_string(),
            pagemark.p50_us(),
            pagemark.p99_us(),
            rounds.our_rate(load.requests.into()),
            four.p50_us(),
            four.p99_us(),
            rounds.bare_rate(load.requests.into()),
            rounds.ratio(),
            lowest,
            highest,
        ]
    };
    Table::new(name, about, &columns, readings.iter().map(row))
}
