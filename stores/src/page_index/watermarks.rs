//! The watermarks of partitions that are kept up to date: reading them, and moving them on.
//!
//! **Invariant:** a watermark never passes what the server that holds it does not have (`tests/repair/recent.rs`).
//! Whoever has reconciled a window asks for the servers' identity before and after it, leaves a nonce in the markers in
//! between, and moves a watermark on only where the nonce is. So a server that was restarted, restored or replaced during
//! the window is noticed by its identity; and one that took over later has either lost the nonce, or has everything that
//! was written before it, because writes of a slot are replicated in their order.

use model::Instant;

use super::{IndexPartition, PageIndex, connection::Routed};
use crate::error::{Store, StoreError};

/// What a partition's marker says to the repair job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// It has none, or another table's: there is nothing to keep up to date before it is rebuilt.
    Not,
    /// The journal has been reconciled into it up to this instant, which may be too long ago for it to be ready.
    UpTo(Instant),
}

/// Which servers answer: changes when one is started again, when another takes over, and when one has followed another in
/// between, so that it has that one's data. A
/// master that gets its first replica, or lost its last one an hour ago, looks the same: it begins a history of a new name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServerIdentity(String);

/// Partitions whose watermarks may be moved on.
#[derive(Debug)]
pub struct Advance {
    owner: String,
    nonce: String,
    from: Vec<(IndexPartition, Instant)>,
}

impl PageIndex {
    /// Up to when each partition is reconciled.
    ///
    /// # Errors
    /// The store's.
    pub async fn watermarks(&self, table_id: &str) -> Result<Vec<(IndexPartition, Marked)>, StoreError> {
        let owner = self.keys.owner(table_id);
        let command = |partition| {
            let mut command = Routed::new("HMGET", &self.keys.marker(partition));
            command.arg("table").arg("watermark");
            command
        };
        let markers: Vec<(Option<String>, Option<i64>)> = self.ask_all(self.keys.partitions().map(command)).await?;
        let marked = markers.into_iter().map(|(table, watermark)| match (table, watermark) {
            (Some(table), Some(ms)) if table == owner => Instant::from_epoch_ms(ms).map_or(Marked::Not, Marked::UpTo),
            _ => Marked::Not,
        });
        Ok(self.keys.partitions().zip(marked).collect())
    }

    /// Who answers, refusing servers that cannot keep the index (see [`PageIndex::begin_rebuild`]).
    ///
    /// # Errors
    /// [`StoreError::Refused`] of such servers; the store's.
    pub async fn server_identity(&self) -> Result<ServerIdentity, StoreError> {
        let mut runs = Vec::new();
        for info in self.check_servers().await? {
            let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name));
            let run = field("run_id:").ok_or_else(|| StoreError::refused(Store::PageIndex, "INFO tells no run_id"))?;
            // A process keeps its run_id while it becomes a replica and a master again, but not the name of its history.
            runs.push(format!("{run}/{}", field("master_replid:").unwrap_or_default()));
        }
        runs.sort_unstable();
        Ok(ServerIdentity(runs.join(" ")))
    }

    /// Prepares moving on the watermarks of partitions, which were read as given: leaves a nonce where they are still so.
    ///
    /// # Errors
    /// The store's; [`StoreError::Unavailable`] when other servers answer than at the beginning of the window.
    pub async fn prepare_advance(
        &self,
        table_id: &str,
        from: &[(IndexPartition, Instant)],
        began_with: &ServerIdentity,
    ) -> Result<Advance, StoreError> {
        let mut advance = Advance { owner: self.keys.owner(table_id), nonce: crate::new_ulid(), from: from.to_vec() };
        let left = self.step(&advance, None).await?;
        let mut left = left.into_iter();
        advance.from.retain(|_| left.next().unwrap_or(false));
        if self.server_identity().await? != *began_with {
            return Err(StoreError::unavailable(Store::PageIndex, "its servers have changed since the run began"));
        }
        Ok(advance)
    }

    /// Moves the watermarks on; returns the partitions where that was done. Only whoever has just reconciled the journal
    /// up to `to` may call it.
    ///
    /// # Errors
    /// The store's.
    pub async fn advance(&self, advance: Advance, to: Instant) -> Result<Vec<IndexPartition>, StoreError> {
        let done = self.step(&advance, Some(to)).await?;
        let advanced = advance.from.into_iter().zip(done).filter(|(_, done)| *done);
        Ok(advanced.map(|((partition, _), _)| partition).collect())
    }

    async fn step(&self, advance: &Advance, to: Option<Instant>) -> Result<Vec<bool>, StoreError> {
        let calls = advance.from.iter().map(|(partition, watermark)| {
            let keys = [self.keys.marker(*partition), self.keys.rebuild_token(*partition)];
            let mut call = Routed::call(&self.scripts.advance, &keys);
            call.arg(&advance.owner).arg(watermark.epoch_ms()).arg(&advance.nonce);
            call.arg(to.map_or(String::new(), |to| to.epoch_ms().to_string()));
            call
        });
        self.ask_all(calls).await
    }
}
