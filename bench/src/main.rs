//! The one home of measurements: `cargo run --release -p bench -- NAME…`.
//!
//! Each result is printed as a table and merged into `target/bench/report.json`. Its object `ratios` holds every figure
//! that has a limit.

mod import;
mod report;

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
    /// How many comments to generate.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    comments: u64,
}

/// The measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// From a file, or a generator, until every comment is visible under every filter: comments a second, memory.
    Import,
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
            Name::Import => import::measure(&mut report, args.data.as_deref(), args.comments).await?,
        }
    }
    report.save()
}
