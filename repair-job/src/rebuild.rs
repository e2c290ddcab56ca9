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
//! beginning minus ten minutes, so the journal is read from there ([`journal_from`]).
//!
//! **Invariant:** an invalid item is left out. `primaries` does not hold texts. So the comments that are remembered as
//! unresolved are reconciled, too: one of them may have an unreadable text.
//!
//! The journal is read again until a pass is short. So the index is ready when a rebuild ends, however long it took.
//! The markers get the instant up to which the last pass found the journal complete, never a later one
//! (`tests/repair/rebuild.rs`).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU32, Ordering},
};

use futures_util::{
    FutureExt,
    future::{try_join, try_join_all},
};
use model::{
    CommentId, FilterKey, Timestamp,
    item::{PlacedComment, comment_id_of_pk},
    plan::{IndexEdit, index_edits, reconcile::Places},
    primaries::PRIMARIES_SHARDS,
};
use page_index::PageIndex;
use process::{StoreError, now};
use table::{InvalidEntry, Table};

use crate::{
    changes::{PASS_MS_SHORT, PASSES_MAX, journal_from, reaches_back_to},
    checkpoint::ITEMS_PER_COMMENT,
    find::journal::{JournalFinder, Part, Window},
    index_snapshot::{IndexScope, Scope},
    pipeline::{Checkpoint, find_and_repair},
    repair::repair_all,
    report::Report,
    runner::{Job, Run},
    settings::{JobSettings, ms},
    stop::Stop,
    suspect::Outcome,
    unresolved,
    vouch::remember_rebuild,
};

/// Maximum number of entries read in one call. An answer also ends after a megabyte.
const READ_LIMIT: u32 = 4_000;

/// Number of edits sent together: enough to hide the round trip, even when each product has few comments.
const EDITS_TOGETHER: usize = 128;

/// Maximum number of unreadable entries that are remembered as counted.
const UNREADABLE_KNOWN_MAX: usize = 10_000;

/// Where the next run resumes when a rebuild stops.
const RESUMES: &str = "the next rebuild starts anew";

/// Rebuilds the page index without a lease and without a record of the run: for a local stack, which has only one
/// keeper of its index. Reads `segments` shards of the table's index in parallel.
///
/// # Errors
/// A store's. The page index may also have been lost meanwhile, or another rebuild may have begun. The index is then
/// not ready, and running the rebuild again is safe.
pub async fn rebuild(table: &Table, index: &PageIndex, segments: u32) -> Result<Report, StoreError> {
    let settings = JobSettings { apply: true, ..JobSettings::default() };
    let job = Job::new(table.clone(), index.clone(), settings, Stop::default());
    let mut rebuilt = Ok(());
    let work = async |run: &Run<'_>| {
        rebuilt = Box::pin(rebuild_index(run, segments)).await;
        Ok(())
    };
    let report = job.run("rebuild", None, work).await;
    rebuilt.map(|()| report)
}

/// Rebuilds the page index, and notes what was read.
pub(crate) async fn rebuild_index(run: &Run<'_>, segments: u32) -> Result<(), StoreError> {
    let job = run.job;
    let described = job.table.describe().await?;
    let read_from = journal_from(now(), &job.settings);
    // A table without the index fails here, while the page index still has its entries.
    job.table.primaries_part(0, None, 1).await?;
    let rebuild = if job.settings.apply { Some(job.index.begin_rebuild().await?) } else { None };
    job.progress.expect(described.items / ITEMS_PER_COMMENT);
    let next = AtomicU32::new(0);
    let readers = (0..segments.clamp(1, PRIMARIES_SHARDS)).map(|_| fill(run, &next).boxed());
    let is_filled = try_join_all(readers).await?.into_iter().all(|is_whole| is_whole);
    let comments = run.ledger.report().checked;
    if let Some(rebuild) = rebuild {
        let reconciled_to = reconcile(run, read_from, is_filled && job.stop.reason().is_none()).await?;
        // These repairs follow from the rebuild itself. They are not differences that existed before.
        run.ledger.forget_drift();
        if let Some(reconciled_to) = reconciled_to {
            remember_rebuild(&job.table, &rebuild).await?;
            job.index.finish_rebuild(&rebuild, &described.id, reconciled_to).await?;
        } else {
            run.ledger.add_skipped(format!("the page index is not ready; {RESUMES}"));
        }
    }
    let changed = run.ledger.report().checked - comments;
    run.ledger.add_note(format!("{comments} comments, of which {changed} changed meanwhile"));
    Ok(())
}

/// Puts the comments of shards into the page index: of the shard `next`, then of the next one that no other reader has
/// taken. Shards differ in size, because a product is in one shard, so fixed shares would take longer. Returns whether
/// all were read, and the comments of all invalid entries were repaired.
async fn fill(run: &Run<'_>, next: &AtomicU32) -> Result<bool, StoreError> {
    let job = run.job;
    let (mut edits, mut is_whole) = (Vec::new(), true);
    let apply = async |edits: &[IndexEdit]| if job.settings.apply { job.index.apply(edits).await } else { Ok(()) };
    let next_shard = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|shard| *shard < PRIMARIES_SHARDS);
    while let Some(shard) = next_shard() {
        let mut position = None;
        loop {
            if run.must_stop(RESUMES) {
                return Ok(false);
            }
            let read = job.table.primaries_part(shard, position, READ_LIMIT);
            let part = if edits.len() < EDITS_TOGETHER {
                read.await?
            } else {
                let (part, ()) = try_join(read, apply(&edits)).await?;
                edits.clear();
                part
            };
            run.ledger.report().items += part.read;
            job.progress.advance(part.read);
            let (before, mut invalid) = (edits.len(), Vec::new());
            for comment in part.comments {
                match comment {
                    Ok(PlacedComment { id, placement, created_at, .. }) => {
                        edits.extend(index_edits(&id, Some((&placement, created_at)), &[]));
                    }
                    Err(entry) => invalid.push(entry),
                }
            }
            run.add_checked(edits.len() - before);
            is_whole &= repair(run, places_of(run, invalid)).await?;
            position = part.next;
            if position.is_none() {
                break;
            }
        }
    }
    apply(&edits).await?;
    Ok(is_whole)
}

/// The comments of invalid entries. Reports the entries without a comment's id or a product.
fn places_of(run: &Run<'_>, invalid: Vec<InvalidEntry>) -> BTreeMap<CommentId, Places> {
    let mut comments: BTreeMap<CommentId, Places> = BTreeMap::new();
    for InvalidEntry { key, problem } in invalid {
        match (comment_id_of_pk(&key.pk), FilterKey::parse(&key.sk)) {
            (Some(id), Ok(of)) => comments.entry(id).or_default().add(&of.product, None),
            _ => run.ledger.add_unresolved(problem.to_string()),
        }
    }
    comments
}

/// What a rebuild repairs: the page index only.
fn scope(run: &Run<'_>) -> Scope<'static> {
    let index = if run.job.settings.apply { IndexScope::All } else { IndexScope::Nothing };
    Scope { duplicates: false, index }
}

/// Repairs comments whose primary items may be invalid. Returns whether all were repaired.
async fn repair(run: &Run<'_>, comments: BTreeMap<CommentId, Places>) -> Result<bool, StoreError> {
    Ok(Box::pin(repair_all(run, comments.into(), &scope(run))).await?.is_complete())
}

/// Repairs the unresolved comments, and those that have changed since `from`. Returns the instant up to which the page
/// index is then complete; `None` when it is not, as when it was not filled.
async fn reconcile(run: &Run<'_>, from: Timestamp, is_filled: bool) -> Result<Option<Timestamp>, StoreError> {
    let job = run.job;
    let mut changed = ChangedMeanwhile { run, unreadable: BTreeSet::new(), is_whole: is_filled };
    changed.is_whole &= repair(run, unresolved::remembered(&job.table).await?).await?;
    // Reading may have taken days, and entries expire.
    if !reaches_back_to(from) {
        changed.is_whole = false;
        run.ledger.add_skipped("the journal does not reach back any more to where the rebuild began".to_owned());
    }
    let mut reconciled_to = from;
    for _ in 0..PASSES_MAX {
        let present = now();
        // Clocks of writers may be ahead.
        let window = Window { from: reconciled_to, to: present.plus_ms(ms(job.settings.settle)) };
        let mut finder = JournalFinder::new(&job.table, window, "the next rebuild starts anew; this one stopped at");
        let is_complete = Box::pin(find_and_repair(run, &mut finder, &mut changed)).await?;
        changed.is_whole &= is_complete;
        // Later entries may have arrived after this pass looked for them.
        reconciled_to = present.plus_ms(-ms(job.settings.settle));
        if !changed.is_whole || now().epoch_ms() - present.epoch_ms() <= PASS_MS_SHORT {
            break;
        }
    }
    Ok(changed.is_whole.then_some(reconciled_to))
}

/// The checkpoint of the comments that changed during the rebuild. It stores nothing. An unreadable entry is reported
/// unless it is already in `unreadable`.
struct ChangedMeanwhile<'run> {
    run: &'run Run<'run>,
    unreadable: BTreeSet<String>,
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
        self.is_whole &= outcome.is_complete();
        Ok(true)
    }
}
