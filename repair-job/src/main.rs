//! The repair job: a command line; and, where Lambda starts it, the function that does the hourly run.

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use anyhow::Context;
use lambda_runtime::{LambdaEvent, service_fn};
use repair_job::{Asked, Command, Config, FunctionConfig, Job, Report, Stop, exit, explain, invoked, metrics_line};
use stores::{
    PageIndex, Quarantine, Table,
    config::{log_filter, parse_settings, without_payloads},
    invocation::deadline_at,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

/// What the function keeps back of its time: a call that is under way, remembering where it is, and answering.
const RESERVE: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    // Set by Lambda for the process of every function (AWS Lambda, "Using the Lambda runtime API").
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some() {
        Box::pin(serve()).await.map_err(anyhow::Error::from_boxed)?;
        return Ok(ExitCode::SUCCESS);
    }
    Box::pin(run()).await
}

/// The Lambda function: an event asks for a rebuild or, whatever else it is, for the hourly run.
async fn serve() -> Result<(), lambda_runtime::Error> {
    let log = tracing_subscriber::fmt().json().with_env_filter(log_filter("info")?).finish();
    log.with(without_payloads()).init();
    let config: FunctionConfig = parse_settings();
    let table = Table::connect(&config.table.config()).await;
    let index = PageIndex::connect(&config.page_index.config())?;
    let quarantine = config.quarantine.connect().await;
    let handler = service_fn(|event: LambdaEvent<serde_json::Value>| {
        let (table, index, quarantine, config) = (table.clone(), index.clone(), quarantine.clone(), config.clone());
        async move {
            let deadline = deadline_at(event.context.deadline);
            let stop = Stop::at(Some(deadline.checked_sub(RESERVE).unwrap_or(deadline)));
            let settings = config.limits.settings(true, &config.page_index);
            let job = Job::new(table, index, settings, config.limits.meter(), stop);
            let asked = Asked::by(&event.payload);
            let done = Box::pin(invoked(&job, &quarantine, config.audit_options(), asked)).await;
            println!("{}", metrics_line(&done, &config.metrics.metrics_namespace));
            let json = done.json();
            match done.has_failed() {
                true => Err(lambda_runtime::Error::from(json.to_string())),
                false => Ok(json),
            }
        }
    });
    lambda_runtime::run(handler).await
}

/// The command line.
async fn run() -> anyhow::Result<ExitCode> {
    let filter = log_filter("warn").map_err(anyhow::Error::msg)?;
    let ansi = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(ansi).with_env_filter(filter).finish();
    log.with(without_payloads()).init();
    let config: Config = parse_settings();
    if let Command::Audit(args) = &config.command
        && let Err(problem) = args.options()
    {
        eprintln!("error: {problem}");
        return Ok(ExitCode::from(exit::USAGE));
    }
    let table = Table::connect(&config.table.config()).await;
    let index = PageIndex::connect(&config.page_index.config())?;
    let stop = Stop::after(config.max_run_time);
    let settings = config.limits.settings(config.apply, &config.page_index);
    let job = Job::new(table, index, settings, config.limits.meter(), stop.clone());
    if config.explain {
        print!("{}", explain(&job, &config.command).await.context("nothing can be explained")?);
        return Ok(ExitCode::SUCCESS);
    }
    tokio::spawn(stop_on_signals(stop)?);
    let report = match &config.command {
        Command::Status { segments, quarantine, s3_url } => {
            let quarantine = match quarantine {
                Some(place) => Some(Quarantine::connect(place, s3_url.as_deref()).await),
                None => None,
            };
            let status = job.status(*segments, quarantine.as_ref()).await.context("the status is not known")?;
            match config.json {
                true => println!("{}", serde_json::to_string_pretty(&status)?),
                false => println!("{status}"),
            }
            return Ok(ExitCode::SUCCESS);
        }
        Command::Check { id, product } => {
            let checked = Box::pin(job.check(id, product.as_ref())).await;
            match config.json {
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
    match config.json {
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
        Command::Rebuild { segments, scan: false } => job.rebuild(*segments).await,
        Command::Rebuild { segments, scan: true } => job.rebuild_by_scan(*segments).await,
        Command::Check { id, product } => job.check(id, product.as_ref()).await.report,
        Command::Status { .. } => Report::default(),
    })
}

/// The first signal asks the run to stop, the second ends the process.
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
