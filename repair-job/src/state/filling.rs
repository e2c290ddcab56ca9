//! Fills the page index from the table's index `primaries`, which several readers read shard by shard. The table stores how
//! far each shard has come, so that the function resumes a rebuild that takes longer than a run.
//!
//! **Invariant:** a position is stored only when the page index has everything before it. A rebuild is resumed only in
//! servers that still have its tokens, and only while the journal reaches back to its beginning
//! (`tests/repair/missing.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_util::future::join;
use model::{
    CommentId, FilterKey, Timestamp,
    item::{PlacedComment, comment_id_of_pk},
    plan::{IndexEdit, index_edits, reconcile::Places},
    primaries::PRIMARIES_SHARDS,
};
use page_index::{IndexPartition, Rebuild, ServerIdentity};
use parking_lot::Mutex;
use process::{StoreError, now};
use serde::{Deserialize, Serialize};
use table::{InvalidEntry, PrimariesPart, PrimariesPosition};
use tokio::time::Instant;

use crate::{
    find::journal::{journal_from, reaches_back_to},
    repair::pipeline::{Finder, Found, Pipeline},
    run::Run,
    state::{
        checkpoint::STORE_EVERY,
        index_snapshot::{IndexScope, Scope},
    },
};

const REBUILD: &str = "rebuild";
const PROGRESS: &str = "progress";

/// Maximum number of entries read in one call. An answer also ends after a megabyte.
const READ_LIMIT: u32 = 4_000;

pub(crate) const RESUMES: &str = "the function's next run resumes the rebuild, the command starts anew";

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
pub(crate) struct Begun {
    pub(crate) rebuild: Rebuild,
    table: String,
    began: Timestamp,
    /// From here on, the journal names every change that the rebuild may have missed.
    pub(crate) journal_from: Timestamp,
    shards: Vec<Reached>,
}

pub(crate) struct Filling<'run> {
    run: &'run Run<'run>,
    /// The rebuild as this run began or resumed it.
    pub(crate) begun: Begun,
    /// The shards that no reader has taken. Shards differ in size, because a product is in one shard, so fixed shares
    /// would take longer.
    left: Mutex<VecDeque<(u32, Option<PrimariesPosition>)>>,
    reached: Mutex<Vec<Reached>>,
    stored_at: Mutex<Instant>,
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
        let left = (0..).zip(&begun.shards).filter_map(|(shard, reached)| match reached {
            Reached::Nothing => Some((shard, None)),
            Reached::Position(position) => Some((shard, Some(position.clone()))),
            Reached::Everything => None,
        });
        let (left, reached) = (Mutex::new(left.collect()), Mutex::new(begun.shards.clone()));
        Self { run, begun, left, reached, stored_at: Mutex::new(Instant::now()) }
    }

    fn note(&self, shard: u32, reached: Reached) {
        let mut shards = self.reached.lock();
        if let Some(place) = usize::try_from(shard).ok().and_then(|shard| shards.get_mut(shard)) {
            *place = reached;
        }
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.reached.lock().iter().all(|reached| *reached == Reached::Everything)
    }

    pub(crate) fn scope(&self) -> Scope<'_> {
        let index = match self.run.job.settings.apply {
            true => IndexScope::Partitions(&self.begun.rebuild.partitions),
            false => IndexScope::Nothing,
        };
        Scope { duplicates: false, index }
    }

    pub(crate) async fn store(&self) -> Result<(), StoreError> {
        *self.stored_at.lock() = Instant::now();
        let begun = Begun { shards: self.reached.lock().clone(), ..self.begun.clone() };
        if self.run.may_remember() {
            self.run.job.table.put_state(REBUILD, PROGRESS, &begun).await?;
        }
        Ok(())
    }
}

/// Fills the page index shard by shard, beside other readers.
pub(crate) async fn fill(filling: &Filling<'_>) -> Result<(), StoreError> {
    let mut primaries = Pipeline::new(filling.run, Filler { filling, ahead: None });
    while let Some(((shard, reached), outcome)) = primaries.next(filling.scope()).await? {
        if !outcome.is_complete() {
            break;
        }
        filling.note(shard, reached);
        if filling.stored_at.lock().elapsed() >= STORE_EVERY {
            filling.store().await?;
        }
    }
    Ok(())
}

/// Puts the comments of `primaries` into the page index. Its suspects are the comments whose entries are invalid. While the
/// comments of one answer are put there, the next answer is read.
struct Filler<'run> {
    filling: &'run Filling<'run>,
    /// The next answer, with its shard.
    ahead: Option<Result<Option<(u32, PrimariesPart)>, StoreError>>,
}

impl Filler<'_> {
    /// Reads on in a shard, or the next shard that no reader has taken.
    async fn read(&self, next: Option<(u32, PrimariesPosition)>) -> Result<Option<(u32, PrimariesPart)>, StoreError> {
        let next = next.map(|(shard, position)| (shard, Some(position)));
        let Some((shard, position)) = next.or_else(|| self.filling.left.lock().pop_front()) else { return Ok(None) };
        Ok(Some((shard, self.filling.run.job.table.primaries_part(shard, position, READ_LIMIT).await?)))
    }

    async fn fill(&self, edits: &[IndexEdit]) -> Result<(), StoreError> {
        let job = self.filling.run.job;
        if job.settings.apply { job.index.apply(edits).await } else { Ok(()) }
    }
}

impl Finder for Filler<'_> {
    /// A shard, and how far it has been put into the page index.
    type Position = (u32, Reached);

    async fn find(&mut self) -> Result<Option<Found<(u32, Reached)>>, StoreError> {
        let (run, index) = (self.filling.run, &self.filling.run.job.index);
        let read = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.read(None).await,
        };
        let Some((shard, part)) = read? else { return Ok(None) };
        let (mut edits, mut invalid) = (Vec::new(), BTreeMap::<CommentId, Places>::new());
        for comment in part.comments {
            match comment {
                Ok(PlacedComment { id, placement, created_at, .. }) => {
                    if self.filling.begun.rebuild.partitions.contains(&index.partition_of(&placement.product)) {
                        edits.extend(index_edits(&id, Some((&placement, created_at)), &[]));
                    }
                }
                Err(InvalidEntry { key, problem }) => match (comment_id_of_pk(&key.pk), FilterKey::parse(&key.sk)) {
                    (Some(id), Ok(of)) => invalid.entry(id).or_default().add(&of.product, None),
                    _ => run.ledger.add_unresolved(problem.to_string()),
                },
            }
        }
        let next = part.next.clone().map(|next| (shard, next));
        let (filled, ahead) = Box::pin(join(self.fill(&edits), self.read(next))).await;
        filled?;
        run.ledger.report().items += part.read;
        run.job.progress.advance(part.read);
        let is_last = matches!(ahead, Ok(None));
        self.ahead = Some(ahead);
        let position = (shard, part.next.map_or(Reached::Everything, Reached::Position));
        Ok(Some(Found { suspects: invalid.into(), checked: edits.len(), position, is_last }))
    }

    fn resumes(&self) -> String {
        RESUMES.to_owned()
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
