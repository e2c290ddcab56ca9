//! Readiness: whether readers may believe the page index.
//!
//! The watermark does not matter here. It says how far repair has come, not whether the partition is right (`confirm`).

use std::fmt;

use model::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// The partition has no marker: it is new, flushed, lost, being rebuilt, or of another layout.
    NoMarker,
    /// The partition belongs to another table, because this one was restored or created again, or to another number of
    /// partitions.
    OtherTable,
    /// The last confirmation is too old, or was taken away. An old snapshot was restored, or the page indexer or the
    /// repair job has stopped.
    Stale {
        /// When the repair job last confirmed it; `None` when that was taken away.
        confirmed: Option<Timestamp>,
    },
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMarker => f.write_str("it has no marker (new, lost, or being rebuilt)"),
            Self::OtherTable => f.write_str("it belongs to another table or number of partitions"),
            Self::Stale { confirmed: Some(at) } => write!(f, "the repair job last confirmed it at {at}"),
            Self::Stale { confirmed: None } => f.write_str("the repair job does not confirm it"),
        }
    }
}
