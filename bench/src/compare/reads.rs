//! Reads pages: latency and throughput, in rounds in which the designs take turns.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;
use model::Comment;
use strum::VariantArray;

use super::contestants::{self, Ask, Reader};
use crate::{
    listing::Listing,
    options::Effort,
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
    load: Effort,
}

pub(super) async fn read(reader: &Reader, ask: &Ask, depth: Depth, load: Effort) -> anyhow::Result<Reading> {
    // The first round warms up.
    let (mut pagemark, mut four, mut is_warm) = (Latencies::new()?, Latencies::new()?, false);
    let rounds = Rounds::run(load.rounds, async || {
        let ours = latencies(load.a_half, async || reader.pagemark(ask).await).await?;
        let theirs = latencies(load.a_half, async || Ok(reader.four_index(ask, false).await?.comments)).await?;
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

/// The table: one row per filter and page, read by one client.
pub(super) fn table(name: &str, load: Effort, about: &str, readings: &[Reading]) -> Table {
    let Effort { rounds, a_half } = load;
    let about = format!("One client, {rounds} rounds of {a_half} requests each way in turn{about}");
    let row = |reading: &Reading| {
        let Reading { listing, depth, pagemark, four, rounds, load } = reading;
        let (lowest, highest) = rounds.ratio_range();
        row![
            ("filter", contestants::name(listing)),
            ("ratings", listing.ratings()),
            ("page", depth.to_string()),
            ("Pagemark p50, us", pagemark.p50_us()),
            ("p99, us", pagemark.p99_us()),
            ("pages/s", rounds.our_rate(load.a_half.into())),
            ("four-index p50, us", four.p50_us()),
            ("p99, us", four.p99_us()),
            ("pages/s", rounds.bare_rate(load.a_half.into())),
            ("rate of Pagemark / four-index", rounds.ratio()),
            ("lowest", lowest),
            ("highest", highest),
        ]
    };
    Table::new(name, about, readings.iter().map(row))
}
