//! The bills of the default month, as the published page, the report and a plot have them.

use cost::{Billed, MILLION, MarkdownTable, Month, PARTS, Prices, bills, meeting};

use crate::report::{BenchReport, FOUR_INDEXES_STREAM, Plot, PlotLine};

pub(crate) const PLOT: &str = "money";
/// Numbers of page views per write.
const VIEWS_A_WRITE: [f64; 6] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];

/// The bills of the default month.
pub(crate) fn published() -> anyhow::Result<MarkdownTable> {
    bills(&Month::parse("")?, &Prices::published()?)
}

pub(crate) fn published_plot() -> anyhow::Result<Plot> {
    plot(&Month::parse("")?, &Prices::published()?)
}

pub(crate) fn add_bills(report: &mut BenchReport) -> anyhow::Result<()> {
    let prices = Prices::published()?;
    let month = Month::parse("")?;
    for design in month.designs()? {
        let billed = Billed::new(&design, &month, &prices)?;
        let together = ("together", billed.total());
        for (part, usd) in PARTS.into_iter().zip(billed.parts()).chain([together]) {
            report.noted(
                format!("a month, {part}: {}", design.name),
                usd,
                "US dollars",
                &month.text(),
            );
        }
    }
    report.plot(published_plot()?)
}

/// Dollars for a million writes and their page views, in each design, by page views per write.
/// Where another design's line meets Pagemark's is marked.
fn plot(month: &Month, prices: &Prices) -> anyhow::Result<Plot> {
    let designs = month.designs()?;
    let billed = designs
        .iter()
        .map(|design| Billed::new(design, month, prices))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut lines = Vec::new();
    for billed in &billed {
        // It runs beside that of counters in the transaction.
        if billed.design.name == FOUR_INDEXES_STREAM {
            continue;
        }
        let name = billed
            .design
            .name
            .replace("four indexes with the page index and", "the page index and");
        let points = VIEWS_A_WRITE.map(|views| (views, million_writes_usd(billed, views, month)));
        lines.push(PlotLine::new(name, points));
    }
    let axes = [
        "page views for each write",
        "US dollars for a million writes",
    ];
    let mut plot = Plot::new(PLOT, axes, lines);
    if let [ours, others @ ..] = billed.as_slice() {
        for theirs in others {
            if theirs.design.name == FOUR_INDEXES_STREAM {
                continue;
            }
            let views = meeting((ours, theirs), &month.mix);
            if (1.0..1e5).contains(&views) {
                let usd = million_writes_usd(ours, views, month);
                plot.marks.push((views, usd));
            }
        }
    }
    Ok(plot)
}

/// Dollars for a million writes with so many page views for each.
fn million_writes_usd(billed: &Billed<'_>, views: f64, month: &Month) -> f64 {
    billed.at(views, &month.mix) * MILLION / month.writes
}
