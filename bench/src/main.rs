//! The one home of measurements: `cargo run --release -p bench -- NAME…`.
//!
//! Each result is printed as a table and merged into `target/bench/report.json`. Its object `ratios` holds every figure
//! that has a limit.

mod api;
mod fan_out;
mod import;
mod index;
mod lag;
mod payload;
mod repair;
mod report;
mod selection;
mod statistics;
mod workload;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Parser, ValueEnum};

use report::Report;

/// Measures Pagemark.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
struct Args {
    /// What to measure; everything without a name.
    #[arg(value_name = "NAME")]
    names: Vec<Name>,
    /// Comments from this file of JSON lines instead of generated ones.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// How many comments to generate [default: 10,000 to import, 4,000 to fan out, 3,000 to find the
    /// maximum rate for the lag, 40,000 payloads, 10,000 to audit and to rebuild from, 1,000,000 in the page index and for
    /// the API].
    #[arg(long, value_name = "N")]
    comments: Option<u32>,
    /// This binary of the API instead of one that cargo builds from the code as it is now.
    #[arg(long, value_name = "FILE")]
    api: Option<PathBuf>,
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

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        bail!("a debug build measures nothing; run: cargo run --release -p bench -- NAME");
    }
    let args = Args::parse();
    let mut report = Report::open()?;
    let names = if args.names.is_empty() { Name::value_variants() } else { &args.names };
    for name in names {
        match name {
            Name::Api => {
                api::measure(&mut report, args.comments.unwrap_or(1_000_000), args.api.as_deref()).await?;
            }
            Name::Import => {
                let comments = args.comments.unwrap_or(10_000);
                import::measure(&mut report, args.data.as_deref(), comments.into()).await?;
            }
            Name::Audit => repair::measure_audit(&mut report, args.comments.unwrap_or(10_000)).await?,
            Name::Rebuild => repair::measure_rebuild(&mut report, args.comments.unwrap_or(10_000)).await?,
            Name::FanOut => fan_out::measure(&mut report, args.comments.unwrap_or(4_000)).await?,
            Name::Index => index::measure(&mut report, args.comments.unwrap_or(1_000_000)).await?,
            Name::Lag => lag::measure(&mut report, args.comments.unwrap_or(3_000)).await?,
            Name::Payload => {
                payload::measure(&mut report, args.data.as_deref(), args.comments.unwrap_or(40_000).into())?;
            }
            Name::Selection => selection::measure(&mut report, args.comments.unwrap_or(1_000_000)).await?,
        }
    }
    report.save()
}
