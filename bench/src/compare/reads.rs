//! Reads pages: what they consume, and their latency in rounds in which the designs take turns.

use anyhow::{Context, ensure};
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use four_index::ReadCost;
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
    ask.expect(&reader.pagemark(ask).await?)?;
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
    let mut consumed = vec![(
        PAGEMARK,
        ReadCost {
            requests: 1,
            read_units: units,
            ..ReadCost::default()
        },
    )];
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
        ask.expect(&page.comments).context(design)?;
        consumed.push((design, page.cost));
    }
    if !is_reported {
        return Ok(());
    }
    let page = ask.name();
    for (design, cost) in consumed {
        report.add(
            format!("{page}, read: {design}"),
            cost.read_units,
            "read units",
        );
        report.add(
            format!("{page}, calls to DynamoDB: {design}"),
            f64::from(cost.requests),
            "",
        );
        report.add(
            format!("{page}, discarded: {design}"),
            f64::from(cost.items_discarded),
            "items",
        );
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
    Ok(PageLatencies {
        name: ask.name(),
        ratings: ask.listing.named_ratings(),
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
        for design in DESIGNS {
            let Some(latencies) = self.latencies(design) else {
                continue;
            };
            for (share, us) in latencies.shown() {
                let name = format!("{}{}, {share}: {design}", self.name, how.delays);
                report.add(name, us, "us");
            }
        }
    }
}

/// The medians by the number of ratings. Pagemark sends one query in any case, so its line stands
/// for equal delays too. That of BatchGetItem, which is one call too, is left out: it runs beside
/// Pagemark's.
pub(super) fn plot(equal: &[PageLatencies], varying: &[PageLatencies]) -> Plot {
    Plot::new(
        "ratings",
        ["ratings in the filter (0: any)", "latency p50, ms"],
        vec![
            line(PAGEMARK, PAGEMARK, varying),
            line(FOUR_INDEXES, FOUR_INDEXES, varying),
            line(FOUR_INDEXES_PAGE_INDEX, FOUR_INDEXES_PAGE_INDEX, varying),
            line("four indexes, equal delays", FOUR_INDEXES, equal),
            line(
                "with the page index, equal delays",
                FOUR_INDEXES_PAGE_INDEX,
                equal,
            ),
        ],
    )
}

/// The medians of a design.
fn line(name: &str, design: &str, readings: &[PageLatencies]) -> PlotLine {
    let mut points = Vec::new();
    for reading in readings {
        if let Some(latencies) = reading.latencies(design) {
            let ratings = as_f64(reading.ratings as u64);
            points.push((ratings, latencies.p50_us() / 1e3));
        }
    }
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    PlotLine::new(name, points)
}
