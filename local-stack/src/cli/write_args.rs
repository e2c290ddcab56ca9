//! How `import`, `adopt` and `follow` write.

use std::{path::PathBuf, sync::Arc};

use table::{CommentBlobArgs, TableConfig};

use crate::import::{ImportOptions, Pace, WORKERS_DEFAULT};

#[derive(Debug, clap::Args)]
pub(super) struct WriteArgs {
    #[command(flatten)]
    comment_blob: CommentBlobArgs,
    /// How many comments are written concurrently.
    #[arg(long, value_name = "COUNT", default_value_t = WORKERS_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    concurrency: u16,
    /// Maximum number of write units per second, with the duplicates that follow: 68 for a comment of up to 1 KB.
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u32).range(1..))]
    write_units: Option<u32>,
    /// The file of what is refused, with the reasons; `jq -c .row` gives lines to correct and import.
    #[arg(long, value_name = "FILE")]
    pub(super) rejects: Option<PathBuf>,
}

impl WriteArgs {
    /// The table to write to. `url` is its engine's; `None` for AWS.
    pub(super) fn table_config(&self, table: impl Into<String>, url: Option<&str>) -> TableConfig {
        TableConfig { comment_blob: self.comment_blob.comment_blob, ..TableConfig::new(table, url.map(str::to_owned)) }
    }

    /// How comments are written. What becomes of existing ones is another matter.
    pub(super) fn import_options(&self) -> ImportOptions {
        let pace = |limit| Arc::new(Pace::new(self.comment_blob.comment_blob, limit));
        ImportOptions { workers: self.concurrency, pace: self.write_units.map(pace), ..ImportOptions::default() }
    }
}
