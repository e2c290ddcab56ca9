//! Reads pages: what they consume, and their latency in rounds in which the designs take turns.

use anyhow::{Context, ensure};

use super::{
    contestants::Reader,
    pages::{ComparedPage, DESIGNS},
};
use crate::{
    measure::{Effort, Latencies, as_f64, timed},
    report::{BenchReport, FOUR_INDEXES, FOUR_INDEXES_PAGE_INDEX, PAGEMARK, Plot, PlotLine},
};

/// Reads a page once in each design. Refuses pages that differ in their comments or in the order.
/// Reports units as the service counts them, calls and discarded items.
pub(super) async fn consume(
    report: &mut BenchReport,
    reader: &Reader,
    page: &ComparedPage,
) -> anyhow::Result<()> {
    for design in DESIGNS {
        let read = reader.page(page, design).await?;
        page.expect(&read.comments).context(design)?;
        let cost = if design == PAGEMARK {
            page.pagemark_cost(reader).await?
        } else {
            read.cost
        };
        for (what, value, unit) in [
            ("read", cost.read_units, "read units"),
            ("calls to DynamoDB", f64::from(cost.requests), ""),
            ("discarded", f64::from(cost.items_discarded), "items"),
        ] {
            report.add(format!("{}, {what}: {design}", page.name), value, unit);
        }
    }
    Ok(())
}

/// Refuses a page that differs between the designs.
pub(super) async fn compare(reader: &Reader, page: &ComparedPage) -> anyhow::Result<()> {
    for design in DESIGNS {
        let read = reader.page(page, design).await?;
        page.expect(&read.comments).context(design)?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) effort: Effort,
    /// The delays of table and Redis, for names of figures.
    pub(super) delays: &'static str,
}

pub(super) struct PageLatencies {
    name: String,
    /// Those that the filter names, if the page is one of the pages by filter.
    ratings: Option<usize>,
    latencies: [(&'static str, Latencies); DESIGNS.len()],
}

pub(super) async fn read(
    reader: &Reader,
    page: &ComparedPage,
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
                let (read, took) = timed(reader.page(page, design)).await?;
                ensure!(!read.comments.is_empty(), "an empty page");
                if round > 0 {
                    latencies.record(took);
                }
            }
        }
        latencies.rotate_left(1);
    }
    Ok(PageLatencies {
        name: page.name.clone(),
        ratings: page.ratings,
        latencies,
    })
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
        if let (Some(ratings), Some(latencies)) = (reading.ratings, reading.latencies(design)) {
            points.push((as_f64(ratings as u64), latencies.p50_us() / 1e3));
        }
    }
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    PlotLine::new(name, points)
}
