//! The frame of a rebuild: empties the index at its beginning, and marks it ready at its end.
//!
//! **Invariant:** only the rebuild that emptied a partition marks it ready. A second rebuild that
//! starts later takes the token away. Without the token, a rebuild neither marks a partition nor
//! removes anything from it.
//!
//! **Invariant:** a partition is marked ready only if it has everything that the rebuild put there
//! (`tests/reading/readiness.rs`, `tests/repair/primaries.rs`). A server restored from a snapshot
//! of that time, or a replica that took over, may have the token but lack the last edits. So a
//! rebuild ends by the same steps as a watermark advances.

use std::collections::BTreeSet;

use async_trait::async_trait;
use model::Timestamp;
use page_index::{IndexPartition, Markers, Rebuild, Rebuilds, owner};
use process::StoreError;

use crate::{RedisIndex, connection::Routed};

#[async_trait]
impl Rebuilds for RedisIndex {
    async fn clear(&self) -> Result<(), StoreError> {
        self.remove_keys(None).await
    }

    async fn begin_rebuild_of(
        &self,
        partitions: BTreeSet<IndexPartition>,
    ) -> Result<Rebuild, StoreError> {
        let rebuild = Rebuild {
            token: process::new_ulid(),
            servers: self.servers_that_keep_the_index().await?,
            partitions,
        };
        // The tokens come first: from then on, an earlier rebuild marks nothing. Its markers are
        // removed next.
        let tokens = rebuild
            .partitions
            .iter()
            .map(|partition| self.keys.rebuild_token(*partition));
        let tokens = tokens.map(|key| Routed::new("SET", &key).arg(&rebuild.token));
        self.ask_all::<()>(tokens).await?;
        let partitions: Vec<IndexPartition> = rebuild.partitions.iter().copied().collect();
        self.remove_markers(&partitions).await?;
        self.remove_keys(Some(&rebuild)).await?;
        Ok(rebuild)
    }

    async fn is_under_way(&self, rebuild: &Rebuild) -> Result<bool, StoreError> {
        let tokens = rebuild
            .partitions
            .iter()
            .map(|partition| self.keys.rebuild_token(*partition));
        let tokens: Vec<Option<String>> = self
            .ask_all(tokens.map(|key| Routed::new("GET", &key)))
            .await?;
        let are_mine = tokens
            .iter()
            .all(|token| token.as_ref() == Some(&rebuild.token));
        Ok(are_mine && self.server_identity().await? == rebuild.servers)
    }

    async fn finish_step(
        &self,
        rebuild: &Rebuild,
        table_id: &str,
        watermark: Timestamp,
        nonce: &str,
        is_last: bool,
    ) -> Result<bool, StoreError> {
        let calls = rebuild.partitions.iter().map(|partition| {
            let keys = [
                self.keys.marker(*partition),
                self.keys.rebuild_token(*partition),
            ];
            Routed::call(&self.scripts.finish_rebuild, &keys)
                .arg(&rebuild.token)
                .arg(owner(table_id, self.keys.partitions))
                .arg(watermark.epoch_ms())
                .arg(nonce)
                .arg(u8::from(is_last))
        });
        let done: Vec<bool> = self.ask_all(calls).await?;
        Ok(done.into_iter().all(|done| done))
    }
}
