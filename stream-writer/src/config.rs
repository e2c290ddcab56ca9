//! The settings of the function.

use clap::Parser;
use functions::{MetricsArgs, QuarantineArgs};
use table::TableArgs;

/// Brings the duplicates of changed comments in line (AWS Lambda on the table's stream).
#[derive(Debug, Clone, Parser)]
#[command(name = "stream-writer", version)]
pub struct StreamWriterConfig {
    #[command(flatten)]
    pub table: TableArgs,
    #[command(flatten)]
    pub quarantine: QuarantineArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}
