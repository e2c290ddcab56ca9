//! The settings of the function.

use clap::Parser;
use stores::config::{QuarantineArgs, TableArgs};

/// Brings the duplicates of changed comments in line (AWS Lambda on the table's stream).
#[derive(Debug, Clone, Parser)]
#[command(name = "stream-writer", version)]
pub struct Config {
    /// Where the table is.
    #[command(flatten)]
    pub table: TableArgs,
    /// Where records go that can never be processed.
    #[command(flatten)]
    pub quarantine: QuarantineArgs,
    /// Batches written at the same time.
    #[arg(long, env = "PAGEMARK_WRITE_CONCURRENCY", value_name = "N", default_value_t = 8)]
    pub write_concurrency: usize,
}
