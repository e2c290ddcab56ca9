//! Vouches: the repair job says of partitions that readers may believe them. It decides in `repair-job/src/vouch.rs`; here
//! is what a marker says, and writing it.
//!
//! A marker has a vouch's time and a token. The table remembers the last token, so a partition whose token is an older one
//! comes from a snapshot or from a replica that lacks writes.
//!
//! **Invariant:** a token replaces only the one that was read, so two runs never vouch over each other.

use model::Instant;

use super::{IndexPartition, PageIndex, connection::Routed, readiness::Marker};
use crate::error::StoreError;

/// What the marker of a partition of this table says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The journal has been reconciled into the partition up to this instant.
    pub watermark: Instant,
    /// When the repair job last vouched for it, unless that was taken away.
    pub vouched: Option<Instant>,
    /// The token of that vouch, or of taking it away; empty when there is none.
    pub token: String,
}

/// What becomes of the time of a vouch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VouchTime {
    /// It stays.
    Kept,
    /// The vouch is taken away: readers do not believe the partition.
    TakenAway,
    /// Readers believe the partition for a time from then on.
    At(Instant),
}

impl PageIndex {
    /// The markers of all partitions that belong to this table.
    ///
    /// # Errors
    /// The store's.
    pub async fn marks(&self, table_id: &str) -> Result<Vec<(IndexPartition, Mark)>, StoreError> {
        let owner = self.keys.owner(table_id);
        let command = |partition| {
            let mut command = Routed::new("HMGET", &self.keys.marker(partition));
            command.arg("table").arg("watermark").arg("vouched").arg("token");
            command
        };
        type Answer = (Option<String>, Option<i64>, Option<i64>, Option<String>);
        let markers: Vec<Answer> = self.ask_all(self.keys.partitions().map(command)).await?;
        let marks =
            self.keys.partitions().zip(markers).filter_map(|(partition, (table, watermark, vouched, token))| {
                let (watermark, vouched) = Marker::of(table, watermark, vouched).of_owner(&owner)?;
                Some((partition, Mark { watermark, vouched, token: token.unwrap_or_default() }))
            });
        Ok(marks.collect())
    }

    /// Leaves a token in the markers of partitions whose tokens are still as they were read; returns where that was done.
    /// A partition that is being rebuilt is left alone.
    ///
    /// # Errors
    /// The store's.
    pub async fn leave_token(
        &self,
        table_id: &str,
        read: &[(IndexPartition, String)],
        token: &str,
        time: VouchTime,
    ) -> Result<Vec<(IndexPartition, String)>, StoreError> {
        let owner = self.keys.owner(table_id);
        let time = match time {
            VouchTime::Kept => String::new(),
            VouchTime::TakenAway => "0".to_owned(),
            VouchTime::At(at) => at.epoch_ms().to_string(),
        };
        let calls = read.iter().map(|(partition, read)| {
            let keys = [self.keys.marker(*partition), self.keys.rebuild_token(*partition)];
            let mut call = Routed::call(&self.scripts.vouch, &keys);
            call.arg(&owner).arg(read).arg(token).arg(&time);
            call
        });
        let done: Vec<bool> = self.ask_all(calls).await?;
        let left = read.iter().zip(done).filter(|(_, done)| *done);
        Ok(left.map(|((partition, _), _)| (*partition, token.to_owned())).collect())
    }
}
