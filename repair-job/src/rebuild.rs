//! `rebuild`: fills the page index from the table, then writes the markers.
//!
//! It reads the table's index `primaries`, which holds the primary items and nothing else, in the order of products.
//! Several shards of that index are read in parallel.
//!
//! Live writes may continue. A comment that changes during the rebuild has a journal entry. After `primaries` has been
//! read, every comment that the journal names is reconciled. So an outdated read cannot stay in the page index.
//!
//! **Invariant:** every valid comment is read from `primaries`, or is named by the journal entries that are read
//! (`tests/repair/primaries.rs`). An index of a table lags behind it. It lacks only writes later than the rebuild's
//! beginning minus [`INDEX_LAG`], so the journal is read from there.
//!
//! **Invariant:** an invalid item is left out. `primaries` does not hold texts. So the comments that are remembered as
//! unresolved are reconciled, too: one of them may have an unreadable text.
//!
//! The journal is read again until a pass is short. So the index is ready when a rebuild ends, however long it took.
//! The markers get the instant up to which the last pass found the journal complete, never a later one
//! (`tests/repair/rebuild.rs`).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{TryStreamExt, future::try_join, stream};
use model::{
    CommentId, FilterKey,
    item::{PlacedComment, comment_id_of_pk},
    plan::{IndexEdit, index_edits, reconcile::Places},
    primaries::PRIMARIES_SHARDS,
};
use page_index::PageIndex;
use process::{StoreError, now};
use table::{InvalidEntry, Table, capacity::Meter};

use crate::{
    find::journal::{JournalFinder, Part, Window, oldest_entry},
    index_snapshot::{IndexScope, Scope},
    outcome::Outcome,
    pipeline::{Checkpoint, find_and_repair},
    runner::{Job, Run},
    settings::{JobSettings, ms},
    stop::Stop,
    unresolved,
    vouch::remember_rebuild,
};

/// Maximum number of entries read in one call. An answer also ends after a megabyte.
const READ_LIMIT: u32 = 4_000;

/// Number of edits sent together: enough to hide the round trip, even when each product has few comments.
const EDITS_TOGETHER: usize = 128;

/// Number of items per comment. A rebuild reads one of them.
const ITEMS_OF_A_COMMENT: u64 = 32;

/// How far the table's index may lag behind the table. AWS names no bound ("eventually consistent"). The lag is usually
/// moments, and DynamoDB throttles a table whose index does not keep up.
const INDEX_LAG: Duration = Duration::from_secs(600);

/// Maximum number of unreadable entries that are remembered as counted.
const UNREADABLE_KNOWN_MAX: usize = 10_000;

/// Maximum number of passes over the journal.
const PASSES_MAX: u32 = 10;
/// A pass over the journal that takes no longer is the last.
const PASS_MS_SHORT: i64 = 60_000;

/// The result of a rebuild.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Entries read from the table's index.
    pub items: u64,
    /// Comments put into the page index.
    pub comments: u64,
    /// Comments that changed meanwhile and were reconciled.
    pub changed_meanwhile: u64,
    /// Primary items that cannot be read. A person must look.
    pub unresolved: Vec<String>,
    /// Duration of the rebuild.
    pub took: Duration,
}

/// Rebuilds the page index. Reads `segments` shards of the table's index in parallel.
///
/// # Errors
/// A store's. The page index may also have been lost meanwhile, or another rebuild may have begun. The index is then
/// not ready, and running the rebuild again is safe.
pub async fn rebuild(table: &Table, index: &PageIndex, segments: u32) -> Result<RebuildReport, StoreError> {
    let settings = JobSettings { apply: true, ..JobSettings::default() };
    let job = Job::new(table.clone(), index.clone(), settings, Meter::default(), Stop::default());
    let filled = Mutex::new(Filled::default());
    let mut failed = None;
    let report = job
        .run("rebuild", None, async |run| {
            match Box::pin(fill_index(run, segments)).await {
                Ok(done) => *filled.lock().unwrap_or_else(PoisonError::into_inner) = done,
                Err(error) => failed = Some(error),
            }
            Ok(())
        })
        .await;
    if let Some(error) = failed {
        return Err(error);
    }
    let filled = filled.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(RebuildReport {
        items: report.items,
        comments: filled.comments,
        changed_meanwhile: filled.changed_meanwhile,
        unresolved: report.unresolved,
        took: Duration::from_secs_f64(report.seconds),
    })
}

/// Rebuilds the page index, and notes what was read.
pub(crate) async fn rebuild_index(run: &Run<'_>, segments: u32) -> Result<(), StoreError> {
    let filled = fill_index(run, segments).await?;
    run.ledger
        .add_note(format!("{} comments, of which {} changed meanwhile", filled.comments, filled.changed_meanwhile));
    Ok(())
}

#[derive(Debug, Clone, Copy, Default)]
struct Filled {
    comments: u64,
    changed_meanwhile: u64,
}

async fn fill_index(run: &Run<'_>, segments: u32) -> Result<Filled, StoreError> {
    let job = run.job;
    let described = job.table.describe().await?;
    // Covers an index that lags, entries that arrive late, and wrong clocks.
    let read_from = now().plus_ms(-ms(INDEX_LAG)).plus_ms(-ms(job.settings.settle)).plus_ms(-ms(job.settings.overlap));
    // A table without the index fails here, while the page index still has its entries.
    job.table.primaries_part(0, None, 1).await?;
    let rebuild = if job.settings.apply { Some(job.index.begin_rebuild().await?) } else { None };
    let source = Source { run, next: AtomicU32::new(0), is_whole: AtomicBool::new(true) };
    job.progress.expect(described.items / ITEMS_OF_A_COMMENT);
    let mut filled = Filled { comments: source.read(segments.clamp(1, PRIMARIES_SHARDS)).await?, changed_meanwhile: 0 };
    let Some(rebuild) = rebuild else { return Ok(filled) };
    let mut is_whole = job.stop.reason().is_none() && source.is_whole.into_inner();
    is_whole &= repair(run, unresolved::remembered(&job.table).await?).await?;
    // Reading may have taken days, and entries expire.
    if read_from < oldest_entry(now()) {
        is_whole = false;
        run.ledger.add_skipped("the journal does not reach back any more to where the rebuild began".to_owned());
    }
    let mut reconciled_to = read_from;
    let mut unreadable = BTreeSet::new();
    for _ in 0..PASSES_MAX {
        let present = now();
        // Clocks of writers may be ahead.
        let to = present.plus_ms(ms(job.settings.settle));
        let window = Window { from: reconciled_to, to };
        let mut finder = JournalFinder::new(&job.table, window, "the next rebuild starts anew; this one stopped at");
        let mut changed = ChangedMeanwhile { run, unreadable: &mut unreadable, comments: 0, is_whole: true };
        is_whole &= Box::pin(find_and_repair(run, &mut finder, &mut changed)).await? && changed.is_whole;
        filled.changed_meanwhile += changed.comments;
        // Later entries may have arrived after this pass looked for them.
        reconciled_to = present.plus_ms(-ms(job.settings.settle));
        if !is_whole || now().epoch_ms() - present.epoch_ms() <= PASS_MS_SHORT {
            break;
        }
    }
    // These repairs follow from the rebuild itself. They are not differences that existed before.
    run.ledger.forget_drift();
    if is_whole {
        remember_rebuild(&job.table, &rebuild).await?;
        job.index.finish_rebuild(&rebuild, &described.id, reconciled_to).await?;
    } else {
        run.ledger.add_skipped("the page index is not ready; the next rebuild starts anew".to_owned());
    }
    Ok(filled)
}

/// What a rebuild repairs: the page index only.
fn scope(run: &Run<'_>) -> Scope<'static> {
    let index = if run.job.settings.apply { IndexScope::All } else { IndexScope::Nothing };
    Scope { duplicates: false, index }
}

/// Repairs comments whose primary items may be invalid. Returns whether all were repaired.
async fn repair(run: &Run<'_>, comments: BTreeMap<CommentId, Places>) -> Result<bool, StoreError> {
    let outcome = Box::pin(run.repair_all(comments.into(), &scope(run))).await?;
    Ok(outcome.left_out() == 0 && outcome.index_away().is_none())
}

/// The checkpoint of the comments that changed during the rebuild. It stores nothing. An unreadable entry is reported
/// unless it is already in `unreadable`.
struct ChangedMeanwhile<'run> {
    run: &'run Run<'run>,
    unreadable: &'run mut BTreeSet<String>,
    comments: u64,
    /// Whether all comments were repaired.
    is_whole: bool,
}

impl Checkpoint<Part> for ChangedMeanwhile<'_> {
    fn scope(&self) -> Scope<'_> {
        scope(self.run)
    }

    async fn record(&mut self, part: Part, outcome: &Outcome) -> Result<bool, StoreError> {
        for what in part.unreadable {
            if self.unreadable.len() >= UNREADABLE_KNOWN_MAX || self.unreadable.insert(what.clone()) {
                self.run.ledger.add_unresolved(what);
            }
        }
        self.comments += u64::try_from(outcome.checked()).unwrap_or(u64::MAX);
        self.is_whole &= outcome.left_out() == 0 && outcome.index_away().is_none();
        Ok(true)
    }
}

/// The index `primaries`.
struct Source<'run> {
    run: &'run Run<'run>,
    /// The next shard that nobody reads yet.
    next: AtomicU32,
    /// Whether the comments of all invalid entries were reconciled.
    is_whole: AtomicBool,
}

impl Source<'_> {
    /// Reads all shards, several in parallel. Returns the number of comments put into the page index.
    async fn read(&self, at_once: u32) -> Result<u64, StoreError> {
        let readers = stream::iter((0..at_once).map(Ok::<u32, StoreError>))
            .map_ok(|_| self.read_shards())
            .try_buffer_unordered(usize::try_from(at_once).unwrap_or(1));
        readers.try_fold(0, async |sum, comments| Ok(sum + comments)).await
    }

    /// Reads shards until none is left. Returns the number of their comments.
    async fn read_shards(&self) -> Result<u64, StoreError> {
        let mut pipe = Pipe { run: self.run, edits: Vec::new(), comments: 0 };
        loop {
            let shard = self.next.fetch_add(1, Ordering::Relaxed);
            if shard >= PRIMARIES_SHARDS {
                return pipe.end().await;
            }
            let mut position = None;
            loop {
                if self.run.must_stop("the next rebuild starts anew") {
                    return Ok(pipe.comments);
                }
                let read = self.run.job.table.primaries_part(shard, position, READ_LIMIT);
                let part = pipe.while_reading(read).await?;
                self.run.ledger.report().items += part.read;
                self.run.job.progress.advance(part.read);
                let invalid = pipe.take(part.comments);
                let is_whole = repair(self.run, self.places_of(invalid)).await?;
                self.is_whole.fetch_and(is_whole, Ordering::Relaxed);
                position = part.next;
                if position.is_none() {
                    break;
                }
            }
        }
    }

    /// The comments of invalid entries. Reports the entries without a comment's id or a product.
    fn places_of(&self, invalid: Vec<InvalidEntry>) -> BTreeMap<CommentId, Places> {
        let mut comments = BTreeMap::new();
        for InvalidEntry { key, problem } in invalid {
            let (Some(id), Ok(of)) = (comment_id_of_pk(&key.pk), FilterKey::parse(&key.sk)) else {
                self.run.ledger.add_unresolved(problem.to_string());
                continue;
            };
            let places: &mut Places = comments.entry(id).or_default();
            places.add(&of.product, None);
        }
        comments
    }
}

/// The comments on their way from the table to the page index.
struct Pipe<'run> {
    run: &'run Run<'run>,
    edits: Vec<IndexEdit>,
    /// Number of comments taken so far.
    comments: u64,
}

impl Pipe<'_> {
    /// Writes the pending edits while more is read, if there are enough for a call.
    async fn while_reading<T>(&mut self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.edits.len() < EDITS_TOGETHER {
            return read.await;
        }
        let (read, ()) = try_join(read, self.apply()).await?;
        self.edits.clear();
        Ok(read)
    }

    /// Takes comments. Returns the invalid entries.
    fn take(&mut self, comments: Vec<Result<PlacedComment, InvalidEntry>>) -> Vec<InvalidEntry> {
        let (before, mut invalid) = (self.edits.len(), Vec::new());
        for comment in comments {
            match comment {
                Ok(PlacedComment { id, placement, created_at }) => {
                    self.edits.extend(index_edits(&id, Some((&placement, created_at)), &[]));
                }
                Err(entry) => invalid.push(entry),
            }
        }
        let taken = self.edits.len() - before;
        self.comments += u64::try_from(taken).unwrap_or(u64::MAX);
        self.run.add_checked(taken);
        invalid
    }

    /// Writes the rest. Returns the number of comments.
    async fn end(self) -> Result<u64, StoreError> {
        self.apply().await?;
        Ok(self.comments)
    }

    async fn apply(&self) -> Result<(), StoreError> {
        if self.run.job.settings.apply { self.run.job.index.apply(&self.edits).await } else { Ok(()) }
    }
}
