//! What a month costs in each design, by published prices: `bench cost` for a reader's own month,
//! and `compare` for the default one. Nothing is measured, and no server is needed.
//!
//! **What is billed**, as AWS documents it ("DynamoDB read and write operations", "DynamoDB item
//! sizes and formats", "Using Global Secondary Indexes in DynamoDB"): a write takes a unit for each
//! 1 KB of the item, in the table and in each index that the write changes; two in an index where
//! it changes the item's key. A transaction takes twice as many in the table. A Query takes half a
//! unit for each 4 KB of all its items together, rounded up. Storage is billed by size plus 100
//! bytes for each item; point-in-time recovery by the table's size. A GB has 1,000,000,000 bytes.
//! Stream reads by Lambda are free.

mod bill;
mod model;
mod prices;

use anyhow::{Context, ensure};
use clap::Parser;
use itertools::Itertools;

use crate::report::{BenchReport, MarkdownTable, Plot, PlotLine, text};
use bill::{Billed, PARTS, cheaper, meeting};
use model::REDIS_BYTES;
pub(crate) use model::{Write, designs, stored_bytes};
pub(crate) use prices::Prices;
use prices::TableClass;

pub(crate) const PLOT: &str = "money";
const MILLION: f64 = 1e6;
/// The number of ratings whose break-even is printed, beside that of the mix.
const SHOWN_RATINGS: usize = 3;
/// Numbers of page views per write.
const VIEWS_A_WRITE: [f64; 6] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];
const LEFT_OUT: &str = "\
Left out, because it is equal in all designs: API, load balancer, logs, data to readers.
Left out of Pagemark: alarms, secrets, the repair job's function and the journal, some dollars (docs/deploy.md).
Left out of all: free tiers, reserved capacity, taxes, and caches in front (DAX, a CDN).
Assumed: all comments have the same length, all pages are full. Function time and Redis bytes are measured.";

#[derive(Debug, Clone, Parser)]
#[command(after_help = LEFT_OUT)]
pub(crate) struct Month {
    /// Comments stored all month. Numbers may be written like 1.5e6.
    #[arg(long, value_name = "N", default_value = "10e6", value_parser = number)]
    comments: f64,
    /// Writes in the month: 90 % new comments, 5 % text edits, 2 % changes of the rating, 3 %
    /// deletions.
    #[arg(long, value_name = "N", default_value = "1e6", value_parser = number)]
    writes: f64,
    /// Page views in the month. A page has 20 comments.
    #[arg(long, value_name = "N", default_value = "100e6", value_parser = number)]
    views: f64,
    /// Percentages of page views: without a filter by rating, then with filters by 1, 2, 3 and 4
    /// ratings.
    #[arg(
        long,
        value_name = "PERCENT,...",
        value_delimiter = ',',
        default_value = "75,10,5,5,5"
    )]
    mix: Vec<f64>,
    /// The percentage of page views that are of a first page. The default is assumed: measure it in
    /// your access log.
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = number)]
    front: f64,
    /// The class of the table, Standard or Standard-IA. By default, for each design the one that
    /// costs less.
    #[arg(long = "table-class", value_name = "CLASS")]
    class: Option<String>,
    /// Bytes of a comment's text.
    #[arg(long, value_name = "BYTES", default_value = "400", value_parser = clap::value_parser!(u32).range(1..=40_000))]
    text: u32,
    /// How many pages four indexes read to show one. 1 if readers bring a cursor. N if they open
    /// page N by its number: only the pages before it lead there. Pagemark reads one.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    depth: u32,
    /// Bytes of a comment in Pagemark's Redis. Small products take more.
    #[arg(long, value_name = "BYTES", default_value_t = REDIS_BYTES, value_parser = number)]
    redis_bytes: f64,
}

impl Month {
    fn parse(line: &str) -> anyhow::Result<Self> {
        let month = Self::try_parse_from(["cost"].into_iter().chain(line.split_whitespace()))?;
        month.check_mix()?;
        Ok(month)
    }

    fn check_mix(&self) -> anyhow::Result<()> {
        let mix = self.mix.iter().join(",");
        let sum: f64 = self.mix.iter().sum();
        ensure!(
            self.mix.iter().all(|percent| *percent >= 0.0),
            "--mix: a percentage is below 0 or no number"
        );
        ensure!(
            self.mix.len() <= 5,
            "--mix: {mix} has more than five percentages; a filter by all ratings is none"
        );
        ensure!(
            self.front <= 100.0,
            "--front: {} is above 100 %",
            self.front
        );
        ensure!(
            (sum - 100.0).abs() < 0.01,
            "--mix: {mix} is {sum} % together, not 100 %"
        );
        Ok(())
    }

    fn takes(&self, class: &TableClass) -> bool {
        self.class.as_ref().is_none_or(|name| *name == class.name)
    }

    fn text(&self) -> String {
        let [comments, writes, views] = [self.comments, self.writes, self.views].map(text);
        let mix = self.mix.iter().join(", ");
        format!(
            "{comments} comments of {} bytes, {writes} writes, {views} page views, {} % of first pages; filters by 0, 1, 2, 3, 4 ratings: {mix} %",
            self.text,
            text(self.front)
        )
    }
}

pub(crate) fn print(month: &Month) -> anyhow::Result<()> {
    month.check_mix()?;
    let prices = Prices::published()?;
    println!(
        "{}. Prices: {}, looked up on {}.\n",
        month.text(),
        prices.region,
        prices.looked_up
    );
    println!("{}\n{LEFT_OUT}", table(month, &prices)?.text());
    Ok(())
}

/// Each design's bill by part, and from how many page views for each write on Pagemark is cheaper.
fn table(month: &Month, prices: &Prices) -> anyhow::Result<MarkdownTable> {
    let designs = designs(month.text, month.depth, month.redis_bytes)?;
    let mut head = vec!["US dollars".to_owned()];
    for design in &designs {
        head.push(design.name.replace("four indexes with", "with"));
    }
    let billed = designs
        .iter()
        .map(|design| Billed::new(design, month, prices))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let ours = billed.first().context("a design")?;
    let mut rows = Vec::new();
    for (part, name) in PARTS.into_iter().enumerate() {
        let mut row = vec![name.to_owned()];
        for billed in &billed {
            row.push(dollars(
                billed.parts().get(part).copied().unwrap_or_default(),
            ));
        }
        rows.push(row);
    }
    let mut together = vec!["together".to_owned()];
    together.extend(billed.iter().map(|billed| dollars(billed.total())));
    rows.push(together);
    let mut class = vec!["class of the table".to_owned()];
    class.extend(billed.iter().map(|billed| billed.class.name.clone()));
    rows.push(class);
    for (label, mix) in [
        (
            "Pagemark is cheaper, page views for each write",
            month.mix.clone(),
        ),
        ("the same, if all have three ratings", all_of(SHOWN_RATINGS)),
    ] {
        let mut row = vec![label.to_owned()];
        for theirs in &billed {
            row.push(if theirs.design.name == ours.design.name {
                "-".to_owned()
            } else {
                cheaper((ours, theirs), &mix)
            });
        }
        rows.push(row);
    }
    Ok(MarkdownTable { head, rows })
}

/// The mix of page views that all have so many ratings.
fn all_of(ratings: usize) -> Vec<f64> {
    let mut mix = vec![0.0; 5];
    if let Some(percent) = mix.get_mut(ratings) {
        *percent = 100.0;
    }
    mix
}

fn dollars(usd: f64) -> String {
    format!("${}", text(usd))
}

/// The bills of the default month.
pub(crate) fn published() -> anyhow::Result<MarkdownTable> {
    table(&Month::parse("")?, &Prices::published()?)
}

pub(crate) fn published_plot() -> anyhow::Result<Plot> {
    plot(&Month::parse("")?, &Prices::published()?)
}

pub(crate) fn add_bills(report: &mut BenchReport) -> anyhow::Result<()> {
    let prices = Prices::published()?;
    let month = Month::parse("")?;
    for design in designs(month.text, month.depth, month.redis_bytes)? {
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
    let designs = designs(month.text, month.depth, month.redis_bytes)?;
    let billed = designs
        .iter()
        .map(|design| Billed::new(design, month, prices))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut lines = Vec::new();
    for billed in &billed {
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

/// A number of 0 or more, small enough that sums of such numbers are exact.
fn number(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (0.0..1e15).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from 0 to 1e15"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_mix_that_is_none_is_refused_with_its_sum() {
        for (line, why) in [
            ("--mix 75,10", "75,10 is 85 % together"),
            ("--mix 110,-10", "below 0"),
            ("--mix NaN", "no number"),
            ("--mix a", "invalid"),
            ("--mix 50,10,10,10,10,10", "more than five"),
            ("--text 0", "1..=40000"),
            ("--writes -1", "-1"),
            ("--views NaN", "not a number"),
        ] {
            let error = Month::parse(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    /// The bill of each design for a month by these options.
    fn bills(line: &str) -> Vec<f64> {
        let month = Month::parse(line).unwrap();
        let prices = Prices::published().unwrap();
        let designs = designs(month.text, month.depth, month.redis_bytes).unwrap();
        designs
            .iter()
            .map(|design| Billed::new(design, &month, &prices).unwrap().total())
            .collect()
    }

    fn assert_in(path: &str, figure: String) {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
        let document = fs::read_to_string(format!("{root}{path}")).unwrap();
        assert!(document.contains(&figure), "{path}: {figure}");
    }

    #[test]
    fn documents_name_the_bills_that_are_computed() {
        let a_tenth = bills("--comments 1e6 --writes 1e5 --views 10e6");
        for usd in a_tenth.iter().take(2) {
            assert_in("README.md", format!("${usd:.0}"));
        }
        for usd in &a_tenth {
            assert_in("docs/choosing.md", format!("${}", text(*usd)));
        }
        for usd in bills("") {
            assert_in("docs/choosing.md", format!("| ${} |", text(usd)));
        }
    }
}
