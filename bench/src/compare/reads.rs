//! Reads pages: latency, in rounds in which the designs take turns.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;
use futures_util::future::try_join_all;
use strum::VariantArray;

use super::contestants::{self, Ask, Reader};
use crate::{
    listing::Listing,
    options::Effort,
    report::{FOUR_INDEXES, FOUR_INDEXES_COUNTERS, PAGEMARK, Plot, Quantity, Report, Series, Table, row},
    statistics::{Latencies, as_f64, timed},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Depth {
    First,
    #[strum(to_string = "middle")]
    Deep,
    Last,
}

impl Depth {
    /// The number of the page at this depth of a listing.
    pub(crate) fn page_of(self, listing: &Listing) -> u64 {
        match self {
            Self::First => 1,
            Self::Deep => listing.pages().div_ceil(2),
            Self::Last => listing.pages(),
        }
    }
}

/// The latencies of a filter's page in both designs.
pub(super) struct Reading {
    listing: Arc<Listing>,
    depth: Depth,
    pagemark: Latencies,
    /// `None` where the page unites several queries, and the table answers one call at a time.
    four: Option<Latencies>,
}

/// Whether the four-index design gets the page by one query. Otherwise it sends one query for each rating in parallel.
pub(super) fn is_one_query(listing: &Listing) -> bool {
    listing.key.filter.ratings().is_none_or(|ratings| ratings.iter().count() == 1)
}

/// How pages are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) load: Effort,
    /// Callers at the same time. They share the requests of a half of a round.
    pub(super) callers: u32,
    /// Whether the table answers several calls at the same time. If not, the latency of parallel queries says nothing.
    pub(super) answers_in_parallel: bool,
    /// Whether the four-index design reads its counters first, and leaves out ratings without comments.
    pub(super) skips_empty: bool,
}

pub(super) async fn read(reader: &Reader, ask: &Ask, depth: Depth, how: How) -> anyhow::Result<Reading> {
    let is_fair = how.answers_in_parallel || is_one_query(&ask.listing);
    let (mut pagemark, mut four) = (Latencies::new()?, Latencies::new()?);
    // The first round warms up. The design that goes first changes with each round.
    for round in 0..=how.load.rounds {
        for is_ours in [round % 2 == 0, round % 2 == 1] {
            if !is_ours && !is_fair {
                continue;
            }
            let latencies = if is_ours { &mut pagemark } else { &mut four };
            let callers = (0..how.callers).map(|_| tokio::spawn(requests(reader.clone(), ask.clone(), is_ours, how)));
            for took in try_join_all(callers).await? {
                let took = took?;
                if round > 0 {
                    took.into_iter().for_each(|took| latencies.record(took));
                }
            }
        }
    }
    Ok(Reading { listing: ask.listing.clone(), depth, pagemark, four: is_fair.then_some(four) })
}

/// The durations of one caller's requests, one after the other.
async fn requests(reader: Reader, ask: Ask, is_ours: bool, how: How) -> anyhow::Result<Vec<Duration>> {
    let mut durations = Vec::new();
    for _ in 0..how.load.a_half / how.callers {
        let page = async {
            if is_ours {
                reader.pagemark(&ask).await
            } else {
                Ok(reader.four_index(&ask, how.skips_empty).await?.comments)
            }
        };
        let (comments, took) = timed(page).await?;
        ensure!(!comments.is_empty(), "an empty page");
        durations.push(took);
    }
    Ok(durations)
}

/// The table: one row per filter and page.
pub(super) fn table(name: &str, how: How, about: &str, readings: &[Reading]) -> Table {
    let How { load: Effort { rounds, a_half }, callers, answers_in_parallel, .. } = how;
    let left_out = if answers_in_parallel { "" } else { " Four indexes are left out where they send several queries." };
    let callers = if callers == 1 { "One caller".to_owned() } else { format!("{callers} callers") };
    let about = format!("{callers}, {rounds} rounds of {a_half} requests to each design in turn{about}.{left_out}");
    let row = |Reading { listing, depth, pagemark, four }: &Reading| {
        let theirs = |of: fn(&Latencies) -> f64| four.as_ref().map(of);
        row![
            ("filter", contestants::name(listing)),
            ("ratings", listing.ratings()),
            ("page", depth.to_string()),
            ("Pagemark p50, us", pagemark.p50_us()),
            ("p99, us", pagemark.p99_us()),
            ("four indexes p50, us", theirs(Latencies::p50_us)),
            ("p99, us", theirs(Latencies::p99_us)),
            ("p50 of Pagemark / four indexes", theirs(Latencies::p50_us).map(|theirs| pagemark.p50_us() / theirs)),
        ]
    };
    Table::new(name, about, readings.iter().map(row))
}

/// The middle pages in any language, by their number of ratings.
fn by_ratings(readings: &[Reading]) -> Vec<(usize, &Reading)> {
    let is_shown = |reading: &&Reading| reading.depth == Depth::Deep && contestants::is_any_language(&reading.listing);
    let mut shown: Vec<_> =
        readings.iter().filter(is_shown).map(|reading| (reading.listing.ratings(), reading)).collect();
    shown.sort_by_key(|(ratings, _)| *ratings);
    shown
}

/// Reports the medians of the middle pages by their number of ratings, for each number that has a quantity.
pub(super) fn numbers(report: &mut Report, readings: &[Reading], quantities: &[(usize, Quantity)]) {
    for (ratings, reading) in by_ratings(readings) {
        let quantity = quantities.iter().find(|(of, _)| *of == ratings);
        if let Some(((_, quantity), four)) = quantity.zip(reading.four.as_ref()) {
            report.number(*quantity, PAGEMARK, reading.pagemark.p50_us());
            report.number(*quantity, FOUR_INDEXES, four.p50_us());
        }
    }
}

/// The table of a page that four indexes read in two ways: by a query for each rating, and after their counters.
pub(super) fn skipping_table(about: &str, queried: &Reading, skipped: &Reading) -> Table {
    let designs = [
        (PAGEMARK, Some(&queried.pagemark)),
        (FOUR_INDEXES, queried.four.as_ref()),
        (FOUR_INDEXES_COUNTERS, skipped.four.as_ref()),
    ];
    let row = |(design, latencies): (&str, Option<&Latencies>)| {
        let figure = |of: fn(&Latencies) -> f64| latencies.map(of);
        row![("design", design), ("p50, us", figure(Latencies::p50_us)), ("p99, us", figure(Latencies::p99_us))]
    };
    let about = format!(
        "The first page under 1, 4 and 5 stars of a product without 2, 3 and 4 stars{about}. Four indexes send a query for each \
         rating. With counters, they read these first, and skip the empty rating."
    );
    Table::new("compare: a product that lacks a rating", about, designs.map(row))
}

/// Latency of both designs by number of ratings: the median, and the 99th percentile.
pub(super) fn plot(readings: &[Reading]) -> Plot {
    let readings = by_ratings(readings);
    let line = |design: &str, name: &str, of: fn(&Reading) -> Option<&Latencies>, figure: fn(&Latencies) -> f64| {
        let points =
            readings.iter().filter_map(|(ratings, reading)| Some((as_f64(*ratings as u64), figure(of(reading)?))));
        Series { name: format!("{design}, {name}"), points: points.collect() }
    };
    let series = [("p50", Latencies::p50_us as fn(&Latencies) -> f64), ("p99", Latencies::p99_us)];
    let series = series.into_iter().flat_map(|(name, figure)| {
        [line(PAGEMARK, name, |of| Some(&of.pagemark), figure), line(FOUR_INDEXES, name, |of| of.four.as_ref(), figure)]
    });
    Plot::new(
        "ratings",
        "Latency of the middle page by number of ratings, from a table that answers in parallel with varying delays",
        ["ratings", "latency, us"],
        series,
    )
}
