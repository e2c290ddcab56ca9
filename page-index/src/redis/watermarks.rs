//! Advances the watermarks of partitions that are kept up to date.
//!
//! **Invariant:** a watermark never covers a write that its server lacks (`tests/repair/recent.rs`). A caller advances
//! a watermark in these steps:
//!
//! 1. It asks for the servers' identity, and reconciles a window.
//! 2. It leaves a nonce in the markers.
//! 3. It asks for the servers' identity again, and stops if that has changed.
//! 4. It advances a watermark only where the nonce is.
//!
//! The identity reveals a server that was restarted, restored or replaced during the window. A server that took over
//! later has either lost the nonce, or has everything that was written before it, because writes of a slot are
//! replicated in their order.

use model::Timestamp;
use process::{Store, StoreError};

use super::{IndexPartition, PageIndex, connection::Routed};

/// Identifies the servers that answer. It changes when a server restarts, and when another takes over. It also changes
/// when a server has followed another one meanwhile, and so has the data of that one. A master that gets its first
/// replica, or lost its last one an hour ago, also changes it: the master begins a history with a new name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServerIdentity(String);

/// Partitions whose watermarks may advance.
#[derive(Debug)]
pub struct Advance {
    owner: String,
    nonce: String,
    from: Vec<(IndexPartition, Timestamp)>,
}

impl PageIndex {
    /// Identifies the servers that answer. Refuses servers that cannot keep the index (see
    /// [`PageIndex::begin_rebuild`]).
    ///
    /// # Errors
    /// [`StoreError::Refused`] for such servers. Also the store's errors.
    pub async fn server_identity(&self) -> Result<ServerIdentity, StoreError> {
        let mut runs = Vec::new();
        for info in self.check_servers().await? {
            let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name));
            let run = field("run_id:").ok_or_else(|| StoreError::refused(Store::PageIndex, "INFO tells no run_id"))?;
            // A process that becomes a replica and then a master again keeps its run_id, but its history gets a new
            // name.
            runs.push(format!("{run}/{}", field("master_replid:").unwrap_or_default()));
        }
        runs.sort_unstable();
        Ok(ServerIdentity(runs.join(" ")))
    }

    /// Prepares to advance watermarks from the values in `from`. Leaves a nonce in the partitions whose watermarks
    /// still have these values.
    ///
    /// # Errors
    /// The store's. Also [`StoreError::Unavailable`] when the servers have changed since the beginning of the window.
    pub async fn prepare_advance(
        &self,
        table_id: &str,
        from: &[(IndexPartition, Timestamp)],
        began_with: &ServerIdentity,
    ) -> Result<Advance, StoreError> {
        let mut advance = Advance { owner: self.keys.owner(table_id), nonce: process::new_ulid(), from: from.to_vec() };
        let left = self.step(&advance, None).await?;
        let mut left = left.into_iter();
        advance.from.retain(|_| left.next().unwrap_or(false));
        if self.server_identity().await? != *began_with {
            return Err(StoreError::unavailable(Store::PageIndex, "its servers have changed since the run began"));
        }
        Ok(advance)
    }

    /// Advances the watermarks, and returns the partitions where that was done. Only a caller that has just reconciled
    /// the journal up to `to` may call this.
    pub async fn advance(&self, advance: Advance, to: Timestamp) -> Result<Vec<IndexPartition>, StoreError> {
        let done = self.step(&advance, Some(to)).await?;
        let advanced = advance.from.into_iter().zip(done).filter(|(_, done)| *done);
        Ok(advanced.map(|((partition, _), _)| partition).collect())
    }

    async fn step(&self, advance: &Advance, to: Option<Timestamp>) -> Result<Vec<bool>, StoreError> {
        let to = to.map_or(String::new(), |to| to.epoch_ms().to_string());
        let calls = advance.from.iter().map(|(partition, watermark)| {
            let keys = [self.keys.marker(*partition), self.keys.rebuild_token(*partition)];
            let call = Routed::call(&self.scripts.advance, &keys);
            call.arg(&advance.owner).arg(watermark.epoch_ms()).arg(&advance.nonce).arg(&to)
        });
        self.ask_all(calls).await
    }
}
