//! Fills the page index from the table's index `primaries`, several shards at a time. The table
//! stores how far each shard has come, so that the function resumes a rebuild that takes longer
//! than a run.
//!
//! **Invariant:** a position is stored only when the page index has everything before it. A rebuild
//! is resumed only in servers that still have its tokens, and only while the journal reaches back
//! to its beginning (`tests/repair/missing.rs`).

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{FutureExt, TryStreamExt, stream};
use model::{
    CommentId, FilterKey, ProductId, Timestamp,
    item::comment_id_of_pk,
    plan::{IndexEdit, index_edits, reconcile::Places},
    primaries::PRIMARIES_SHARDS,
};
use page_index::{IndexPartition, PageIndex, Rebuild};
use parking_lot::Mutex;
use process::{Remedy, StoreError, now};
use serde::{Deserialize, Serialize};
use table::{InvalidEntry, Position, Table};
use tokio::time::Instant;

use crate::{
    find::journal::{journal_from, reaches_back_to},
    repair::{
        index_snapshot::{IndexScope, RepairScope},
        pipeline::{Finder, Finding, Pipeline},
    },
    run::{Job, RUN, Run, report::LastRun},
    state::checkpoint::STORE_EVERY,
};

const REBUILD: &str = "rebuild";
const PROGRESS: &str = "progress";

/// How long ago a rebuild may be that a person does not know of yet, in milliseconds.
const MOMENT_MS: i64 = 60_000;

/// Maximum number of entries read in one call. An answer also ends after a megabyte.
const READ_LIMIT: u32 = 4_000;

pub(crate) const RESUMES: &str =
    "the function's next run resumes the rebuild, the command starts anew";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    /// Nothing if readers may believe the whole page index already.
    AllUnlessReady,
    /// Nothing if readers may believe the whole page index already, and a rebuild has made it so a
    /// moment ago.
    AllUnlessJustRebuilt,
    /// The partitions without any marker. An earlier rebuild of them is resumed.
    Missing,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) rebuild: Rebuild,
    table: String,
    pub(crate) began: Timestamp,
    /// The shards of the table's index `primaries` that the page index lacks, with the positions up
    /// to which it has them.
    #[serde(rename = "left")]
    unfilled: BTreeMap<u32, Option<Position>>,
}

pub(crate) struct Filling<'run> {
    run: &'run Run<'run>,
    /// The rebuild as this run began or resumed it.
    pub(crate) begun: Begun,
    unfilled: Mutex<BTreeMap<u32, Option<Position>>>,
    stored_at: Mutex<Instant>,
}

/// Whether the last rebuild of the page index, or of a part of it, ended a moment ago and left nothing
/// to do. One that found nothing to do does not count.
pub(crate) async fn has_just_been_rebuilt(table: &Table) -> Result<bool, StoreError> {
    let last: Option<LastRun> = table.state(RUN, REBUILD).await?;
    Ok(last.is_some_and(|last| {
        let ago_ms = now().epoch_ms() - last.ended.epoch_ms();
        last.checked > 0 && last.exit_code == 0 && (0..=MOMENT_MS).contains(&ago_ms)
    }))
}

impl<'run> Filling<'run> {
    /// Begins a rebuild, or resumes one. `None` when nothing is to be rebuilt.
    pub(crate) async fn begin(
        run: &'run Run<'run>,
        table_id: &str,
        wanted: Wanted,
    ) -> Result<Option<Self>, StoreError> {
        let index = &run.job.index;
        let partitions = match wanted {
            Wanted::Missing => index.unmarked().await?,
            Wanted::AllUnlessReady if index.is_ready(table_id, now()).await? => BTreeSet::new(),
            Wanted::AllUnlessJustRebuilt
                if has_just_been_rebuilt(&run.job.table).await?
                    && index.is_ready(table_id, now()).await? =>
            {
                BTreeSet::new()
            }
            Wanted::All | Wanted::AllUnlessReady | Wanted::AllUnlessJustRebuilt => {
                index.partitions().collect()
            }
        };
        if partitions.is_empty() {
            return Ok(None);
        }
        if wanted == Wanted::Missing {
            run.ledger.add_note(format!(
                "{} of {} partitions of the page index have no marker",
                partitions.len(),
                index.partitions().count()
            ));
            if let Some(begun) = resumable(run, table_id, &partitions).await? {
                run.ledger.add_note(format!(
                    "it resumes the rebuild that began at {}",
                    begun.began
                ));
                return Ok(Some(Self::of(run, begun)));
            }
        }
        let began = now();
        let rebuild = index.begin_rebuild_of(partitions).await?;
        let unfilled = (0..PRIMARIES_SHARDS).map(|shard| (shard, None)).collect();
        let begun = Begun {
            rebuild,
            table: table_id.to_owned(),
            began,
            unfilled,
        };
        Ok(Some(Self::of(run, begun)))
    }

    fn of(run: &'run Run<'run>, begun: Begun) -> Self {
        let unfilled = Mutex::new(begun.unfilled.clone());
        Self {
            run,
            begun,
            unfilled,
            stored_at: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.unfilled.lock().is_empty()
    }

    pub(crate) fn scope(&self) -> RepairScope<'_> {
        RepairScope {
            duplicates: false,
            entries: false,
            index: IndexScope::Partitions(&self.begun.rebuild.partitions),
        }
    }

    pub(crate) async fn store(&self) -> Result<(), StoreError> {
        *self.stored_at.lock() = Instant::now();
        let begun = Begun {
            unfilled: self.unfilled.lock().clone(),
            ..self.begun.clone()
        };
        if self.run.may_remember() {
            let table = &self.run.job.table;
            table.put_state(REBUILD, PROGRESS, &begun).await?;
        }
        Ok(())
    }
}

/// Fills the page index from the unfilled shards, `readers` at a time. Shards differ in size,
/// because a product is in one shard. Twice as many are under way, so that some are read while
/// others are put into the page index.
pub(crate) async fn fill(filling: &Filling<'_>, readers: u32) -> Result<(), StoreError> {
    let under_way = 2 * usize::try_from(readers.clamp(1, PRIMARIES_SHARDS)).unwrap_or(1);
    let shards = stream::iter(filling.begun.unfilled.clone().into_iter().map(Ok));
    shards
        .try_for_each_concurrent(under_way, |(shard, from)| {
            fill_from(filling, shard, from).boxed()
        })
        .await
}

async fn fill_from(
    filling: &Filling<'_>,
    shard: u32,
    from: Option<Position>,
) -> Result<(), StoreError> {
    let mut primaries = Pipeline::new(
        filling.run,
        Filler {
            filling,
            shard,
            from,
        },
    );
    while let Some((reached, outcome)) = primaries.next(filling.scope()).await? {
        if !outcome.is_complete() {
            break;
        }
        if reached.is_some() {
            filling.unfilled.lock().insert(shard, reached);
        } else {
            filling.unfilled.lock().remove(&shard);
        }
        if filling.stored_at.lock().elapsed() >= STORE_EVERY {
            filling.store().await?;
        }
    }
    Ok(())
}

/// Puts the comments of a shard of `primaries` into the page index. Its suspects are the comments
/// whose entries are invalid.
struct Filler<'run> {
    filling: &'run Filling<'run>,
    shard: u32,
    from: Option<Position>,
}

impl Finder for Filler<'_> {
    /// How far the shard has been put into the page index; `None` at its end.
    type ScanPosition = Option<Position>;

    async fn find(&mut self) -> Result<Option<Finding<Self::ScanPosition>>, StoreError> {
        let run = self.filling.run;
        let Job { table, index, .. } = run.job;
        let filled = &self.filling.begun.rebuild.partitions;
        let part = table
            .primaries_part(self.shard, self.from.take(), READ_LIMIT)
            .await?;
        let mut edits = Vec::new();
        let mut invalid: BTreeMap<CommentId, Places> = BTreeMap::new();
        let read = part.rows.len() as u64;
        for comment in part.rows {
            match comment {
                Ok(comment) => {
                    if filled.contains(&index.partition_of(&comment.placement.product)) {
                        edits.extend(index_edits(&comment.id, Some(&comment.entry()), &[]));
                    }
                }
                Err(InvalidEntry { key, problem, .. }) => {
                    match (comment_id_of_pk(&key.pk), FilterKey::parse(&key.sk)) {
                        (Some(id), Ok(of)) => {
                            let mut places = Places::default().at_any_time();
                            places.add(&of.product, None);
                            invalid.entry(id).or_default().join(&places);
                        }
                        _ => run.ledger.add_unresolved(problem.to_string()),
                    }
                }
            }
        }
        apply(index, &edits).await?;
        run.ledger.report().items += read;
        self.from = part.next.clone();
        Ok(Some(Finding {
            suspects: invalid.into(),
            checked: edits.len(),
            steps: read,
            is_last: part.next.is_none(),
            position: part.next,
        }))
    }

    fn resumes(&self) -> String {
        RESUMES.to_owned()
    }
}

/// Applies edits. If the index holds a product whose keys contradict each other, counts the products
/// again and applies the edits once more. Otherwise the rebuild would fail at the same position
/// whenever it is resumed.
async fn apply(index: &PageIndex, edits: &[IndexEdit]) -> Result<(), StoreError> {
    match index.apply(edits).await {
        Err(error) if error.remedy() == Remedy::Quarantine => {}
        applied => return applied,
    }
    let products: BTreeSet<&ProductId> = edits.iter().map(|edit| &edit.product).collect();
    for product in products {
        index.recount(product).await?;
    }
    index.apply(edits).await
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
    let Some(begun) = begun else {
        return Ok(None);
    };
    let is_same = begun.table == table_id
        && begun.rebuild.partitions == *partitions
        && reaches_back_to(journal_from(begun.began, &run.job.settings));
    if is_same && run.job.index.is_under_way(&begun.rebuild).await? {
        Ok(Some(begun))
    } else {
        Ok(None)
    }
}
