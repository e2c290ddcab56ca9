//! Reads pages: latency, in rounds in which the designs take turns.

use std::sync::Arc;

use anyhow::ensure;
use strum::VariantArray;

use super::contestants::{self, Ask, Reader};
use crate::{
    listing::Listing,
    options::Effort,
    report::{FOUR_INDEXES, PAGEMARK, Plot, Quantity, Report, Series, Table, row},
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
    /// `None` where the page unites several queries.
    four: Option<Latencies>,
}

/// Whether the four-index design gets the page by one query. Otherwise it sends one query for each rating in parallel,
/// and the engine answers one call at a time. So such a page's latency here would say nothing.
pub(super) fn is_one_query(listing: &Listing) -> bool {
    listing.key.filter.ratings().is_none_or(|ratings| ratings.iter().count() == 1)
}

pub(super) async fn read(reader: &Reader, ask: &Ask, depth: Depth, load: Effort) -> anyhow::Result<Reading> {
    let is_one_query = is_one_query(&ask.listing);
    let (mut pagemark, mut four) = (Latencies::new()?, Latencies::new()?);
    // The first round warms up. The design that goes first changes with each round.
    for round in 0..=load.rounds {
        for is_ours in [round % 2 == 0, round % 2 == 1] {
            if !is_ours && !is_one_query {
                continue;
            }
            for _ in 0..load.a_half {
                let page = async {
                    if is_ours { reader.pagemark(ask).await } else { Ok(reader.four_index(ask, false).await?.comments) }
                };
                let (comments, took) = timed(page).await?;
                ensure!(!comments.is_empty(), "an empty page");
                if round > 0 {
                    if is_ours { pagemark.record(took) } else { four.record(took) }
                }
            }
        }
    }
    Ok(Reading { listing: ask.listing.clone(), depth, pagemark, four: is_one_query.then_some(four) })
}

/// The table: one row per filter and page, read by one client.
pub(super) fn table(name: &str, load: Effort, about: &str, readings: &[Reading]) -> Table {
    let Effort { rounds, a_half } = load;
    let about = format!(
        "One client, {rounds} rounds of {a_half} requests each way in turn{about}. Four indexes are left out where they send \
         several queries."
    );
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

/// Reports the medians of the middle pages under one rating and under any.
pub(super) fn numbers(report: &mut Report, readings: &[Reading], [one, any]: [Quantity; 2]) {
    for (ratings, reading) in by_ratings(readings) {
        if let Some(four) = &reading.four {
            let quantity = if ratings == 1 { one } else { any };
            report.number(quantity, PAGEMARK, reading.pagemark.p50_us());
            report.number(quantity, FOUR_INDEXES, four.p50_us());
        }
    }
}

/// Latency by number of ratings. A design with one query for each rating has points only where it sends one query.
pub(super) fn plot(readings: &[Reading]) -> Plot {
    let readings = by_ratings(readings);
    let point = |ratings: usize, latencies: &Latencies| (as_f64(ratings as u64), latencies.p50_us());
    let ours = readings.iter().map(|(ratings, reading)| point(*ratings, &reading.pagemark)).collect();
    let mut series = vec![Series { name: PAGEMARK.to_owned(), points: ours }];
    // A separate series each, because nothing was measured between them.
    for (ratings, reading) in readings {
        if let Some(four) = &reading.four {
            let what = if ratings == 1 { "one rating" } else { "any rating" };
            let name = format!("{FOUR_INDEXES}, one query for {what}");
            series.push(Series { name, points: vec![point(ratings, four)] });
        }
    }
    Plot::new("ratings", "Latency of the middle page by number of ratings", ["ratings", "latency p50, us"], series)
}
