//! Runs one command of the command line and prints its result.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;
use functions::Quarantine;
use futures_util::{FutureExt, future::BoxFuture};
use page_index::PageIndex;
use process::Stop;
use serde::{Deserialize, Serialize};
use table::Table;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    entry::config::{RepairCommand, RunArgs},
    run::{
        Job,
        progress::Progress,
        report::{Report, exit},
    },
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    pub output: String,
    pub exit_code: u8,
}

/// Runs a command until it is done, its time is up, or a signal ends it. Returns an exit code of
/// [`exit`].
///
/// # Errors
/// Something could not be found out or printed. The errors of the run itself are in its report.
pub async fn run_command(
    args: &RunArgs,
    table: Table,
    index: PageIndex,
) -> anyhow::Result<ExitCode> {
    let stop = Stop::after(args.options.max_run_time);
    let job = Job::new(table, index, args.options.settings.clone(), stop.clone());
    let work = run_on(&job, args);
    print_outcome(args, job.progress(), work, move || stop.ask()).await
}

/// Shows the progress of a command, wherever it runs, prints its outcome, and returns its exit code.
/// The first Ctrl-C or SIGTERM calls `ask`, which asks the command to stop; then its report is
/// printed. The second ends the process.
pub async fn print_outcome(
    args: &RunArgs,
    progress: &Progress,
    work: impl Future<Output = anyhow::Result<CommandOutput>>,
    ask: impl FnOnce() + Send + 'static,
) -> anyhow::Result<ExitCode> {
    if let Err(problem) = args.validate() {
        eprintln!("error: {problem}");
        return Ok(ExitCode::from(exit::USAGE));
    }
    let signals = tokio::spawn(on_signals("stopping", exit::FAILURE, ask)?);
    let display = progress.show((&args.command).into());
    let outcome = work.await;
    drop(display);
    signals.abort();
    let CommandOutput { output, exit_code } = outcome?;
    // The exit code counts even if the reader of the output has gone.
    io::stdout().write_all(output.as_bytes()).ok();
    Ok(ExitCode::from(exit_code))
}

/// Runs a command on a job until it is done or the job's stop ends it. Prints nothing and handles
/// no signal. The job's settings count, not those of `args`.
///
/// # Errors
/// Something could not be found out, or the command does not [validate](RunArgs::validate). The
/// errors of the run itself are in its report.
pub async fn run_on(job: &Job, args: &RunArgs) -> anyhow::Result<CommandOutput> {
    args.validate().map_err(anyhow::Error::msg)?;
    let run: BoxFuture<'_, Report> = match &args.command {
        RepairCommand::Status {
            segments,
            quarantine,
            s3_url,
            disk_is_full,
        } => {
            let quarantine = match quarantine {
                Some(place) => Some(Quarantine::connect(place, s3_url.as_deref()).await),
                None => None,
            };
            let mut status = job
                .status(*segments, quarantine.as_ref())
                .await
                .context("the status is not known")?;
            status.disk_is_full = *disk_is_full;
            let exit_code = status.verdict().exit_code();
            return command_output(args, &status.json(), &status, exit_code);
        }
        RepairCommand::Check { id, product } => job.check(id, product.as_ref()).boxed(),
        RepairCommand::Recent { since } => job.recent_since(*since).boxed(),
        RepairCommand::Audit(options) => job.audit(*options).boxed(),
        RepairCommand::Quarantine(options) => {
            async { job.quarantine(&options.connect().await).await }.boxed()
        }
        RepairCommand::Rebuild { segments } => job.rebuild_by_command(*segments).boxed(),
        RepairCommand::Erase { author } => job.erase(author).boxed(),
    };
    let report = run.await;
    command_output(args, &report.json(), &report, report.exit_code())
}

fn command_output(
    args: &RunArgs,
    json: &impl Serialize,
    text: &impl Display,
    exit_code: u8,
) -> anyhow::Result<CommandOutput> {
    let output = if args.options.json {
        format!("{}\n", serde_json::to_string_pretty(json)?)
    } else {
        format!("{text}\n")
    };
    Ok(CommandOutput { output, exit_code })
}

/// Ctrl-C and SIGTERM. From the first [`Signals::listen`] on, these signals alone do not end the
/// process.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The first signal calls `ask`, and a person reads what `happens` then. The second ends the
/// process with the exit code.
pub fn on_signals(
    happens: &'static str,
    exit_code: u8,
    ask: impl FnOnce() + Send,
) -> io::Result<impl Future<Output = ()> + Send> {
    let mut signals = Signals::listen()?;
    Ok(async move {
        signals.next().await;
        eprintln!("{happens}; once more ends it at once");
        ask();
        signals.next().await;
        std::process::exit(exit_code.into());
    })
}
