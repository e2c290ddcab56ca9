//! The settings of the function.

use clap::Parser;
use deployed_index::PageIndexSettings;
use functions::{MetricsArgs, QuarantineArgs};

/// Brings the page index in line with changed comments (AWS Lambda on the table's stream).
#[derive(Debug, Clone, Parser)]
#[command(name = "page-indexer", version)]
pub struct PageIndexerConfig {
    #[command(flatten)]
    pub page_index: PageIndexSettings,
    #[command(flatten)]
    pub quarantine: QuarantineArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}
