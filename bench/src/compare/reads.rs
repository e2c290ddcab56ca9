//! Reads pages: latency and throughput, in rounds in which the designs take turns.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::ensure;
use strum::VariantArray;
use tokio::task::JoinSet;

use super::contestants::{self, Ask, Reader};
use crate::{
    listing::Listing,
    report::{Table, row},
    statistics::{Latencies, Rounds},
};

/// The design to ask.
#[derive(Debug, Clone, Copy)]
pub(super) enum Design {
    Pagemark,
    FourIndex,
}

/// A position in a listing.
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
    pub(super) rounds: Rounds,
    /// Requests in a half of a round.
    requests: u64,
}

/// The load of a reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) clients: usize,
    pub(super) rounds: usize,
    /// Requests in a half of a round.
    pub(super) requests: usize,
}

/// Reads the same page repeatedly.
pub(super) async fn read(reader: &Reader, ask: Ask, depth: Depth, load: Load) -> anyhow::Result<Reading> {
    let mut reading = Reading {
        listing: ask.listing.clone(),
        depth,
        pagemark: Latencies::new()?,
        four: Latencies::new()?,
        rounds: Rounds::default(),
        requests: load.requests as u64,
    };
    // The first round warms up.
    for round in 0..=load.rounds {
        let (ours, took) = ask_all(reader, &ask, Design::Pagemark, load).await?;
        let (theirs, others_took) = ask_all(reader, &ask, Design::FourIndex, load).await?;
        if round > 0 {
            ours.into_iter().for_each(|latency| reading.pagemark.record(latency));
            theirs.into_iter().for_each(|latency| reading.four.record(latency));
            reading.rounds.add(took, others_took);
        }
    }
    Ok(reading)
}

/// Sends the requests of a half of a round. Each client sends the next one as soon as it has an answer.
async fn ask_all(reader: &Reader, ask: &Ask, design: Design, load: Load) -> anyhow::Result<(Vec<Duration>, Duration)> {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    let began = Instant::now();
    for _ in 0..load.clients {
        let (reader, ask, asked) = (reader.clone(), ask.clone(), asked.clone());
        clients.spawn(async move {
            let mut latencies = Vec::new();
            while asked.fetch_add(1, Ordering::Relaxed) < load.requests {
                let began = Instant::now();
                let shown = match design {
                    Design::Pagemark => reader.pagemark(&ask).await?.len(),
                    Design::FourIndex => reader.four_index(&ask, false).await?.comments.len(),
                };
                latencies.push(began.elapsed());
                ensure!(shown > 0, "a page of {} is empty", ask.listing.key);
            }
            Ok(latencies)
        });
    }
    let mut latencies = Vec::with_capacity(load.requests);
    while let Some(done) = clients.join_next().await {
        latencies.extend(done??);
    }
    Ok((latencies, began.elapsed()))
}

/// The table for one number of clients.
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
        let Reading { listing, depth, pagemark, four, rounds, requests } = reading;
        let (lowest, highest) = rounds.ratio_range();
        row![
            contestants::name(listing),
            listing.ratings(),
            depth.to_string(),
            pagemark.p50_us(),
            pagemark.p99_us(),
            rounds.our_rate(*requests),
            four.p50_us(),
            four.p99_us(),
            rounds.bare_rate(*requests),
            rounds.ratio(),
            lowest,
            highest,
        ]
    };
    Table::new(name, about, &columns, readings.iter().map(row))
}
