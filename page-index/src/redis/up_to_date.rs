//! Checks that partitions are still up to date, for callers that found something missing there.
//!
//! **Invariant:** a missing entry proves nothing in an index that was lost or is being rebuilt. Both remove the markers
//! before, or together with, the first entry. A server that was restored from a snapshot, or that took over, has
//! another identity. So a caller that checks markers and identity after reading entries knows that those entries were
//! not lost (`tests/repair/lost.rs`).

use futures_util::future::try_join;
use model::Timestamp;
use process::{Store, StoreError};

use super::{IndexPartition, PageIndex, ServerIdentity};

impl PageIndex {
    /// Checks that the index that has just answered for partitions is up to date. Its servers must be those of before.
    /// Its markers must belong to this table, and must not be older than before.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the check fails: the index was lost or restored, another server took over, or a
    /// rebuild began. Also the store's errors.
    pub async fn assert_up_to_date(
        &self,
        table_id: &str,
        since: &[(IndexPartition, Timestamp)],
        servers: &ServerIdentity,
    ) -> Result<(), StoreError> {
        let owner = self.keys.owner(table_id);
        let partitions: Vec<IndexPartition> = since.iter().map(|(partition, _)| *partition).collect();
        let markers = self.markers(partitions);
        let (markers, present) = try_join(markers, self.server_identity()).await?;
        let is_up_to_date = since.iter().zip(markers).all(|((_, before), (marker, _))| {
            marker.of_owner(&owner).is_some_and(|(watermark, _)| watermark >= *before)
        });
        if is_up_to_date && present == *servers {
            return Ok(());
        }
        let detail = "it was lost, or its servers have changed, or a rebuild has begun, since the run began";
        Err(StoreError::unavailable(Store::PageIndex, detail))
    }
}
