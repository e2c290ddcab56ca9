//! The frame of a rebuild: emptying the index at its beginning, marking it ready at its end.
//!
//! **Invariant:** a partition is marked ready only by the rebuild that emptied it. A server that lost its data in
//! between, and a second rebuild that started later, have taken the token away; without the token a rebuild neither
//! marks a partition nor takes anything out of it.

use std::collections::BTreeMap;

use model::Instant;

use super::{PageIndex, keys::Keys};
use crate::error::{Store, StoreError};

/// The oldest server that knows `#!lua`. Valkey tells a Redis version too, 7.2 at least.
const REDIS_VERSION_MIN: u32 = 7;

/// Names one rebuild.
#[derive(Debug)]
pub struct Rebuild {
    token: String,
}

impl PageIndex {
    /// Empties the index, its markers first, so that nobody believes it from now on.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the server could evict keys by itself, or is too old; the store's.
    pub async fn begin_rebuild(&self) -> Result<Rebuild, StoreError> {
        self.check_server().await?;
        let rebuild = Rebuild { token: crate::new_ulid() };
        let mut pipeline = redis::pipe();
        for partition in self.keys.partitions() {
            // The token first: from then on an earlier rebuild marks nothing. What it has marked goes with the marker.
            pipeline.cmd("SET").arg(self.keys.rebuild_token(partition)).arg(&rebuild.token).ignore();
            pipeline.cmd("UNLINK").arg(self.keys.marker(partition)).ignore();
        }
        self.bounded(pipeline.query_async::<()>(&mut self.connection())).await?;
        self.empty(&rebuild).await?;
        Ok(rebuild)
    }

    /// Empties the index. What another rebuild puts there that has begun meanwhile stays: it may be finished, and
    /// believed, before this is done.
    async fn empty(&self, rebuild: &Rebuild) -> Result<(), StoreError> {
        let script = &self.scripts.empty;
        self.bounded(script.load_async(&mut self.connection())).await?;
        let mut cursor = 0_u64;
        loop {
            let (next, mut keys) = self.scan_step(cursor).await?;
            keys.retain(|key| !Keys::is_rebuild_token(key));
            let mut by_token: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for key in keys {
                if let Some(token) = self.keys.rebuild_token_beside(&key) {
                    by_token.entry(token).or_default().push(key);
                }
            }
            let mut pipeline = redis::pipe();
            for (token, keys) in by_token {
                pipeline.cmd("EVALSHA").arg(script.get_hash()).arg(1 + keys.len()).arg(token).arg(keys);
                pipeline.arg(&rebuild.token).ignore();
            }
            if !pipeline.is_empty() {
                self.bounded(pipeline.query_async::<()>(&mut self.connection())).await?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Marks every partition ready up to `watermark`, for the table of this id. Only whoever has just made the
    /// index right may call it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the index was lost meanwhile or somebody else began a rebuild; the store's.
    pub async fn finish_rebuild(
        &self,
        rebuild: &Rebuild,
        table_id: &str,
        watermark: Instant,
    ) -> Result<(), StoreError> {
        let script = &self.scripts.finish_rebuild;
        self.bounded(script.load_async(&mut self.connection())).await?;
        let mut pipeline = redis::pipe();
        for partition in self.keys.partitions() {
            pipeline.cmd("EVALSHA").arg(script.get_hash()).arg(2);
            pipeline.arg(self.keys.marker(partition)).arg(self.keys.rebuild_token(partition));
            pipeline.arg(&rebuild.token).arg(self.keys.owner(table_id)).arg(watermark.epoch_ms());
        }
        let marked: Vec<bool> = self.bounded(pipeline.query_async(&mut self.connection())).await?;
        if marked.iter().all(|marked| *marked) {
            return Ok(());
        }
        let detail = "it lost its data during the rebuild, or another rebuild has begun";
        Err(StoreError::unavailable(Store::PageIndex, detail))
    }

    /// Refuses a server that cannot keep the index: one that may evict keys makes it wrong without notice, and one
    /// before Redis 7 does not know the scripts' first line.
    async fn check_server(&self) -> Result<(), StoreError> {
        // CONFIG is forbidden on managed services; INFO tells the same.
        let info = redis::cmd("INFO");
        let info: String = self.bounded(info.query_async(&mut self.connection())).await?;
        let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name));
        let refuse = |problem: String| Err(StoreError::refused(Store::PageIndex, problem));
        let version = field("redis_version:").unwrap_or("not told");
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < REDIS_VERSION_MIN) {
            return refuse(format!("its version is {version}, it must be {REDIS_VERSION_MIN} or newer (or Valkey)"));
        }
        match field("maxmemory_policy:") {
            Some("noeviction") => Ok(()),
            other => refuse(format!("maxmemory-policy is {}, it must be noeviction", other.unwrap_or("not told"))),
        }
    }
}
