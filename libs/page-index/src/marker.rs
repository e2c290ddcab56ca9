//! The marker of a partition, and what the repair job does with it.
//!
//! A marker names the table that the partition belongs to. Its watermark is the instant up to which
//! the journal has been reconciled into the partition. It also has the time of the repair job's
//! last confirmation. A confirmation leaves a token, too. The table stores the last token. So a
//! partition with an older token comes from a snapshot, or from a replica that lacks writes.
//!
//! **Invariant:** a watermark never covers a write that its server lacks
//! (`tests/repair/recent.rs`). A caller advances a watermark in these steps:
//!
//! 1. It asks for the servers' identity, and reconciles a window.
//! 2. It leaves a nonce in the markers.
//! 3. It asks for the servers' identity again, and stops if that has changed.
//! 4. It advances a watermark only where the nonce is.
//!
//! The identity reveals a server that was restarted, restored or replaced during the window. A
//! server that took over later has either lost the nonce, or has everything that was written before
//! it, because writes of a slot are replicated in their order.

use std::{collections::BTreeSet, ops::Deref, time::Duration};

use model::Timestamp;
use process::{Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::{IndexPartition, NotReady, PageIndex, ServerIdentity};

/// The content of a partition's marker. A partition without one has the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Marker {
    pub owner: Option<String>,
    pub watermark: Option<Timestamp>,
    /// A snapshot leaves it out: edits after the snapshot may be lost.
    #[serde(skip)]
    pub confirmed: Option<Timestamp>,
    pub token: Option<String>,
}

impl Marker {
    /// Judges the marker and returns its watermark. A marker without a watermark counts as absent.
    ///
    /// # Errors
    /// The reason why readers must not believe the partition.
    pub fn judge(
        &self,
        owner: &str,
        now: Timestamp,
        max_age: Duration,
    ) -> Result<Timestamp, NotReady> {
        let (Some(marked), Some(watermark)) = (&self.owner, self.watermark) else {
            return Err(NotReady::NoMarker);
        };
        if marked != owner {
            return Err(NotReady::OtherTable);
        }
        let Some(confirmed) = self.confirmed else {
            return Err(NotReady::Stale { confirmed: None });
        };
        let age_ms = u128::try_from(now.epoch_ms() - confirmed.epoch_ms()).unwrap_or(0);
        if age_ms <= max_age.as_millis() {
            Ok(watermark)
        } else {
            Err(NotReady::Stale {
                confirmed: Some(confirmed),
            })
        }
    }

    /// What the repair job does with the marker. `None` if it is not this owner's.
    pub fn of_owner(self, owner: &str) -> Option<Mark> {
        if self.owner.as_deref() != Some(owner) {
            return None;
        }
        Some(Mark {
            watermark: self.watermark?,
            confirmed: self.confirmed,
            token: self.token.unwrap_or_default(),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The journal has been reconciled into the partition up to this instant. Whether the partition
    /// is ready depends on its confirmation, not on this.
    pub watermark: Timestamp,
    /// Time of the last confirmation; `None` after it was withdrawn.
    pub confirmed: Option<Timestamp>,
    /// The token written with that confirmation, or with its withdrawal. Empty when the marker has
    /// none.
    pub token: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConfirmationTime {
    /// The time stays.
    Unchanged,
    /// The time is taken away, and readers do not believe the partition.
    TakenAway,
    At(Timestamp),
}

/// An advance of watermarks that is under way.
#[derive(Debug)]
pub struct Advance {
    pub owner: String,
    pub nonce: String,
    /// The partitions, and their watermarks until then.
    pub from: Vec<(IndexPartition, Timestamp)>,
}

impl PageIndex {
    /// Prepares to advance watermarks from the values in `from`: leaves a nonce in the partitions
    /// whose watermarks still have these values.
    ///
    /// # Errors
    /// [`StoreError::unavailable`] when the servers have changed since the beginning of the window.
    pub async fn prepare_advance(
        &self,
        table_id: &str,
        from: &[(IndexPartition, Timestamp)],
        began_with: &ServerIdentity,
    ) -> Result<Advance, StoreError> {
        let mut advance = Advance {
            owner: self.owner(table_id),
            nonce: process::new_ulid(),
            from: from.to_vec(),
        };
        let done = self.advance_step(&advance, None).await?;
        if self.server_identity().await? != *began_with {
            return Err(StoreError::unavailable(
                Store::PageIndex,
                "its servers have changed since the run began",
            ));
        }
        advance.from = where_done(from, done).copied().collect();
        Ok(advance)
    }

    /// Advances the watermarks, and returns the partitions where that was done. Only a caller that
    /// has just reconciled the journal up to `to` may call this.
    pub async fn advance(
        &self,
        advance: Advance,
        to: Timestamp,
    ) -> Result<Vec<IndexPartition>, StoreError> {
        let done = self.advance_step(&advance, Some(to)).await?;
        Ok(where_done(&advance.from, done)
            .map(|(partition, _)| *partition)
            .collect())
    }

    /// Leaves a token, see [`Markers::leave_token`](crate::Markers::leave_token). Returns what is
    /// now in the partitions where that was done.
    pub async fn leave_token(
        &self,
        table_id: &str,
        read: &[(IndexPartition, String)],
        token: &str,
        time: ConfirmationTime,
    ) -> Result<Vec<(IndexPartition, String)>, StoreError> {
        let done = self
            .deref()
            .leave_token(&self.owner(table_id), read, token, time)
            .await?;
        Ok(where_done(read, done)
            .map(|(partition, _)| (*partition, token.to_owned()))
            .collect())
    }
}

fn where_done<T>(asked: &[T], done: Vec<bool>) -> impl Iterator<Item = &T> {
    asked
        .iter()
        .zip(done)
        .filter_map(|(asked, done)| done.then_some(asked))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rebuild {
    pub token: String,
    pub servers: ServerIdentity,
    pub partitions: BTreeSet<IndexPartition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_epoch_ms(ms).unwrap()
    }

    fn judged(marker: &Marker) -> Result<Timestamp, NotReady> {
        marker.judge("t1", at(10_000), Duration::from_millis(4_000))
    }

    fn confirmed(table: &str, confirmed: Option<Timestamp>) -> Marker {
        Marker {
            owner: Some(table.to_owned()),
            watermark: Some(at(1_000)),
            confirmed,
            token: None,
        }
    }

    #[test]
    fn only_a_marker_of_this_table_with_a_fresh_confirmation_is_believed() {
        let without_watermark = Marker {
            watermark: None,
            ..confirmed("t1", Some(at(9_000)))
        };
        for (marker, expected) in [
            (confirmed("t1", Some(at(6_000))), Ok(at(1_000))),
            (confirmed("t1", Some(at(11_000))), Ok(at(1_000))),
            (
                confirmed("t1", Some(at(5_999))),
                Err(NotReady::Stale {
                    confirmed: Some(at(5_999)),
                }),
            ),
            (
                confirmed("t1", None),
                Err(NotReady::Stale { confirmed: None }),
            ),
            (confirmed("t0", Some(at(6_000))), Err(NotReady::OtherTable)),
            (Marker::default(), Err(NotReady::NoMarker)),
            (without_watermark, Err(NotReady::NoMarker)),
        ] {
            assert_eq!(judged(&marker), expected, "{marker:?}");
        }
    }
}
