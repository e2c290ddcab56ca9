//! Readiness: whether readers may believe the page index.
//!
//! The watermark does not matter here. It says how far repair has come, not whether the partition
//! is right (`confirm`).

use derive_more::Display;
use model::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Display)]
pub enum NotReady {
    /// The partition has no marker: it is new, flushed, lost, being rebuilt, or has a different
    /// layout.
    #[display("it has no marker (new, lost, or being rebuilt)")]
    NoMarker,
    /// The partition belongs to another table, because this one was restored or created again, or
    /// to another number of partitions.
    #[display("it belongs to another table or number of partitions")]
    OtherTable,
    /// The last confirmation is too old, or was taken away. An old snapshot was restored, or the
    /// page indexer or the repair job has stopped.
    #[display("the repair job {}", last_confirmation(*confirmed))]
    Stale { confirmed: Option<Timestamp> },
}

/// How old the last confirmation of a partition is that readers believe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    Fresh,
    /// Older than a third of the time for which it is believed, an hour in a deployment. The index
    /// has no room, or the page indexer or the repair job stands still.
    Overdue,
}

fn last_confirmation(confirmed: Option<Timestamp>) -> String {
    match confirmed {
        Some(at) => format!("last confirmed it at {at}"),
        None => "does not confirm it".to_owned(),
    }
}
