//! The repair job: a command line, and a function that Lambda starts every five minutes and every
//! hour.

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use functions::invocation::deadline_at;
use lambda_runtime::{LambdaEvent, service_fn};
use process::{log::start_log, parse_settings};
use repair_job::{
    FunctionCommand, FunctionConfig, Job, RepairConfig, Stop, invoked, metrics_line, run_command,
};
use table::Table;

/// Time that the function keeps back before its deadline: to complete the call under way, store its
/// position and answer.
const RESERVE: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    // Lambda sets this for the process of every function (AWS Lambda, "Using the Lambda runtime
    // API").
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some() {
        Box::pin(serve()).await.map_err(anyhow::Error::from_boxed)?;
        return Ok(ExitCode::SUCCESS);
    }
    Box::pin(run()).await
}

/// The Lambda function. An event names its [command](FunctionCommand).
async fn serve() -> Result<(), lambda_runtime::Error> {
    let config: FunctionConfig = parse_settings();
    start_log("info", tracing_subscriber::fmt::layer().json())?;
    let table = Table::connect(&config.table.config()).await;
    let index = deployed_index::connect(&config.page_index)?;
    let quarantine = config.quarantine.connect().await;
    let handler = service_fn(|event: LambdaEvent<serde_json::Value>| {
        let table = table.clone();
        let index = index.clone();
        let quarantine = quarantine.clone();
        let config = config.clone();
        async move {
            let deadline = deadline_at(event.context.deadline);
            let stop = Stop::at(Some(deadline.checked_sub(RESERVE).unwrap_or(deadline)));
            let command = FunctionCommand::of_event(&event.payload)?;
            let job = Job::new(table, index, command.settings(config.settings), stop);
            let done = Box::pin(invoked(&job, &quarantine, command)).await;
            println!("{}", metrics_line(&done, &config.metrics.metrics_namespace));
            done.answer().map_err(lambda_runtime::Error::from)
        }
    });
    lambda_runtime::run(handler).await
}

async fn run() -> anyhow::Result<ExitCode> {
    let config: RepairConfig = parse_settings();
    let ansi = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(ansi);
    start_log("warn", lines).map_err(anyhow::Error::msg)?;
    let table = Table::connect(&config.table.config()).await;
    let index = deployed_index::connect(&config.page_index)?;
    run_command(&config.run, table, index).await
}
