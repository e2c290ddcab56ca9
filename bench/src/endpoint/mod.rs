//! `bench endpoint`: both designs on real DynamoDB, or on a service like it: writes, lag, pages.
//!
//! - `bounds`: at most how many units a call consumes.
//! - `plan`: the steps of a run, and at most what they consume. It is printed first.
//! - `budget`: admits no call that could exceed the budget.
//! - `stores`: creates the tables, starts Redis and the functions, and deletes the tables.
//! - `measure`: the measurements.
//!
//! A run creates its two tables and deletes them, also when it fails or is interrupted. It touches no other table.

mod bounds;
mod budget;
mod measure;
mod plan;
mod stores;
#[cfg(test)]
mod tests;

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
};

use anyhow::{anyhow, bail};
use table::capacity::Units;
use tokio::signal::unix::{SignalKind, signal};

use crate::{money::Prices, report::Report};
use bounds::Bounds;
use budget::Budget;
use measure::Measured;
use plan::{Plan, Sample};
use stores::{Place, Stores};

/// What is compared, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct EndpointArgs {
    /// The beginning of the two tables' names, NAME-pagemark and NAME-four-index. Neither may exist.
    #[arg(long, value_name = "NAME")]
    table: String,
    /// A service like DynamoDB, such as `http://127.0.0.1:8000`; its credentials are constants that local engines accept
    /// [default: AWS, with region and credentials of the environment].
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// How many comments are inserted into each table.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    comments: u32,
    /// How often each filter's first, middle and last page is read in each design.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    views: u32,
    /// At most this many read units, and as many write units [default: what the plan takes].
    #[arg(long, value_name = "UNITS", conflicts_with_all = ["budget_read", "budget_write"])]
    budget: Option<f64>,
    /// At most this many read units.
    #[arg(long, value_name = "UNITS")]
    budget_read: Option<f64>,
    /// At most this many write units.
    #[arg(long, value_name = "UNITS")]
    budget_write: Option<f64>,
    /// Runs the plan without asking. Without it, and without a terminal to ask, the plan is only printed.
    #[arg(long)]
    yes: bool,
    /// Keeps the tables, which then cost storage.
    #[arg(long)]
    keep: bool,
    /// The folder of report.json.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench/endpoint")]
    folder: PathBuf,
}

impl EndpointArgs {
    /// The budget: the given one, otherwise the plan.
    fn limit(&self, plan: &Plan) -> Units {
        let Units { read, write } = plan.total();
        Units {
            read: self.budget_read.or(self.budget).unwrap_or(read),
            write: self.budget_write.or(self.budget).unwrap_or(write),
        }
    }
}

/// Prints the plan, and runs it if it fits into the budget and somebody agrees.
pub(crate) async fn run(args: &EndpointArgs) -> anyhow::Result<()> {
    let sample = Sample::new(args.comments, args.views)?;
    let (plan, prices) = (Plan::of(&sample)?, Prices::published()?);
    println!("{}", plan.table(&prices));
    let limit = args.limit(&plan);
    println!(
        "The budget is {} read units and {} write units. A run ends before it exceeds them.",
        limit.read, limit.write
    );
    plan.check(limit)?;
    if !agreed(args)? {
        return Ok(());
    }
    if cfg!(debug_assertions) {
        bail!("a debug build measures nothing; run: cargo run --release --bin bench -- endpoint ...");
    }
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let interrupted = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let place = Place::new(&args.table, args.endpoint.as_deref()).await;
    let budget = budget(&place, &sample, limit)?;
    let mut report = Report::open(args.folder.clone())?;
    // A quick run: it waits for the service and not for this machine, so the machine need not be quiet.
    report.begin("endpoint", 1, 1, true).await;
    report.step(&format!("creating {} and {}; Ctrl-C ends the run and deletes them", place.pagemark, place.four));
    let mut measured = Measured::new(&place)?;
    let done = measure(&place, &sample, &budget, args.keep, &mut measured, interrupted).await;
    for table in measured.tables().into_iter().chain([measured.units(&plan, &budget, &prices)]) {
        report.table(table);
    }
    report.end(done.as_ref().err().map(|error| format!("{error:#}")))?;
    println!("merged into {}/report.json", args.folder.display());
    done
}

/// Whether the plan shall be run.
fn agreed(args: &EndpointArgs) -> anyhow::Result<bool> {
    if args.yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        println!("This was only the plan: nothing was called. To run it, add --yes.");
        return Ok(false);
    }
    print!("Run it? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn budget(place: &Place, sample: &Sample, limit: Units) -> anyhow::Result<Budget> {
    let bounds = [
        (place.pagemark.clone(), Bounds::of_pagemark(&sample.comments)?),
        (place.four.clone(), Bounds::of_four_indexes(&sample.comments)?),
    ];
    Ok(Budget::new(limit, bounds))
}

/// Creates the tables, measures, and deletes them, whatever happened meanwhile.
async fn measure(
    place: &Place,
    sample: &Sample,
    budget: &Budget,
    keep: bool,
    measured: &mut Measured,
    interrupted: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut created = Vec::new();
    let whole = async {
        place.create(&mut created).await?;
        let stores = Stores::start(place, budget).await?;
        measured.run(&stores, sample, budget).await?;
        stores.stop().await;
        anyhow::Ok(())
    };
    let done = tokio::select! {
        // The reason, and not what follows from it.
        biased;
        why = budget.exhausted() => Err(why),
        () = interrupted => Err(anyhow!("interrupted")),
        done = whole => done,
    };
    if keep || created.is_empty() {
        return done;
    }
    eprintln!("deleting {}", created.join(" and "));
    let deleted = place.delete(&created).await;
    match (done, deleted) {
        (Err(error), Err(left)) => Err(error.context(format!("{left:#}"))),
        (done, deleted) => done.and(deleted),
    }
}
