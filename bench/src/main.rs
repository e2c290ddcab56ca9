//! All measurements: `make bench`, or `bench --only NAME`. Each figure is printed and merged into a
//! report ([`report`]).

mod compare;
mod depth;
mod http;
mod lag;
mod listing;
mod measure;
mod money;
mod one_machine;
mod overheads;
mod published;
mod recorded_table;
mod report;
mod revisions;
mod scale;
mod server;
mod site;
mod stores;
mod workload;

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Parser, Subcommand, ValueEnum};
use itertools::Itertools;

use compare::endpoint::{self, EndpointArgs};
use measure::Effort;
use overheads::{api, fan_out, index, repair, server_time};
use report::BenchReport;

/// Measures Pagemark. Figures are merged into report.json, and report.md beside it has them as a
/// table.
#[derive(Debug, Parser)]
#[command(name = "bench", version, args_conflicts_with_subcommands = true)]
struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// The folder of the report and its plots.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench/runs/1")]
    folder: PathBuf,
    /// Only this measurement; several times, or with commas, for several [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Measurement>,
    /// How many comments, instead of each measurement's own number.
    #[arg(long, value_name = "N")]
    comments: Option<u32>,
    /// Fewer comments and rounds. The figures show little more than that everything works.
    #[arg(long)]
    quick: bool,
}

impl BenchArgs {
    /// The requested number of comments, or the measurement's own.
    fn comments(&self, of_quick: u32, full: u32) -> u32 {
        self.comments.unwrap_or(self.quick_or(of_quick, full))
    }

    fn quick_or<T>(&self, of_quick: T, full: T) -> T {
        if self.quick { of_quick } else { full }
    }
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Compares both designs on real DynamoDB, or on a service like it. Prints first what that
    /// costs, and asks.
    Compare(EndpointArgs),
    /// Keeps the reports of several runs in bench/results, and writes their figures into the
    /// documents and plots.
    Publish { files: Vec<PathBuf> },
    /// Compares two revisions by the reports of their rounds. `make bench BASE=REV` runs the
    /// rounds.
    CompareRevisions {
        /// Its folders 1, 2 and so on have the base's reports.
        base: PathBuf,
        /// The same of the revision that is compared with the base.
        new: PathBuf,
    },
}

/// The measurements, in the order in which they run. `Index` is first: it measures the memory of
/// this process, and others leave it large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, strum::Display)]
#[strum(serialize_all = "kebab-case")]
enum Measurement {
    /// The handler of `page-indexer` beside a bare pipeline of the same `ZADD`s, and the memory of
    /// the page index.
    Index,
    /// The handler of `stream-writer` beside bare batch writes of the same items.
    FanOut,
    /// Pages by the API over HTTP beside the same queries by the bare SDK.
    Api,
    /// The rebuild of the page index beside bare queries and a bare pipeline, and the audit beside
    /// a bare scan.
    Repair,
    /// This design beside the one with four indexes: reading, writing, storage, money.
    Compare,
    /// Any page by its number. Beside it: PostgreSQL, SQLite, and a walk by cursor through four
    /// indexes.
    Depth,
    /// From an acknowledged POST until the comment is visible under every filter, idle and at half
    /// the maximum rate.
    Lag,
    /// The single-machine edition, with its data on disk: writing, reading, memory and start.
    OneMachine,
    /// The articles' test of a web site, for both designs: `ab -n 1000 -c 20`.
    Site,
    /// How pages and page index grow with the number of comments, up to a million.
    Scale,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = BenchArgs::parse();
    match &args.command {
        Some(BenchCommand::Compare(args)) => endpoint::run(args).await,
        Some(BenchCommand::Publish { files }) => published::publish(files),
        Some(BenchCommand::CompareRevisions { base, new }) => revisions::print(base, new),
        None => measure_all(&args).await,
    }
}

async fn measure_all(args: &BenchArgs) -> anyhow::Result<()> {
    ensure!(
        args.quick || !cfg!(debug_assertions),
        "a debug build measures nothing; use --release, or --quick to try it"
    );
    let names: Vec<Measurement> = match args.only.as_slice() {
        [] => Measurement::value_variants().to_vec(),
        only => only.iter().copied().sorted().dedup().collect(),
    };
    let mut report = BenchReport::open(args.folder.clone())?;
    let mut failed = Vec::new();
    for name in names {
        report.begin(&name.to_string(), args.quick);
        let measured = measure(name, args, &mut report).await;
        report.end(measured.as_ref().err().map(|error| format!("{error:#}")))?;
        if let Err(error) = measured {
            eprintln!("{name} failed: {error:?}");
            failed.push(name);
        }
    }
    println!(
        "\nmerged into {}: see report.md there",
        args.folder.display()
    );
    ensure!(failed.is_empty(), "failed: {}", failed.iter().join(", "));
    Ok(())
}

async fn measure(
    name: Measurement,
    args: &BenchArgs,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    match name {
        Measurement::Index => {
            let comments = args.comments(2_000, 1_000_000);
            let effort = args.quick_or(Effort::new(2, 500), Effort::new(15, 5_000));
            index::measure(report, comments, effort).await?;
            let of_pages = args.quick_or(Effort::new(2, 50), Effort::new(5, 100));
            server_time::measure(report, comments * 3 / 10, of_pages).await
        }
        Measurement::FanOut => {
            let effort = args.quick_or(Effort::new(2, 100), Effort::new(7, 300));
            fan_out::measure(report, effort).await
        }
        Measurement::Api => {
            api::measure(
                report,
                args.comments(2_000, 100_000),
                args.quick_or(Effort::new(2, 100), Effort::new(5, 2_000)),
            )
            .await
        }
        Measurement::Repair => {
            repair::measure(report, args.comments(500, 4_000), args.quick_or(1, 5)).await
        }
        Measurement::Compare => {
            let load = compare::CompareEffort {
                comments: args.comments(1_000, 50_000),
                reads: args.quick_or(Effort::new(1, 10), Effort::new(10, 100)),
                writes: args.quick_or(2, 300),
            };
            compare::measure(report, load).await
        }
        Measurement::Depth => {
            depth::measure(report, args.comments(2_400, 400_000), args.quick).await
        }
        Measurement::Lag => {
            lag::measure(report, args.comments(100, 2_000), args.quick_or(5, 100)).await
        }
        Measurement::OneMachine => {
            let comments = args.comments(200, 3_000);
            one_machine::measure(report, comments, args.quick_or(200, 5_000)).await
        }
        Measurement::Site => {
            let comments = args.comments(1_000, 50_000);
            let rounds = args.quick_or(1, 5);
            let requests = args.quick_or(40, 1_000);
            site::measure(report, comments, rounds, requests).await
        }
        Measurement::Scale => {
            let most = args.comments(10_000, 1_000_000);
            scale::measure(report, most, args.quick_or(100, 2_000)).await
        }
    }
}
