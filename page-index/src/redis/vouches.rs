//! Vouches: time-stamped confirmations by the repair job that readers may believe partitions. `repair-job/src/vouch.rs`
//! decides; this module reads and writes the markers.
//!
//! A marker has the time of the last vouch, and a token. The table stores the last token. So a partition with an older
//! token comes from a snapshot, or from a replica that lacks writes.
//!
//! **Invariant:** a token replaces only the token that was read, so two runs never overwrite each other.

use model::Timestamp;
use process::StoreError;

use super::{IndexPartition, PageIndex, connection::Routed};

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

impl PageIndex {
    /// The markers of all partitions that belong to this table. Nothing in another partition can be kept up to date
    /// until a rebuild.
    pub async fn marks(&self, table_id: &str) -> Result<Vec<(IndexPartition, Mark)>, StoreError> {
        let owner = self.keys.owner(table_id);
        let markers = self.markers(self.keys.partitions()).await?;
        let marks = self.keys.partitions().zip(markers).filter_map(|(partition, (marker, token))| {
            let (watermark, vouched) = marker.of_owner(&owner)?;
            Some((partition, Mark { watermark, vouched, token: token.unwrap_or_default() }))
        });
        Ok(marks.collect())
    }

    /// Leaves a token in the markers of partitions whose tokens have not changed since they were read. Returns the
    /// partitions where that was done. A partition that is being rebuilt is skipped.
    pub async fn leave_token(
        &self,
        table_id: &str,
        read: &[(IndexPartition, String)],
        token: &str,
        time: VouchTime,
    ) -> Result<Vec<(IndexPartition, String)>, StoreError> {
        let owner = self.keys.owner(table_id);
        let time = match time {
            VouchTime::Unchanged => String::new(),
            VouchTime::TakenAway => "0".to_owned(),
            VouchTime::At(at) => at.epoch_ms().to_string(),
        };
        let calls = read.iter().map(|(partition, read)| {
            let keys = [self.keys.marker(*partition), self.keys.rebuild_token(*partition)];
            Routed::call(&self.scripts.vouch, &keys).arg(&owner).arg(read).arg(token).arg(&time)
        });
        let done: Vec<bool> = self.ask_all(calls).await?;
        let left = read.iter().zip(done).filter(|(_, done)| *done);
        Ok(left.map(|((partition, _), _)| (*partition, token.to_owned())).collect())
    }
}
