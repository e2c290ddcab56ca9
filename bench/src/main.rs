//! All measurements: `make bench`, or `cargo run --release -p bench -- --only NAME`.
//!
//! Each result is printed and merged into a `report.json` (`report`), and the page that decides is made from it (`page`).
//! `--check` compares the ratios of our code's overheads with the committed baseline (`overheads`, `baseline`).

mod api;
mod baseline;
mod binaries;
mod compare;
mod dataset;
mod delayed_proxy;
mod depth;
mod embedded;
mod endpoint;
mod fan_out;
mod filled_stores;
mod http;
mod import;
mod index;
mod lag;
mod listing;
mod money;
mod one_machine;
mod options;
mod overheads;
mod page;
mod recorded_table;
mod recrawl;
mod repair;
mod report;
mod scale;
mod selection;
mod site;
mod statistics;
mod workload;

use std::{path::PathBuf, process::ExitCode};

use anyhow::bail;
use clap::{Parser, Subcommand, ValueEnum};
use itertools::Itertools;

use options::Options;
use report::Report;

/// Exit code of a check: the ratios could not be compared, for example because the baseline is missing or lacks one. Exit
/// code 1 is reserved for regressions.
const NOT_COMPARED: u8 = 2;

/// Measures Pagemark. Results are merged into report.json. The page beside it, benchmarks.md, says what they mean.
///
/// The times are those of a full run on two cores; all measurements together take at most twenty minutes. Each waits at
/// most five minutes for a quiet machine, except in a quick run.
#[derive(Debug, Parser)]
#[command(name = "bench", version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The folder of report.json and the page.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench/runs/1")]
    folder: PathBuf,
    /// Only this measurement; several times, or with commas, for several [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Name>,
    /// Compares the ratios of our own code's overheads with bench/baseline.json, in half a minute, or up to three times that
    /// if something seems worse: exits 1 if one is more than 15 % worse (in two of three measurements), 2 if it cannot
    /// tell. Nothing is added to the report.
    #[arg(long, conflicts_with_all = ["only", "comments", "data", "write_baseline"])]
    check: bool,
    /// Measures these ratios three times and adds the medians to bench/baseline.json.
    #[arg(long, conflicts_with_all = ["only", "comments", "data"])]
    write_baseline: bool,
    #[command(flatten)]
    options: Options,
}

/// Commands besides the measurements of `make bench`.
#[derive(Debug, Subcommand)]
enum Command {
    /// The monthly bill of Pagemark and of four indexes for your own load, by prices.json. Nothing is measured.
    Cost(money::CostArgs),
    /// Compares both designs on real DynamoDB, or on a service like it: writes, lag, pages. Prints first what that costs at
    /// most, and never consumes more than the budget.
    Endpoint(endpoint::EndpointArgs),
    /// Writes the page that decides from one or several reports.
    Page(page::PageArgs),
}

/// The measurements, in the order in which they run. `Embedded` and `Import` are first: they measure the memory of this
/// process, and others leave it large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, strum::Display)]
#[strum(serialize_all = "kebab-case")]
enum Name {
    /// The page index inside the process beside the one in Redis: memory, start of a page, edits, snapshot. 50 s.
    Embedded,
    /// From a file, or a generator, until every comment is visible under every filter: comments a second, memory. 20 s.
    Import,
    /// Pages by the API over HTTP beside the same queries by the bare SDK; the last page beside page 2; memory. 100 s;
    /// with --comments 1000000 some minutes.
    Api,
    /// The audit of the repair job beside a bare scan of the same table, its memory, and `recent`. 35 s.
    Audit,
    /// Any page by its number among 400,000 comments. Beside it: PostgreSQL, SQLite, MariaDB, and a walk by cursor through
    /// four indexes. 120 s; with --comments 1000000 eight minutes.
    Depth,
    /// The handler of `stream-writer` beside bare batch writes of the same items. 10 s.
    FanOut,
    /// The handler of `page-indexer` beside a bare pipeline of the same `ZADD`s, and the memory of the page index. 30 s.
    Index,
    /// This design beside the one with four indexes, with and without a cache: reading, writing, storage, money. 200 s.
    Compare,
    /// From an acknowledged POST until the comment is visible under every filter, idle and at half the maximum rate. 35 s.
    Lag,
    /// The single-machine edition as one process with its data on disk: writes, pages, memory, disk, starts. 70 s.
    OneMachine,
    /// What a crawler finds when it comes again after 100 posts, with each way to number pages. 45 s.
    Recrawl,
    /// The rebuild of the page index, beside a bare pipeline of the same `ZADD`s. 15 s.
    Rebuild,
    /// How pages, page index, audit and rebuild grow with the number of comments, up to ten million. 150 s.
    Scale,
    /// Finding where a page starts in the page index, and in one set for each filter: server time, commands. 35 s.
    Selection,
    /// The articles' test of a web site, for both designs: `ab -n 1000 -c 20`. 35 s.
    Site,
}

impl Name {
    /// Whether it gives a meaningful result within its few seconds in a quick run.
    fn is_quick(self) -> bool {
        // Watching enough comments takes a minute, and pages differ by depth only in a large product.
        !matches!(self, Self::Lag | Self::Depth)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    match &args.command {
        Some(Command::Cost(asked)) => {
            let printed = money::print(asked).inspect_err(|error| eprintln!("{error:#}"));
            return Ok(if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Some(Command::Endpoint(args)) => {
            let ran = endpoint::run(args).await.inspect_err(|error| eprintln!("{error:#}"));
            return Ok(if ran.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Some(Command::Page(args)) => return page::run(args),
        None => {}
    }
    if cfg!(debug_assertions) {
        bail!("a debug build measures nothing; run: cargo run --release -p bench -- --only NAME");
    }
    if args.write_baseline {
        overheads::write_baseline(&args.options).await?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.check {
        return Ok(overheads::check(&args.options).await.unwrap_or_else(|error| {
            eprintln!("not checked: {error:?}");
            ExitCode::from(NOT_COMPARED)
        }));
    }
    measure_all(&args).await
}

/// Runs the selected measurements, and continues after a failure.
async fn measure_all(args: &Args) -> anyhow::Result<ExitCode> {
    let is_quick = args.options.quick;
    let all = || Name::value_variants().iter().copied();
    let names: Vec<Name> = match args.only.as_slice() {
        [] => all().filter(|name| !is_quick || name.is_quick()).collect(),
        only => only.iter().copied().sorted().dedup().collect(),
    };
    let left_out = if args.only.is_empty() { all().filter(|name| !names.contains(name)).collect() } else { Vec::new() };
    let mut report = Report::open(args.folder.clone())?;
    let mut failed = Vec::new();
    for (number, name) in (1..).zip(&names) {
        report.begin(&name.to_string(), number, names.len(), is_quick).await;
        let measured = measure(*name, &args.options, &mut report).await;
        report.end(measured.as_ref().err().map(|error| format!("{error:#}")))?;
        if let Err(error) = measured {
            eprintln!("{name} failed: {error:?}");
            failed.push(name);
        }
    }
    page::write(&args.folder, std::slice::from_ref(report.results()))?;
    println!("\nmerged into {}: see benchmarks.md there", args.folder.display());
    if !left_out.is_empty() {
        println!("left out of a quick run, because they take longer: {}", left_out.iter().join(", "));
    }
    if failed.is_empty() { Ok(ExitCode::SUCCESS) } else { bail!("failed: {}", failed.iter().join(", ")) }
}

async fn measure(name: Name, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let (api, data, is_quick) = (options.api.as_deref(), options.data.as_deref(), options.quick);
    match name {
        Name::Api => api::measure(report, options.comments_or(20_000, 100_000), api, is_quick).await,
        Name::Depth => depth::measure(report, options.comments_or(20_000, 400_000), is_quick).await,
        Name::Embedded => embedded::measure(report, options.comments_or(100_000, 1_000_000), is_quick).await,
        Name::Import => import::measure(report, data, options.comments_or(1_000, 5_000).into()).await,
        Name::Audit => repair::measure_audit(report, options.comments_or(1_000, 3_000), is_quick).await,
        Name::Recrawl => recrawl::measure(report, options.comments_or(2_000, 10_000)).await,
        Name::Rebuild => repair::measure_rebuild(report, options.comments_or(1_000, 4_000)).await,
        Name::FanOut => fan_out::measure(report, options.comments_or(1_000, 4_000)).await,
        Name::Index => index::measure(report, options.comments_or(100_000, 1_000_000), is_quick).await,
        Name::Compare => compare::measure(report, options).await,
        Name::Lag => lag::measure(report, options.comments_or(500, 2_000)).await,
        Name::OneMachine => one_machine::measure(report, options.comments_or(2_000, 10_000), is_quick).await,
        Name::Scale => scale::measure(report, options).await,
        Name::Selection => selection::measure(report, options.comments_or(100_000, 1_000_000), is_quick).await,
        Name::Site => site::measure(report, options.comments_or(2_000, 50_000), options).await,
    }
}
