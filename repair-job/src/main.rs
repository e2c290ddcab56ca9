//! The command line of the repair job.

use std::process::ExitCode;

use anyhow::Context;
use repair_job::{Command, Config, rebuild};
use stores::{
    PageIndex, Table,
    config::{log_filter, parse_settings, without_payloads},
};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let filter = log_filter("info").map_err(anyhow::Error::msg)?;
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter).finish();
    log.with(without_payloads()).init();
    let config: Config = parse_settings();
    let table = Table::connect(&config.table.config()).await;
    let index = PageIndex::connect(&config.page_index.config())?;
    match config.command {
        Command::Rebuild { segments } => {
            let report = rebuild(&table, &index, segments).await.context("the page index was not rebuilt")?;
            println!(
                "rebuilt: {} comments from {} items in {:.1} s, {} changed meanwhile, {} unresolved",
                report.comments,
                report.items,
                report.took.as_secs_f64(),
                report.changed_meanwhile,
                report.unresolved.len()
            );
            for what in &report.unresolved {
                println!("unresolved: {what}");
            }
            Ok(if report.unresolved.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
    }
}
