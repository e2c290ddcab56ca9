//! `bench compare --endpoint`: both designs on real DynamoDB, or on a service like it.
//!
//! A run prints an estimate of its cost and asks. It creates two tables and deletes them, also when
//! it fails or is interrupted. It touches no other table.

use std::{
    io::{IsTerminal, Write as _},
    path::PathBuf,
};

use anyhow::{Context, bail, ensure};
use cost::{Prices, designs};
use rand::random;
use table::Table;
use tokio::time::Instant;

use super::{CompareEffort, Contestants, How, compare_pages, read_all, writes};
use crate::{
    measure::Effort,
    report::{BenchReport, FOUR_INDEXES_COUNTERS, FOUR_INDEXES_PAGE_INDEX, text},
    stores::{READY_WITHIN, TableStore, four_index_table},
};

/// Of a comment, for the estimate.
const TEXT_BYTES: u32 = 400;

#[derive(Debug, clap::Args)]
pub(crate) struct EndpointArgs {
    /// Where the tables are: `aws`, with region and credentials of the environment, or the URL of a
    /// service like DynamoDB, such as `http://127.0.0.1:8000`, with constant credentials.
    #[arg(long, value_name = "URL|aws")]
    endpoint: String,
    /// How many comments are loaded into each table.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    comments: u32,
    /// How often each page is read in each design, in tens.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tens_of_views: u32,
    /// Does not ask.
    #[arg(long)]
    yes: bool,
    /// The folder of report.json.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench/endpoint")]
    folder: PathBuf,
}

pub(crate) async fn run(args: &EndpointArgs) -> anyhow::Result<()> {
    let reads = Effort {
        rounds: args.tens_of_views,
        a_turn: 10,
    };
    let load = CompareEffort {
        comments: args.comments,
        reads,
        writes: 20,
    };
    let (read, write) = estimate(load)?;
    let prices = Prices::published()?;
    let class = prices.table_classes().first().context("a table class")?;
    let usd = (read * class.million_read_units + write * class.million_write_units) / 1e6;
    println!(
        "About {} read units and {} write units: {} US dollars by the prices of {} in {}.",
        text(read.round()),
        text(write.round()),
        text(usd),
        prices.looked_up,
        prices.region
    );
    if !args.yes && !agreed()? {
        return Ok(());
    }
    let url = Some(args.endpoint.as_str()).filter(|endpoint| *endpoint != "aws");
    let name = format!("pagemark-bench-{:08x}", random::<u32>());
    let tables = TableStore::at(url, &name).await.table;
    let mut report = BenchReport::open(args.folder.clone())?;
    report.begin("endpoint", true);
    report.step(&format!(
        "creating {name} and {name}-four-index; Ctrl-C ends the run and deletes them"
    ));
    let measured = tokio::select! {
        measured = measure(&mut report, TableStore::at(url, &name).await, load) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    let deleted = delete(&tables).await;
    report.end(measured.as_ref().err().map(|error| format!("{error:#}")))?;
    measured.and(deleted)
}

async fn measure(
    report: &mut BenchReport,
    store: TableStore,
    load: CompareEffort,
) -> anyhow::Result<()> {
    let contestants = Contestants::load(store, load.comments).await?;
    let pages = compare_pages(report, &contestants).await?;
    let how = How {
        effort: load.reads,
        delays: "",
    };
    read_all(report, &contestants.reader(), &pages, how).await?;
    writes::measure(report, &contestants, load.writes).await
}

fn estimate(load: CompareEffort) -> anyhow::Result<(f64, f64)> {
    let mut read = 0.0;
    let mut write = 0.0;
    let views = f64::from(load.reads.rounds * load.reads.a_turn + load.reads.a_turn / 10) + 2.0;
    for design in designs(TEXT_BYTES, 1, 0.0)? {
        // Four indexes with the page index have the table of four indexes, whose counters only
        // writes change.
        let is_read = !design.name.starts_with(FOUR_INDEXES_COUNTERS);
        let is_written = !design.name.starts_with(FOUR_INDEXES_PAGE_INDEX);
        if is_read {
            let units: Vec<f64> = design
                .page_read_units
                .iter()
                .map(|page| page.numbered)
                .collect();
            let [any, of_one_rating, ..] = units.as_slice() else {
                bail!("{} has no pages", design.name);
            };
            // The front page, page 2 and a page by cursor; a page with the highest rating first.
            let others = 3.0 * any + of_one_rating;
            read += views * (units.iter().sum::<f64>() + others);
        }
        if is_written {
            let units = design.write.iter().map(|write| write.write_units);
            write += f64::from(load.writes + 1) * units.sum::<f64>();
        }
        if is_read && is_written {
            write += f64::from(load.comments) * design.write[0].write_units;
        }
    }
    Ok((read, write))
}

fn agreed() -> anyhow::Result<bool> {
    ensure!(
        std::io::stdin().is_terminal(),
        "nothing was called: add --yes to run it without a terminal"
    );
    print!("Run it? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Deletes both tables. A table that is still being created is deleted afterwards.
async fn delete(table: &Table) -> anyhow::Result<()> {
    let mut failures = Vec::new();
    for name in [table.name(), four_index_table(table).name()] {
        let mut backoff = process::Backoff::until(Instant::now() + READY_WITHIN);
        while let Err(error) = table.client().delete_table().table_name(name).send().await {
            let error = error.into_service_error();
            if error.is_resource_not_found_exception() {
                break;
            }
            if !error.is_resource_in_use_exception() || !backoff.wait().await {
                failures.push(format!("{name}: {error}"));
                break;
            }
        }
    }
    if failures.is_empty() {
        Ok(())
    } else {
        bail!(
            "delete these tables yourself, because this failed: {}",
            failures.join("; ")
        )
    }
}
