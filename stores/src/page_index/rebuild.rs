//! The frame of a rebuild: emptying the index at its beginning, marking it ready at its end.
//!
//! **Invariant:** a partition is marked ready only by the rebuild that emptied it. A second rebuild that started later has
//! taken the token away; without the token a rebuild neither marks a partition nor takes anything out of it.
//!
//! **Invariant:** and only where everything is that the rebuild put there. A server that came back with a snapshot taken on
//! the way, or a replica that took over, may have the token and lack the last edits. So, as with watermarks, the rebuild
//! remembers which servers it began with, leaves a nonce in the markers when it has made its last edit, asks who the
//! servers are, and marks a partition only where the nonce is (`tests/readiness.rs`, `tests/repair/rebuild.rs`).

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use model::Instant;

use super::{PageIndex, ServerIdentity, connection::Routed, keys::Keys};
use crate::error::{Store, StoreError};

/// The oldest server that knows `#!lua`. Valkey tells a Redis version too, 7.2 at least.
const REDIS_VERSION_MIN: u32 = 7;

/// Names one rebuild.
#[derive(Debug)]
pub struct Rebuild {
    token: String,
    /// Who answered when it began.
    servers: ServerIdentity,
}

impl Rebuild {
    /// The token of its vouch.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The servers that it fills.
    pub fn servers(&self) -> &ServerIdentity {
        &self.servers
    }
}

impl PageIndex {
    /// Empties the index, its markers first, so that nobody believes it from now on.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the server could evict keys by itself, or is too old; the store's.
    pub async fn begin_rebuild(&self) -> Result<Rebuild, StoreError> {
        let rebuild = Rebuild { token: crate::new_ulid(), servers: self.server_identity().await? };
        // The tokens first: from then on an earlier rebuild marks nothing. What it has marked goes with the markers.
        let tokens = self.keys.partitions().map(|partition| {
            let mut command = Routed::new("SET", &self.keys.rebuild_token(partition));
            command.arg(&rebuild.token);
            command
        });
        self.ask_all::<()>(tokens).await?;
        let markers = self.keys.partitions().map(|partition| Routed::new("UNLINK", &self.keys.marker(partition)));
        self.ask_all::<()>(markers).await?;
        self.empty(&rebuild).await?;
        Ok(rebuild)
    }

    /// Empties the index. What another rebuild puts there that has begun meanwhile stays: it may be finished, and
    /// believed, before this is done.
    async fn empty(&self, rebuild: &Rebuild) -> Result<(), StoreError> {
        let mut walk = self.walk().await?;
        while let Some(mut keys) = self.next_keys(&mut walk).await? {
            keys.retain(|key| !Keys::is_rebuild_token(key));
            // Of partitions that there are not, as after another number of them: nobody fills those.
            let strays: Vec<String> = keys.extract_if(.., |key| self.keys.split(key).is_none()).collect();
            self.ask_all::<()>(strays.iter().map(|key| Routed::new("UNLINK", key))).await?;
            let mut by_token: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for key in keys {
                if let Some(token) = self.keys.rebuild_token_beside(&key) {
                    by_token.entry(token.clone()).or_insert_with(|| vec![token]).push(key);
                }
            }
            let calls = by_token.values().map(|keys| {
                let mut call = Routed::call(&self.scripts.empty, keys);
                call.arg(&rebuild.token);
                call
            });
            self.ask_all::<()>(calls).await?;
        }
        Ok(())
    }

    /// Marks every partition ready up to `watermark`, and vouches for it as of then, for the table of this id. Only whoever
    /// has just made the index right may call it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the index was lost meanwhile, its servers are others than at the beginning, or
    /// somebody else began a rebuild; the store's.
    pub async fn finish_rebuild(
        &self,
        rebuild: &Rebuild,
        table_id: &str,
        watermark: Instant,
    ) -> Result<(), StoreError> {
        let nonce = crate::new_ulid();
        let is_mine = self.finish_step(rebuild, table_id, watermark, &nonce, false).await?;
        if self.server_identity().await? != rebuild.servers {
            let detail = "its servers were started again or replaced during the rebuild, and may lack some of its edits \
                          (or a first replica came, or the last one is gone)";
            return Err(StoreError::unavailable(Store::PageIndex, detail));
        }
        if is_mine && self.finish_step(rebuild, table_id, watermark, &nonce, true).await? {
            return Ok(());
        }
        let detail = "it lost its data during the rebuild, or another rebuild has begun";
        Err(StoreError::unavailable(Store::PageIndex, detail))
    }

    /// Leaves the nonce in every partition, or marks it; whether that was done in all of them.
    async fn finish_step(
        &self,
        rebuild: &Rebuild,
        table_id: &str,
        watermark: Instant,
        nonce: &str,
        is_last: bool,
    ) -> Result<bool, StoreError> {
        let calls = self.keys.partitions().map(|partition| {
            let keys = [self.keys.marker(partition), self.keys.rebuild_token(partition)];
            let mut call = Routed::call(&self.scripts.finish_rebuild, &keys);
            call.arg(&rebuild.token).arg(self.keys.owner(table_id)).arg(watermark.epoch_ms());
            call.arg(nonce).arg(u8::from(is_last));
            call
        });
        let done: Vec<bool> = self.ask_all(calls).await?;
        Ok(done.into_iter().all(|done| done))
    }

    /// Refuses servers that cannot keep the index: one that may evict keys makes it wrong without notice, and one
    /// before Redis 7 does not know the scripts' first line. A replica becomes a master one day, but is not asked: that
    /// its settings are its master's is the operator's to see to.
    ///
    /// Returns what each tells of itself.
    pub(super) async fn check_servers(&self) -> Result<Vec<String>, StoreError> {
        // CONFIG is forbidden on managed services; INFO tells the same.
        let info = redis::cmd("INFO");
        let told: Vec<String> = self
            .bounded(async {
                let layout = self.connection.layout().await?;
                try_join_all(layout.masters.iter().map(|master| master.query(&info))).await
            })
            .await?;
        told.iter().try_for_each(|info| check_server(info))?;
        Ok(told)
    }
}

/// Refuses the server that tells this of itself.
fn check_server(info: &str) -> Result<(), StoreError> {
    let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name));
    let whose = field("tcp_port:").map_or(String::new(), |port| format!(" (of the server at port {port})"));
    let refuse = |problem: String| Err(StoreError::refused(Store::PageIndex, problem + &whose));
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
