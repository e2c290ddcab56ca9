//! The settings of the function.

use clap::Parser;
use functions::{MetricsArgs, QuarantineArgs};
use process::telemetry::TracesArgs;
use redis_index::RedisIndexArgs;

/// Brings the page index in line with changed comments (AWS Lambda on the table's stream).
#[derive(Debug, Clone, Parser)]
#[command(name = "page-indexer", version)]
pub struct Config {
    /// Where the page index is.
    #[command(flatten)]
    pub page_index: RedisIndexArgs,
    /// Where records go that can never be processed.
    #[command(flatten)]
    pub quarantine: QuarantineArgs,
    /// Where metrics go.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Where traces go.
    #[command(flatten)]
    pub traces: TracesArgs,
}
