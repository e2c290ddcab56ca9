//! The settings of the function.

use clap::{Parser, ValueEnum};
use functions::{MetricsArgs, QuarantineArgs};
use process::telemetry::TracesArgs;
use table::TableArgs;

/// How the duplicates of a comment are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FanOut {
    /// In batches of 25 across comments: the cheapest. A reader of the table, or a crash, may find some of a comment's
    /// duplicates changed and others not yet.
    Batch,
    /// One transaction a comment: all of its duplicates change, or none. It takes twice the write units of the table.
    Transaction,
}

/// Brings the duplicates of changed comments in line (AWS Lambda on the table's stream).
#[derive(Debug, Clone, Parser)]
#[command(name = "stream-writer", version)]
pub struct Config {
    #[command(flatten)]
    pub table: TableArgs,
    #[command(flatten)]
    pub quarantine: QuarantineArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    #[command(flatten)]
    pub traces: TracesArgs,
    /// How the duplicates of a comment are written.
    #[arg(long, env = "PAGEMARK_FAN_OUT", value_name = "HOW", default_value = "batch")]
    pub fan_out: FanOut,
    /// Batches, or transactions, written at the same time.
    #[arg(long, env = "PAGEMARK_WRITE_CONCURRENCY", value_name = "N", default_value_t = 8)]
    pub write_concurrency: usize,
}
