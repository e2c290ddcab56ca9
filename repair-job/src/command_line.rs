//! Runs one command of the command line and prints its result.

use std::{fmt::Display, process::ExitCode};

use anyhow::Context;
use functions::Quarantine;
use futures_util::{FutureExt, future::BoxFuture};
use page_index::PageIndex;
use serde::Serialize;
use table::Table;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    config::{Command, RunArgs},
    explain::explain,
    report::{Report, exit},
    runner::Job,
    stop::Stop,
};

/// Runs a command until it is done, its time is up, or a signal ends it. Returns an exit code of [`exit`].
///
/// # Errors
/// Something could not be found out or printed. The errors of the run itself are in its report.
pub async fn run_command(args: &RunArgs, table: Table, index: PageIndex) -> anyhow::Result<ExitCode> {
    if let Command::Audit(audit) = &args.command
        && let Err(problem) = audit.options()
    {
        eprintln!("error: {problem}");
        return Ok(ExitCode::from(exit::USAGE));
    }
    let stop = Stop::after(args.max_run_time);
    let job = Job::new(table, index, args.settings.clone(), stop.clone());
    if args.explain {
        print!("{}", explain(&job, &args.command).await.context("nothing can be explained")?);
        return Ok(ExitCode::SUCCESS);
    }
    tokio::spawn(stop_on_signals(stop)?);
    let run: BoxFuture<'_, Report> = match &args.command {
        Command::Status { segments, quarantine, s3_url } => {
            let quarantine = match quarantine {
                Some(place) => Some(Quarantine::connect(place, s3_url.as_deref()).await),
                None => None,
            };
            let status = job.status(*segments, quarantine.as_ref()).await.context("the status is not known")?;
            print(args, &status, &status)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Check { id, product } => {
            let checked = Box::pin(job.check(id, product.as_ref())).await;
            print(args, &checked.json(), &format_args!("{}{}", checked.table, checked.report))?;
            return Ok(ExitCode::from(checked.report.exit_code()));
        }
        Command::Recent { since } => job.recent_since(*since).boxed(),
        Command::Audit(args) => job.audit(args.options().map_err(anyhow::Error::msg)?).boxed(),
        Command::Quarantine(place) => async { job.quarantine(&place.connect().await).await }.boxed(),
        Command::Rebuild { segments } => job.rebuild(*segments).boxed(),
    };
    let display = job.progress().show((&args.command).into());
    let report = run.await;
    drop(display);
    print(args, &report.json(), &report)?;
    Ok(ExitCode::from(report.exit_code()))
}

fn print(args: &RunArgs, json: &impl Serialize, text: &impl Display) -> anyhow::Result<()> {
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(json)?),
        false => println!("{text}"),
    }
    Ok(())
}

/// The first signal asks the run to stop. The second signal ends the process.
fn stop_on_signals(stop: Stop) -> anyhow::Result<impl Future<Output = ()>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        for is_first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if is_first {
                eprintln!("stopping; once more ends it at once");
                stop.ask();
            }
        }
        std::process::exit(exit::FAILURE.into());
    })
}
