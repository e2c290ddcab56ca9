//! The Lambda function `canary`, and its command line.

use std::{process::ExitCode, time::Duration};

use canary::{Client, Command, Config, compare, fill, run};
use functions::invocation::deadline_at;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use process::{log::log_layer, parse_settings};
use tokio::time::Instant;
use tracing_subscriber::{fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// How long a run of the command line may take.
const RUN_WITHIN: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let log = log_layer("info", fmt::layer().json()).map_err(anyhow::Error::msg)?;
    tracing_subscriber::registry().with(log).init();
    let config: Config = parse_settings();
    let api = Client::new(&config.api)?;
    // Lambda sets this for the process of every function (AWS Lambda, "Using the Lambda runtime API").
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some() {
        serve(&api, &config.metrics.metrics_namespace).await.map_err(anyhow::Error::from_boxed)?;
        return Ok(ExitCode::SUCCESS);
    }
    match config.command.unwrap_or(Command::Run) {
        Command::Run => {
            let problem = run_once(&api, &config.metrics.metrics_namespace, Instant::now() + RUN_WITHIN).await;
            return Ok(if problem.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Fill { product, comments, file } => fill(&api, &product, comments, &file).await?,
        Command::Compare { product, file, within } => {
            let compared = compare(&api, &product, &file, Duration::from_secs(within)).await?;
            println!("every filter of {product} shows its comments, {compared} in all");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The Lambda function. Any event starts a run.
async fn serve(api: &Client, namespace: &str) -> Result<(), Error> {
    let handler = service_fn(async |event: LambdaEvent<serde_json::Value>| {
        match run_once(api, namespace, deadline_at(event.context.deadline)).await {
            None => Ok(()),
            Some(problem) => Err(Error::from(problem)),
        }
    });
    lambda_runtime::run(handler).await
}

/// Runs the canary, and prints its metrics. Returns what failed.
async fn run_once(api: &Client, namespace: &str, deadline: Instant) -> Option<String> {
    let run = run(api, deadline).await;
    if let Some(line) = run.metrics_line(namespace) {
        println!("{line}");
    }
    if let Some(problem) = &run.problem {
        tracing::error!(problem, "the canary failed");
    }
    run.problem
}
