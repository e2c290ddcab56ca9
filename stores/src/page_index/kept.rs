//! Whether partitions are still kept up to date, for whoever has found something missing there.
//!
//! **Invariant:** nothing is concluded from what is missing in an index that was lost, or is being rebuilt. Both take the
//! markers away before, or together with, the first entry; a server that was restored from a snapshot, or has taken over,
//! has another identity. So who asks for both after having read entries knows that those were not lost
//! (`tests/repair/lost.rs`).

use futures_util::future::try_join;
use model::Instant;

use super::{IndexPartition, PageIndex, ServerIdentity, connection::Routed};
use crate::error::{Store, StoreError};

impl PageIndex {
    /// Makes sure that what was just read of partitions was read of an index that is kept up to date: the servers are
    /// those that answered before, and the markers are this table's and not older than they were.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when that is not so: it was lost, restored, taken over by another server, or a rebuild
    /// has begun; the store's.
    pub async fn assert_kept(
        &self,
        table_id: &str,
        since: &[(IndexPartition, Instant)],
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
