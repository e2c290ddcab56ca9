//! The settings and commands of the repair job.

use clap::{Parser, Subcommand};
use stores::config::{PageIndexArgs, TableArgs};

/// Finds and mends differences between comments and what is derived from them.
#[derive(Debug, Clone, Parser)]
#[command(name = "repair-job", version)]
pub struct Config {
    /// Where the table is.
    #[command(flatten)]
    pub table: TableArgs,
    /// Where the page index is.
    #[command(flatten)]
    pub page_index: PageIndexArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the repair job can do.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Empty the page index, fill it from the table, and mark it ready.
    ///
    /// Live writes may go on. Until it is done, page 1 and cursors answer without totals, numbered pages answer 503.
    Rebuild {
        /// Parts of the table that are read at the same time.
        #[arg(long, value_name = "N", default_value_t = 4)]
        segments: u32,
    },
}
