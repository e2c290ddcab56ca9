//! The frame of a rebuild: empties the index at its beginning, and marks it ready at its end.
//!
//! **Invariant:** only the rebuild that emptied a partition marks it ready. A second rebuild that starts later takes
//! the token away. Without the token, a rebuild neither marks a partition nor removes anything from it.
//!
//! **Invariant:** a partition is marked ready only if it has everything that the rebuild put there
//! (`tests/readiness.rs`, `tests/repair/primaries.rs`). A server restored from a snapshot of that time, or a replica that
//! took over, may have the token but lack the last edits. So a rebuild uses the same steps as watermarks:
//!
//! 1. It remembers the servers with which it began.
//! 2. After its last edit, it leaves a nonce in the markers.
//! 3. It asks for the servers again, and stops if they have changed.
//! 4. It marks a partition only where the nonce is.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use model::Timestamp;
use page_index::{IndexPartition, Markers, Rebuild, Rebuilds};
use process::{Store, StoreError};

use crate::{RedisIndex, connection::Routed, keys::Keys};

/// The oldest server version that knows `#!lua`. Valkey also reports a Redis version, at least 7.2.
const REDIS_VERSION_MIN: u32 = 7;

#[async_trait]
impl Rebuilds for RedisIndex {
    async fn clear(&self) -> Result<(), StoreError> {
        let mut walk = self.walk().await?;
        while let Some(mut keys) = self.next_keys(&mut walk).await? {
            keys.retain(|key| !Keys::is_rebuild_token(key));
            // UNLINK frees the memory in the background; DEL of a large set would block the server.
            self.ask_all::<()>(keys.iter().map(|key| Routed::new("UNLINK", key))).await?;
        }
        Ok(())
    }

    async fn begin_rebuild_of(&self, partitions: BTreeSet<IndexPartition>) -> Result<Rebuild, StoreError> {
        let rebuild = Rebuild { token: process::new_ulid(), servers: self.server_identity().await?, partitions };
        // The tokens come first: from then on, an earlier rebuild marks nothing. Its markers are removed next.
        let tokens = rebuild.partitions.iter().map(|partition| self.keys.rebuild_token(*partition));
        let tokens = tokens.map(|key| Routed::new("SET", &key).arg(&rebuild.token));
        self.ask_all::<()>(tokens).await?;
        let markers = rebuild.partitions.iter().map(|partition| self.keys.marker(*partition));
        self.ask_all::<()>(markers.map(|key| Routed::new("UNLINK", &key))).await?;
        self.empty(&rebuild).await?;
        Ok(rebuild)
    }

    async fn is_under_way(&self, rebuild: &Rebuild) -> Result<bool, StoreError> {
        let tokens = rebuild.partitions.iter().map(|partition| self.keys.rebuild_token(*partition));
        let tokens: Vec<Option<String>> = self.ask_all(tokens.map(|key| Routed::new("GET", &key))).await?;
        let are_mine = tokens.iter().all(|token| token.as_ref() == Some(&rebuild.token));
        Ok(are_mine && self.server_identity().await? == rebuild.servers)
    }

    async fn finish_rebuild(&self, rebuild: &Rebuild, table_id: &str, watermark: Timestamp) -> Result<(), StoreError> {
        let nonce = process::new_ulid();
        let is_mine = self.finish_step(rebuild, table_id, watermark, &nonce, false).await?;
        if self.server_identity().await? != rebuild.servers {
            let detail = "its servers were started again or replaced during the rebuild, and may lack some of its edits \
                          (or a first replica came, or the last one left)";
            return Err(StoreError::unavailable(Store::PageIndex, detail));
        }
        if is_mine && self.finish_step(rebuild, table_id, watermark, &nonce, true).await? {
            return Ok(());
        }
        let detail = "it lost its data during the rebuild, or another rebuild has begun";
        Err(StoreError::unavailable(Store::PageIndex, detail))
    }
}

impl RedisIndex {
    /// Empties the rebuild's partitions. The entries of a rebuild that began meanwhile stay. That rebuild may finish,
    /// and readers may believe it, before this call ends.
    async fn empty(&self, rebuild: &Rebuild) -> Result<(), StoreError> {
        let mut walk = self.walk().await?;
        while let Some(mut keys) = self.next_keys(&mut walk).await? {
            keys.retain(|key| !Keys::is_rebuild_token(key));
            // Keys of partitions that do not exist, for example after their number changed. A rebuild never fills
            // those.
            let mut strays = Vec::new();
            let mut by_partition: BTreeMap<IndexPartition, Vec<String>> = BTreeMap::new();
            for key in keys {
                match self.keys.split(&key).map(|(partition, _)| partition) {
                    Some(partition) if rebuild.partitions.contains(&partition) => {
                        by_partition.entry(partition).or_default().push(key);
                    }
                    Some(_) => {}
                    None => strays.push(Routed::new("UNLINK", &key)),
                }
            }
            self.ask_all::<()>(strays).await?;
            let calls = by_partition.into_iter().map(|(partition, mut keys)| {
                keys.insert(0, self.keys.rebuild_token(partition));
                Routed::call(&self.scripts.empty, &keys).arg(&rebuild.token)
            });
            self.ask_all::<()>(calls).await?;
        }
        Ok(())
    }

    /// Leaves the nonce in every partition of the rebuild, or marks them. Returns whether that was done in all of them.
    async fn finish_step(
        &self,
        rebuild: &Rebuild,
        table_id: &str,
        watermark: Timestamp,
        nonce: &str,
        is_last: bool,
    ) -> Result<bool, StoreError> {
        let calls = rebuild.partitions.iter().map(|partition| {
            let keys = [self.keys.marker(*partition), self.keys.rebuild_token(*partition)];
            Routed::call(&self.scripts.finish_rebuild, &keys)
                .arg(&rebuild.token)
                .arg(self.keys.owner(table_id))
                .arg(watermark.epoch_ms())
                .arg(nonce)
                .arg(u8::from(is_last))
        });
        let done: Vec<bool> = self.ask_all(calls).await?;
        Ok(done.into_iter().all(|done| done))
    }

    /// Refuses servers that cannot keep the index. A server that may evict keys makes the index wrong without notice. A
    /// server before Redis 7 does not know the first line of the scripts. Replicas are not checked, although one may
    /// become a master: the operator keeps their settings equal to their master's.
    ///
    /// Returns the `INFO` of each server.
    pub(super) async fn check_servers(&self) -> Result<Vec<String>, StoreError> {
        // Managed services forbid CONFIG. INFO has the same settings.
        let info = redis::cmd("INFO");
        let infos: Vec<String> = self
            .bounded(async {
                let layout = self.connection.layout().await?;
                try_join_all(layout.masters.iter().map(|master| master.query(&info))).await
            })
            .await?;
        infos.iter().try_for_each(|info| check_server(info))?;
        Ok(infos)
    }
}

fn check_server(info: &str) -> Result<(), StoreError> {
    let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name));
    let whose = field("tcp_port:").map_or(String::new(), |port| format!(" (of the server at port {port})"));
    let refuse = |problem: String| Err(StoreError::refused(Store::PageIndex, problem + &whose));
    let version = field("redis_version:").unwrap_or("unknown");
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < REDIS_VERSION_MIN) {
        return refuse(format!("its version is {version}, it must be {REDIS_VERSION_MIN} or newer (or Valkey)"));
    }
    match field("maxmemory_policy:") {
        Some("noeviction") => Ok(()),
        other => refuse(format!("maxmemory-policy is {}, it must be noeviction", other.unwrap_or("unknown"))),
    }
}
