//! Reads pages: what they consume, and their latency in rounds in which the designs take turns.

use anyhow::{Context, ensure};
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use model::Comment;

use super::contestants::{Ask, Reader};
use crate::{
    measure::{Effort, Latencies, as_f64, timed},
    report::{
        BenchReport, FOUR_INDEXES, FOUR_INDEXES_BATCH, FOUR_INDEXES_PAGE_INDEX, PAGEMARK, Plot,
        PlotLine,
    },
    stores::bare_query,
};

/// The designs whose latency is compared.
const DESIGNS: [&str; 4] = [
    PAGEMARK,
    FOUR_INDEXES,
    FOUR_INDEXES_PAGE_INDEX,
    FOUR_INDEXES_BATCH,
];

/// Reads a page once in each design. Refuses pages that differ in their comments or in the order.
/// Reports units as the service counts them, calls and discarded items.
pub(super) async fn consume(
    report: &mut BenchReport,
    reader: &Reader,
    ask: &Ask,
    is_reported: bool,
) -> anyhow::Result<()> {
    let compare = |comments: &[Comment]| ask.listing.expect_comments(ask.number, comments);
    compare(&reader.pagemark(ask).await?)?;
    let start = reader.pages.start(&ask.listing, ask.number).await?;
    let query = bare_query(&reader.pages.table, &ask.listing.key, start.as_ref())?;
    let answer = query
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await?;
    let units = answer
        .consumed_capacity()
        .and_then(|consumed| consumed.capacity_units())
        .context("units")?;
    let mut consumed = vec![(PAGEMARK, units, 1, 0)];
    for (design, page) in [
        (FOUR_INDEXES, reader.four_index(ask).await?),
        (
            FOUR_INDEXES_PAGE_INDEX,
            reader.four_index_by_number(ask, false).await?,
        ),
        (
            FOUR_INDEXES_BATCH,
            reader.four_index_by_number(ask, true).await?,
        ),
    ] {
        compare(&page.comments).context(design)?;
        let cost = page.cost;
        consumed.push((design, cost.read_units, cost.requests, cost.items_discarded));
    }
    if is_reported {
        for (design, units, requests, discarded) in consumed {
            let name = |what: &str| format!("{}, {what}: {design}", ask.name());
            report.add(name("read"), units, "read units");
            report.add(name("calls to DynamoDB"), f64::from(requests), "");
            report.add(name("discarded"), f64::from(discarded), "items");
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) effort: Effort,
    /// The table's delays, for names of figures.
    pub(super) delays: &'static str,
}

pub(super) struct PageLatencies {
    name: String,
    /// How many the filter names; 0 for any rating.
    ratings: usize,
    latencies: [(&'static str, Latencies); DESIGNS.len()],
}

pub(super) async fn read(
    reader: &Reader,
    ask: &Ask,
    effort: Effort,
) -> anyhow::Result<PageLatencies> {
    let mut latencies = DESIGNS.map(|design| (design, Latencies::default()));
    // The first round warms up. The design that goes first changes with each round.
    for round in 0..=effort.rounds {
        for (design, latencies) in &mut latencies {
            let turn = if round == 0 {
                effort.a_turn.div_ceil(10)
            } else {
                effort.a_turn
            };
            for _ in 0..turn {
                let (comments, took) = timed(page(reader, ask, design)).await?;
                ensure!(!comments.is_empty(), "an empty page");
                if round > 0 {
                    latencies.record(took);
                }
            }
        }
        latencies.rotate_left(1);
    }
    let ratings = ask
        .listing
        .key
        .filter
        .ratings()
        .map_or(0, |ratings| ratings.iter().count());
    Ok(PageLatencies {
        name: ask.name(),
        ratings,
        latencies,
    })
}

async fn page(reader: &Reader, ask: &Ask, design: &str) -> anyhow::Result<Vec<Comment>> {
    match design {
        PAGEMARK => reader.pagemark(ask).await,
        FOUR_INDEXES_PAGE_INDEX => Ok(reader.four_index_by_number(ask, false).await?.comments),
        FOUR_INDEXES_BATCH => Ok(reader.four_index_by_number(ask, true).await?.comments),
        _ => Ok(reader.four_index(ask).await?.comments),
    }
}

impl PageLatencies {
    fn latencies(&self, design: &str) -> Option<&Latencies> {
        self.latencies
            .iter()
            .find(|(name, _)| *name == design)
            .map(|(_, latencies)| latencies)
    }

    pub(super) fn report(&self, report: &mut BenchReport, how: How) {
        let name = |what: &str| format!("{}{}, {what}", self.name, how.delays);
        for design in DESIGNS {
            let Some(latencies) = self.latencies(design) else {
                continue;
            };
            for (share, us) in latencies.shown() {
                report.add(name(&format!("{share}: {design}")), us, "us");
            }
        }
    }
}

/// The medians by the number of ratings. Pagemark sends one query in any case, so its line stands
/// for equal delays too. That of BatchGetItem, which is one call too, is left out: it runs beside
/// Pagemark's.
pub(super) fn plot(readings: &[Vec<PageLatencies>]) -> Plot {
    let line = |delays: usize, design: &str, name: &str| {
        let readings = readings.get(delays).into_iter().flatten();
        let ms = |reading: &PageLatencies| Some(reading.latencies(design)?.p50_us() / 1e3);
        let mut points: Vec<_> = readings
            .filter_map(|of| Some((as_f64(of.ratings as u64), ms(of)?)))
            .collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        PlotLine::new(name, points)
    };
    let mut series: Vec<_> = DESIGNS
        .into_iter()
        .take(3)
        .map(|design| line(1, design, design))
        .collect();
    series.push(line(0, FOUR_INDEXES, "four indexes, equal delays"));
    series.push(line(
        0,
        FOUR_INDEXES_PAGE_INDEX,
        "with the page index, equal delays",
    ));
    Plot::new(
        "ratings",
        ["ratings in the filter (0: any)", "latency p50, ms"],
        series,
    )
}
