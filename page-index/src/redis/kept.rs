//! Checks that partitions are still up to date, for callers that found something missing there.
//!
//! **Invariant:** a missing entry proves nothing in an index that was lost or is being rebuilt. Both remove the markers
//! before, or together with, the first entry. A server that was restored from a snapshot, or that took over, has
//! another identity. So a caller that checks markers and identity after reading entries knows that those entries were
//! not lost (`tests/repair/lost.rs`).

use futures_util::future::try_join;
use model::Timestamp;
use process::{Store, StoreError};

use super::{IndexPartition, PageIndex, ServerIdentity, connection::Routed};

impl PageIndex {
    /// Checks that the index that has just answered for partitions is up to date. Its servers must be those of before.
    /// Its markers must belong to this table, and must not be older than before.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the check fails: the index was lost or restored, another server took over, or a
    /// rebuild began. Also the store's errors.
    pub async fn assert_kept(
        &self,
        table_id: &str,
        since: &[(IndexPartition, Timestamp)],
        servers: &ServerIdentity,
    ) -> Result<(), StoreError> {
        let owner = self.keys.owner(table_id);
        let markers = since.iter().map(|(partition, _)| {
            let mut command = Routed::new("HMGET", &self.keys.marker(*partition));
            command.arg("table").arg("watermark");
            command
        });
        let markers = self.ask_all::<(Option<String>, Option<i64>)>(markers);
        let (markers, present) = try_join(markers, self.server_identity()).await?;
        let is_kept = since.iter().zip(markers).all(|((_, before), (table, watermark))| {
            table.as_ref() == Some(&owner) && watermark.is_some_and(|watermark| watermark >= before.epoch_ms())
        });
        if is_kept && present == *servers {
            return Ok(());
        }
        let detail = "it was lost, or its servers have changed, or a rebuild has begun, since the run began";
        Err(StoreError::unavailable(Store::PageIndex, detail))
    }
}
