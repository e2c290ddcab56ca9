//! The settings of the function.

use clap::Parser;
use functions::{MetricsArgs, QuarantineArgs};
use redis_index::RedisIndexConfig;

/// Brings the page index in line with changed comments (AWS Lambda on the table's stream).
#[derive(Debug, Clone, Parser)]
#[command(name = "page-indexer", version)]
pub struct PageIndexerConfig {
    #[command(flatten)]
    pub page_index: RedisIndexConfig,
    #[command(flatten)]
    pub quarantine: QuarantineArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}
