//! The marker of a partition, and what the repair job does with it.
//!
//! A marker names the table that the partition belongs to. Its watermark is the instant up to which the journal has been
//! reconciled into the partition. It also has the time of the repair job's last vouch. A vouch leaves a token, too. The table stores the last
//! token. So a partition with an older token comes from a snapshot, or from a replica that lacks writes.

use std::time::Duration;

use model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{IndexPartition, NotReady};

/// The content of a partition's marker. A partition without one has the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    /// See [`owner`](crate::owner).
    pub owner: Option<String>,
    /// See [`Mark::watermark`].
    pub watermark: Option<Timestamp>,
    /// See [`Mark::vouched`].
    pub vouched: Option<Timestamp>,
    /// See [`Mark::token`].
    pub token: Option<String>,
}

impl Marker {
    /// Judges the marker and returns its watermark. A marker without a watermark counts as absent.
    ///
    /// # Errors
    /// The reason why readers must not believe the partition.
    pub fn judge(&self, owner: &str, now: Timestamp, max_age: Duration) -> Result<Timestamp, NotReady> {
        let (Some(marked), Some(watermark)) = (&self.owner, self.watermark) else { return Err(NotReady::NoMarker) };
        if marked != owner {
            return Err(NotReady::OtherTable);
        }
        let age_ms = |vouched: Timestamp| u128::try_from(now.epoch_ms() - vouched.epoch_ms()).unwrap_or(0);
        match self.vouched {
            Some(vouched) if age_ms(vouched) <= max_age.as_millis() => Ok(watermark),
            vouched => Err(NotReady::Stale { vouched }),
        }
    }

    /// What the marker says, if it belongs to this owner.
    pub(crate) fn of_owner(self, owner: &str) -> Option<Mark> {
        let watermark = self.watermark.filter(|_| self.owner.as_deref() == Some(owner))?;
        Some(Mark { watermark, vouched: self.vouched, token: self.token.unwrap_or_default() })
    }
}

/// The content of the marker of a partition of this table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The journal has been reconciled into the partition up to this instant. Whether the partition is ready depends on
    /// its vouch, not on this.
    pub watermark: Timestamp,
    /// Time of the last vouch; `None` after it was withdrawn.
    pub vouched: Option<Timestamp>,
    /// The token written with that vouch, or with its withdrawal. Empty when the marker has none.
    pub token: String,
}

/// What happens to the time of the last vouch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VouchTime {
    /// The time stays.
    Unchanged,
    /// The time is taken away, and readers do not believe the partition.
    TakenAway,
    /// Readers believe the partition for a time from this instant on.
    At(Timestamp),
}

/// Identifies the servers that answer. It changes when a server restarts, and when another takes over. It also changes
/// when a server has followed another one meanwhile, and so has the data of that one. A master that gets its first
/// replica, or lost its last one an hour ago, also changes it: the master begins a history with a new name.
///
/// An index inside the process is its own server. Its identity changes whenever it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerIdentity(pub String);

/// Partitions whose watermarks may advance.
#[derive(Debug)]
pub struct Advance {
    /// The owner of the partitions.
    pub owner: String,
    /// What the preparation left in the markers.
    pub nonce: String,
    /// The partitions, and their watermarks until then.
    pub from: Vec<(IndexPartition, Timestamp)>,
}

/// Identifies one rebuild.
#[derive(Debug)]
pub struct Rebuild {
    /// The rebuild's token, which its vouch also uses.
    pub token: String,
    /// The servers that answered when it began, and that it fills.
    pub servers: ServerIdentity,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_marker_of_this_table_with_a_fresh_vouch_is_believed() {
        let at = |ms| Timestamp::from_epoch_ms(ms).unwrap();
        let marker =
            |table: &str, watermark, vouched| Marker { owner: Some(table.to_owned()), watermark, vouched, token: None };
        let judge = |marker: Marker| marker.judge("t1", at(10_000), Duration::from_millis(4_000));
        let vouched = |table: &str, vouched| judge(marker(table, Some(at(1_000)), vouched));
        assert_eq!(vouched("t1", Some(at(6_000))), Ok(at(1_000)));
        assert_eq!(vouched("t1", Some(at(11_000))), Ok(at(1_000)));
        assert_eq!(vouched("t1", Some(at(5_999))), Err(NotReady::Stale { vouched: Some(at(5_999)) }));
        assert_eq!(vouched("t1", None), Err(NotReady::Stale { vouched: None }));
        assert_eq!(vouched("t0", Some(at(6_000))), Err(NotReady::OtherTable));
        assert_eq!(judge(Marker::default()), Err(NotReady::NoMarker));
        assert_eq!(judge(marker("t1", None, Some(at(9_000)))), Err(NotReady::NoMarker));
    }
}
