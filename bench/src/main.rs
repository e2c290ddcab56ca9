//! The one home of measurements: `cargo run --release -p bench -- --only NAME`.
//!
//! Each result is printed as a table and merged into `target/bench/report.json`. Its object `ratios` holds every figure
//! that has a limit.

mod api;
mod fan_out;
mod import;
mod index;
mod lag;
#[cfg_attr(not(test), expect(dead_code, reason = "the comparison of designs that comes next uses it"))]
mod money;
mod options;
mod payload;
mod progress;
mod repair;
mod report;
mod selection;
mod shop;
mod statistics;
mod workload;

use std::fmt;

use anyhow::bail;
use clap::{Parser, ValueEnum};
use itertools::Itertools;

use options::Options;
use report::Report;

/// Measures Pagemark.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
struct Args {
    /// Only this measurement; several times for several [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Name>,
    #[command(flatten)]
    options: Options,
}

/// The measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Pages by the API over HTTP beside the same queries by the bare SDK; the last page beside page 2; memory.
    Api,
    /// The audit of the repair job beside a bare scan of the same table, its memory, and `recent`.
    Audit,
    /// From a file, or a generator, until every comment is visible under every filter: comments a second, memory.
    Import,
    /// The handler of `stream-writer` beside bare batch writes of the same items.
    FanOut,
    /// The handler of `page-indexer` beside a bare pipeline of the same `ZADD`s, and the memory of the page index.
    Index,
    /// From an acknowledged POST until the comment is visible under every filter, idle and at half the maximum rate.
    Lag,
    /// Bytes and read and write units of a comment in each format of `comment_blob`.
    Payload,
    /// The rebuild of the page index beside a bare pipeline of the same `ZADD`s.
    Rebuild,
    /// Finding where a page starts in the page index: server time and number of commands.
    Selection,
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| formatter.write_str(value.get_name()))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        bail!("a debug build measures nothing; run: cargo run --release -p bench -- --only NAME");
    }
    let args = Args::parse();
    let mut report = Report::open()?;
    let names = if args.only.is_empty() { Name::value_variants() } else { &args.only };
    let mut failed = Vec::new();
    for (number, name) in (1..).zip(names) {
        report.begin(&name.to_string(), number, names.len(), args.options.quick);
        let measured = measure(*name, &args.options, &mut report).await;
        report.end()?;
        // The others are measured all the same.
        if let Err(error) = measured {
            eprintln!("{name} failed: {error:?}");
            failed.push(name);
        }
    }
    report.tell();
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.iter().join(", ")) }
}

async fn measure(name: Name, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    match name {
        Name::Api => {
            let comments = options.comments_or(20_000, 1_000_000);
            api::measure(report, comments, options.api.as_deref()).await?;
        }
        Name::Import => {
            let comments = options.comments_or(2_000, 10_000);
            import::measure(report, options.data.as_deref(), comments.into()).await?;
        }
        Name::Audit => repair::measure_audit(report, options.comments_or(2_000, 10_000)).await?,
        Name::Rebuild => repair::measure_rebuild(report, options.comments_or(2_000, 10_000)).await?,
        Name::FanOut => fan_out::measure(report, options.comments_or(1_000, 4_000)).await?,
        Name::Index => index::measure(report, options.comments_or(100_000, 1_000_000)).await?,
        Name::Lag => lag::measure(report, options.comments_or(500, 3_000)).await?,
        Name::Payload => {
            let comments = options.comments_or(4_000, 40_000);
            payload::measure(report, options.data.as_deref(), comments.into())?;
        }
        Name::Selection => selection::measure(report, options.comments_or(100_000, 1_000_000)).await?,
    }
    Ok(())
}
