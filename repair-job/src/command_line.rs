//! Runs one command of the command line and prints its result.

use std::process::ExitCode;

use anyhow::Context;
use functions::Quarantine;
use page_index::PageIndex;
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
    let settings = args.limits.settings(args.apply);
    let job = Job::new(table, index, settings, args.limits.meter(), stop.clone());
    if args.explain {
        print!("{}", explain(&job, &args.command).await.context("nothing can be explained")?);
        return Ok(ExitCode::SUCCESS);
    }
    tokio::spawn(stop_on_signals(stop)?);
    let report = match &args.command {
        Command::Status { segments, quarantine, s3_url } => {
            let quarantine = match quarantine {
                Some(place) => Some(Quarantine::connect(place, s3_url.as_deref()).await),
                None => None,
            };
            let status = job.status(*segments, quarantine.as_ref()).await.context("the status is not known")?;
            match args.json {
                true => println!("{}", serde_json::to_string_pretty(&status)?),
                false => println!("{status}"),
            }
            return Ok(ExitCode::SUCCESS);
        }
        Command::Check { id, product } => {
            let checked = Box::pin(job.check(id, product.as_ref())).await;
            match args.json {
                true => println!("{}", serde_json::to_string_pretty(&checked.json())?),
                false => println!("{}{}", checked.table, checked.report),
            }
            return Ok(ExitCode::from(checked.report.exit_code()));
        }
        command @ (Command::Recent { .. } | Command::Audit(_) | Command::Quarantine(_) | Command::Rebuild { .. }) => {
            let display = job.progress().show(command.name());
            let report = Box::pin(long_command(&job, command)).await?;
            drop(display);
            report
        }
    };
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&report.json())?),
        false => println!("{report}"),
    }
    Ok(ExitCode::from(report.exit_code()))
}

async fn long_command(job: &Job, command: &Command) -> anyhow::Result<Report> {
    Ok(match command {
        Command::Recent { since } => job.recent_since(*since).await,
        Command::Audit(args) => job.audit(args.options().map_err(anyhow::Error::msg)?).await,
        Command::Quarantine(args) => job.quarantine(&args.connect().await).await,
        Command::Rebuild { segments } => job.rebuild(*segments).await,
        Command::Check { id, product } => job.check(id, product.as_ref()).await.report,
        Command::Status { .. } => Report::default(),
    })
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
