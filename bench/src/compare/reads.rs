//! Reads pages: what they consume, and their latency in rounds in which the designs take turns.

use anyhow::{Context, ensure};
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use model::Comment;

use super::contestants::{Ask, Reader, one_query};
use crate::{
    measure::{Effort, Latencies, as_f64, timed},
    report::{FOUR_INDEXES, FOUR_INDEXES_COUNTERS, PAGEMARK, Plot, Report, Series},
    stores::bare_query,
};

/// Reads a page once in each design. Refuses pages that differ in their comments or in the order. Reports units as the
/// service counts them, calls, discarded items, and the bytes in the address that say where the page is.
pub(super) async fn consume(report: &mut Report, reader: &Reader, ask: &Ask, is_reported: bool) -> anyhow::Result<()> {
    let compare = |comments: &[Comment]| ask.listing.expect_comments(ask.number, comments);
    compare(&reader.pagemark(ask).await?)?;
    let start = reader.pages.start(&ask.listing, ask.number).await?;
    let query = bare_query(&reader.pages.table, &ask.listing.key, start.as_ref())?;
    let answer = query.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await?;
    let units = answer.consumed_capacity().and_then(|consumed| consumed.capacity_units()).context("units")?;
    let mut consumed = vec![(PAGEMARK, units, 1, 0, format!("page={}", ask.number))];
    for (design, skip_empty) in [(FOUR_INDEXES, false), (FOUR_INDEXES_COUNTERS, true)] {
        let page = reader.four_index(ask, skip_empty).await?;
        compare(&page.comments)?;
        let cost = page.cost;
        let cursor = ask.cursor.as_ref().map_or(String::new(), |cursor| format!("cursor={}", cursor.encode()));
        consumed.push((design, cost.read_units, cost.requests, cost.items_discarded, cursor));
    }
    if is_reported {
        for (design, units, requests, discarded, address) in consumed {
            let name = |what: &str| format!("{}, {what}: {design}", ask.name());
            report.add(name("read"), units, "read units");
            report.add(name("calls to DynamoDB"), f64::from(requests), "");
            report.add(name("discarded"), f64::from(discarded), "items");
            report.add(name("position in the address"), as_f64(address.len() as u64), "bytes");
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) effort: Effort,
    /// Whether the table answers several calls at the same time. If not, the latency of parallel queries says nothing.
    pub(super) answers_in_parallel: bool,
    /// The table's delays, for names of figures.
    pub(super) delays: &'static str,
}

pub(super) struct Reading {
    name: String,
    ratings: usize,
    pagemark: Latencies,
    /// `None` where the page unites several queries, and the table answers one call at a time.
    four: Option<Latencies>,
}

pub(super) async fn read(reader: &Reader, ask: &Ask, how: How) -> anyhow::Result<Reading> {
    let is_fair = how.answers_in_parallel || one_query(&ask.listing);
    let (mut pagemark, mut four) = (Latencies::default(), Latencies::default());
    // The first round warms up. The design that goes first changes with each round.
    for round in 0..=how.effort.rounds {
        for is_ours in [round % 2 == 0, round % 2 == 1].into_iter().filter(|is_ours| *is_ours || is_fair) {
            let latencies = if is_ours { &mut pagemark } else { &mut four };
            for _ in 0..how.effort.a_turn {
                let page = async {
                    if is_ours { reader.pagemark(ask).await } else { Ok(reader.four_index(ask, false).await?.comments) }
                };
                let (comments, took) = timed(page).await?;
                ensure!(!comments.is_empty(), "an empty page");
                if round > 0 {
                    latencies.record(took);
                }
            }
        }
    }
    let (name, ratings) = (ask.name(), ask.listing.ratings());
    Ok(Reading { name, ratings, pagemark, four: is_fair.then_some(four) })
}

impl Reading {
    pub(super) fn report(&self, report: &mut Report, how: How) {
        let name = |what: &str| format!("{}{}, {what}", self.name, how.delays);
        for (design, latencies) in [(PAGEMARK, Some(&self.pagemark)), (FOUR_INDEXES, self.four.as_ref())] {
            if let Some(latencies) = latencies {
                report.add(name(&format!("p50: {design}")), latencies.p50_us(), "us");
                report.add(name(&format!("p99: {design}")), latencies.p99_us(), "us");
            }
        }
        if let Some(four) = &self.four {
            let ratio = self.pagemark.p50_us() / four.p50_us();
            report.noted(name("Pagemark by four indexes"), ratio, "", "p50s; the less the better");
        }
    }
}

/// Latency of both designs by number of ratings: the median, and the 99th percentile.
pub(super) fn plot(readings: &[Reading]) -> Plot {
    let line = |design: &str, name: &str, of: fn(&Reading) -> Option<&Latencies>, figure: fn(&Latencies) -> f64| {
        let point = |reading: &Reading| Some((as_f64(reading.ratings as u64), figure(of(reading)?)));
        Series { name: format!("{design}, {name}"), points: readings.iter().filter_map(point).collect() }
    };
    let figures = [("p50", Latencies::p50_us as fn(&Latencies) -> f64), ("p99", Latencies::p99_us)];
    let series = figures.into_iter().flat_map(|(name, figure)| {
        [line(PAGEMARK, name, |of| Some(&of.pagemark), figure), line(FOUR_INDEXES, name, |of| of.four.as_ref(), figure)]
    });
    let axes = ["ratings", "latency, us"];
    Plot { name: "ratings", axes, series: series.collect() }
}
