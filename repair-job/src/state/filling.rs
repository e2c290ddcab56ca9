//! How far a rebuild has come. The table stores it, so that the function resumes a rebuild that takes longer than a
//! run.
//!
//! **Invariant:** a position is stored only when the page index has everything before it. A rebuild is resumed only in
//! servers that still have its tokens, and only while the journal reaches back to its beginning
//! (`tests/repair/missing.rs`).

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use model::{Timestamp, primaries::PRIMARIES_SHARDS};
use page_index::{IndexPartition, Rebuild, ServerIdentity};
use parking_lot::Mutex;
use process::{StoreError, now};
use serde::{Deserialize, Serialize};
use table::PrimariesPosition;
use tokio::time::Instant;

use crate::{
    find::changes::{journal_from, reaches_back_to},
    run::Run,
};

const REBUILD: &str = "rebuild";
const PROGRESS: &str = "progress";

const STORE_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    /// The partitions without any marker. An earlier rebuild of them is resumed.
    Missing,
}

/// How far one shard of the table's index `primaries` has been put into the page index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reached {
    Nothing,
    Position(PrimariesPosition),
    Everything,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Begun {
    rebuild: Rebuild,
    table: String,
    began: Timestamp,
    /// From here on, the journal names every change that the rebuild may have missed.
    journal_from: Timestamp,
    shards: Vec<Reached>,
}

pub(crate) struct Filling<'run> {
    run: &'run Run<'run>,
    pub(crate) rebuild: Rebuild,
    pub(crate) journal_from: Timestamp,
    /// The next shard that no reader has taken. Shards differ in size, because a product is in one shard, so fixed
    /// shares would take longer.
    next: AtomicU32,
    begun: Mutex<(Begun, Instant)>,
}

impl<'run> Filling<'run> {
    /// Begins a rebuild, or resumes one. `None` when no partition is missing. A dry run begins nothing.
    pub(crate) async fn begin(
        run: &'run Run<'run>,
        table_id: &str,
        wanted: Wanted,
    ) -> Result<Option<Self>, StoreError> {
        let index = &run.job.index;
        let partitions = match wanted {
            Wanted::All => index.partitions().collect(),
            Wanted::Missing => index.unmarked().await?,
        };
        if partitions.is_empty() {
            return Ok(None);
        }
        if wanted == Wanted::Missing {
            let missing = format!("{} of {} partitions", partitions.len(), index.partitions().count());
            run.ledger.add_note(format!("{missing} of the page index have no marker"));
            if let Some(begun) = resumable(run, table_id, &partitions).await? {
                run.ledger.add_note(format!("it resumes the rebuild that began at {}", begun.began));
                return Ok(Some(Self::of(run, begun)));
            }
        }
        let began = now();
        let rebuild = match run.job.settings.apply {
            true => index.begin_rebuild_of(partitions).await?,
            false => Rebuild { token: String::new(), servers: ServerIdentity(String::new()), partitions },
        };
        let shards = (0..PRIMARIES_SHARDS).map(|_| Reached::Nothing).collect();
        let journal_from = journal_from(began, &run.job.settings);
        let begun = Begun { rebuild, table: table_id.to_owned(), began, journal_from, shards };
        Ok(Some(Self::of(run, begun)))
    }

    fn of(run: &'run Run<'run>, begun: Begun) -> Self {
        let (rebuild, journal_from) = (begun.rebuild.clone(), begun.journal_from);
        Self { run, rebuild, journal_from, next: AtomicU32::new(0), begun: Mutex::new((begun, Instant::now())) }
    }

    pub(crate) fn next_shard(&self) -> Option<(u32, Option<PrimariesPosition>)> {
        loop {
            let shard = self.next.fetch_add(1, Ordering::Relaxed);
            match self.begun.lock().0.shards.get(usize::try_from(shard).ok()?)? {
                Reached::Nothing => return Some((shard, None)),
                Reached::Position(position) => return Some((shard, Some(position.clone()))),
                Reached::Everything => {}
            }
        }
    }

    pub(crate) async fn record(&self, reached: impl IntoIterator<Item = (u32, Reached)>) -> Result<(), StoreError> {
        let is_due = {
            let mut begun = self.begun.lock();
            for (shard, reached) in reached {
                let place = usize::try_from(shard).ok().and_then(|shard| begun.0.shards.get_mut(shard));
                place.into_iter().for_each(|place| *place = reached.clone());
            }
            begun.1.elapsed() >= STORE_EVERY
        };
        if is_due { self.store().await } else { Ok(()) }
    }

    pub(crate) async fn store(&self) -> Result<(), StoreError> {
        let begun = {
            let mut begun = self.begun.lock();
            begun.1 = Instant::now();
            begun.0.clone()
        };
        if self.run.may_remember() {
            self.run.job.table.put_state(REBUILD, PROGRESS, &begun).await?;
        }
        Ok(())
    }
}

async fn resumable(
    run: &Run<'_>,
    table_id: &str,
    partitions: &BTreeSet<IndexPartition>,
) -> Result<Option<Begun>, StoreError> {
    let begun: Option<Begun> = match run.job.table.state(REBUILD, PROGRESS).await {
        // Another version of the program stored it.
        Err(StoreError::Malformed(_)) => None,
        begun => begun?,
    };
    let is_same = |begun: &Begun| {
        begun.table == table_id && begun.rebuild.partitions == *partitions && reaches_back_to(begun.journal_from)
    };
    let Some(begun) = begun.filter(is_same) else { return Ok(None) };
    Ok(run.job.index.is_under_way(&begun.rebuild).await?.then_some(begun))
}
