//! Where a stack keeps its page index: inside its process, or in Redis.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use deployed_index::PageIndexSettings;
use embedded_index::{EmbeddedIndex, SnapshotError};
use page_index::PageIndex;
use process::{StoreError, now};
use tokio::sync::Mutex;

use crate::{blocking::blocking, engine::Engine};

/// Confirmations of the local page index do not expire, because the repair job may be switched off.
pub(crate) const INDEX_MAX_AGE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
pub(crate) const SNAPSHOT: &str = "page-index.snapshot";
/// The URL of the Redis that has the page index. Without the file, the index was inside the
/// process.
pub(crate) const REDIS_RECORD: &str = "page-index.redis";
/// Pause between two snapshots.
pub(crate) const SNAPSHOT_EVERY: Duration = Duration::from_secs(60);
/// A snapshot is also written without an edit after this many pauses: the watermarks advance, and a
/// start reads less.
const UNCHANGED_PAUSES_MAX: u32 = 10;
pub(crate) const PARTITIONS: u16 = 256;

/// Remembers the Redis of the page index in a data folder, for commands on it while no stack runs.
pub(crate) fn remember_redis(url: Option<String>, folder: &Path) -> io::Result<()> {
    let record = folder.join(REDIS_RECORD);
    match url {
        // The URL may hold a password, and the files of a data folder are private.
        Some(url) => fs::write(record, url),
        None => {
            let removed = fs::remove_file(record);
            removed.or_else(|error| {
                if error.kind() == ErrorKind::NotFound {
                    Ok(())
                } else {
                    Err(error)
                }
            })
        }
    }
}

/// The Redis in which the last stack of a data folder kept its page index; `None` if it was inside
/// the process.
pub(crate) fn remembered_redis(folder: &Path) -> Option<String> {
    fs::read_to_string(folder.join(REDIS_RECORD)).ok()
}

#[derive(Debug)]
pub(crate) enum IndexHost {
    Embedded(Embedded),
    Redis(PageIndexSettings),
}

/// A page index inside this process, and the file that keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Embedded {
    index: EmbeddedIndex,
    snapshot: PathBuf,
    table_id: String,
    is_from_snapshot: bool,
    /// Held while a snapshot is written: a stop may come while the last one is under way.
    writes: Arc<Mutex<()>>,
}

impl IndexHost {
    /// Opens the page index of the table with this id, in Redis or in this process. What a snapshot
    /// in the data folder holds is there at once.
    pub(crate) async fn open(redis_url: Option<&str>, folder: &Path, table_id: &str) -> Self {
        if let Some(url) = redis_url {
            // The server may also hold the page index of a different stack.
            let prefix = format!("pagemark-{table_id}");
            return Self::Redis(PageIndexSettings {
                max_age: INDEX_MAX_AGE,
                prefix,
                ..PageIndexSettings::new(url)
            });
        }
        let snapshot = folder.join(SNAPSHOT);
        let table_id = table_id.to_owned();
        Self::Embedded(blocking(move || Embedded::open(snapshot, table_id)).await)
    }

    /// A client of the index. Connections to Redis live on the threads that use them, so the API
    /// needs a separate client.
    pub(crate) fn client(&self) -> Result<PageIndex, StoreError> {
        match self {
            Self::Embedded(embedded) => Ok(PageIndex::new(embedded.index.clone(), INDEX_MAX_AGE)),
            Self::Redis(config) => deployed_index::connect(config),
        }
    }

    /// Whether the index was filled by a snapshot, and lacks at most what changed after it.
    pub(crate) fn is_from_snapshot(&self) -> bool {
        matches!(self, Self::Embedded(embedded) if embedded.is_from_snapshot)
    }

    /// How Redis is reached; `None` for an index inside the process.
    pub(crate) fn redis_config(&self) -> Option<&PageIndexSettings> {
        match self {
            Self::Redis(config) => Some(config),
            Self::Embedded(_) => None,
        }
    }

    /// Where the index is, for people. The URL of a Redis may hold a password.
    pub(crate) fn shown(&self) -> &'static str {
        match self {
            Self::Embedded(_) => "inside this process",
            Self::Redis(_) => "in your Redis (--redis-url)",
        }
    }
}

impl Embedded {
    fn open(snapshot: PathBuf, table_id: String) -> Self {
        let opened = EmbeddedIndex::open(&snapshot, &table_id, PARTITIONS);
        if let Err(
            error @ (SnapshotError::Io { .. }
            | SnapshotError::Damaged { .. }
            | SnapshotError::Foreign { .. }),
        ) = &opened
        {
            tracing::warn!(%error, "the page index is rebuilt from the table");
        }
        let is_from_snapshot = opened.is_ok();
        let index = opened.unwrap_or_else(|_| EmbeddedIndex::new(PARTITIONS));
        Self {
            index,
            snapshot,
            table_id,
            is_from_snapshot,
            writes: Arc::default(),
        }
    }

    /// Writes snapshots with this pause between them, until it is dropped.
    pub(crate) async fn save_regularly(self, engine: Arc<Engine>, every: Duration) {
        let mut saved = None;
        let mut pauses = 0;
        loop {
            tokio::time::sleep(every).await;
            let edits = Some(self.index.edits());
            pauses += 1;
            if (saved != edits || pauses >= UNCHANGED_PAUSES_MAX) && self.save(Some(&engine)).await
            {
                saved = edits;
                pauses = 0;
            }
        }
    }

    /// Writes a snapshot if readers may believe the index; otherwise the last snapshot is better,
    /// because it is whole. A failure is logged, because the next start can do without a snapshot.
    /// Returns whether one was written.
    ///
    /// After a power failure, a snapshot must not know comments that the table has lost. So
    /// everything in it is on the disk before it replaces the last one. An engine that has stopped
    /// (`None`) has brought everything there.
    pub(crate) async fn save(&self, engine: Option<&Engine>) -> bool {
        let index = PageIndex::new(self.index.clone(), INDEX_MAX_AGE);
        if !index.is_ready(&self.table_id, now()).await.unwrap_or(false) {
            return false;
        }
        let saved = self.replace_snapshot(engine).await;
        saved
            .inspect_err(|error| tracing::warn!(%error, "the page index was not saved"))
            .is_ok()
    }

    /// Advances the watermarks to the present. The caller knows that the index has every change,
    /// and that no more can come. A failure is logged: the next start then takes
    /// longer.
    pub(crate) async fn leave_nothing_to_reconcile(&self) {
        let index = PageIndex::new(self.index.clone(), INDEX_MAX_AGE);
        let advanced = async {
            let servers = index.server_identity().await?;
            let marks = index.marks(&self.table_id).await?.into_iter();
            let from: Vec<_> = marks
                .map(|(partition, mark)| (partition, mark.watermark))
                .collect();
            let prepared = index
                .prepare_advance(&self.table_id, &from, &servers)
                .await?;
            index.advance(prepared, now()).await.map(drop)
        };
        if let Err(error) = advanced.await {
            tracing::warn!(%error, "the next start takes longer");
        }
    }

    async fn replace_snapshot(&self, engine: Option<&Engine>) -> Result<(), SnapshotError> {
        // A dropped caller does not end the thread that writes, so the thread holds the lock.
        let alone = self.writes.clone().lock_owned().await;
        let this = self.clone();
        let written = self.snapshot.with_extension("written");
        let new = written.clone();
        let (saved, _alone) =
            blocking(move || (this.index.save(&new, &this.table_id), alone)).await;
        saved?;
        if let Some(engine) = engine {
            engine.sync().await;
        }
        tokio::fs::rename(&written, &self.snapshot)
            .await
            .map_err(|source| SnapshotError::Io {
                path: self.snapshot.clone(),
                source,
            })
    }
}
