//! The command line of a run.

use std::path::PathBuf;

/// How much a comparison does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Rounds, each with a half for ours and one for the bare side; one more warms up.
    pub(crate) rounds: u32,
    /// Comments or requests of a half of a round.
    pub(crate) a_half: u32,
}

/// The options of a run besides the names of measurements.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Options {
    /// Comments from this file of JSON lines, gzipped or not, instead of generated ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// How many comments, instead of each measurement's own number.
    #[arg(long, value_name = "N")]
    pub(crate) comments: Option<u32>,
    /// This binary of the API instead of one that cargo builds from the code as it is now.
    #[arg(long, value_name = "FILE")]
    pub(crate) api: Option<PathBuf>,
    /// Fewer comments and rounds: what can be measured so, in about a minute.
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Options {
    /// Number of comments for a measurement: the requested one, otherwise the default of a quick or a full run.
    pub(crate) fn comments_or(&self, quick: u32, full: u32) -> u32 {
        self.comments.unwrap_or(if self.quick { quick } else { full })
    }
}
