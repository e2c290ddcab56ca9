//! `rebuild`: fills the page index from the table, then writes the markers.
//!
//! It fills all partitions, or only those without a marker, which were lost. How far it has come is stored
//! (`filling`).
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
//! (`tests/repair/primaries.rs`).

use std::collections::BTreeMap;

use futures_util::{
    FutureExt,
    future::{try_join, try_join_all},
};
use model::{
    CommentId, FilterKey, Timestamp,
    item::{PlacedComment, comment_id_of_pk},
    plan::{IndexEdit, index_edits, reconcile::Places},
    planted::{self, Bug},
    primaries::PRIMARIES_SHARDS,
};
use page_index::{PageIndex, Rebuild};
use process::{StoreError, now};
use table::{InvalidEntry, Table};

use crate::{
    find::{
        changes::{PASS_MS_SHORT, PASSES_MAX, reaches_back_to},
        journal::{JournalFinder, Part, Window},
    },
    repair::{
        pipeline::{Checkpoint, find_and_repair},
        repair_all,
        suspect::Outcome,
    },
    run::{
        Job, Run,
        lease::hold_lease,
        report::Report,
        settings::{JobSettings, ms},
        stop::Stop,
    },
    state::{
        checkpoint::ITEMS_PER_COMMENT,
        confirm::remember_rebuild,
        filling::{Filling, Reached, Wanted},
        index_snapshot::{IndexScope, Scope},
        unresolved,
    },
};

/// Maximum number of entries read in one call. An answer also ends after a megabyte.
const READ_LIMIT: u32 = 4_000;

/// Number of edits sent together: enough to hide the round trip, even when each product has few comments.
const EDITS_TOGETHER: usize = 128;

const RESUMES: &str = "the function's next run resumes the rebuild, the command starts anew";
const STOPPED_AT: &str = "the function's next run resumes the rebuild, the command starts anew; this one stopped at";

/// Keeps two rebuilds apart. Each would empty what the other fills.
pub(crate) const LEASE: &str = "rebuild";

/// Like [`rebuild`], while it holds the lease of the command. `None` when another rebuild holds it; nothing is done then.
///
/// # Errors
/// As for [`rebuild`].
pub async fn rebuild_unless_under_way(
    table: &Table,
    index: &PageIndex,
    segments: u32,
) -> Result<Option<Report>, StoreError> {
    let mut report = None;
    let work = async {
        report = Some(rebuild(table, index, segments).await?);
        Ok(())
    };
    // Should the lease be lost, the tokens in the page index decide which rebuild ends.
    hold_lease(table, LEASE, JobSettings::default().lease, now(), &Stop::default(), work).await?;
    Ok(report)
}

/// Whether readers may believe the whole page index.
pub(crate) async fn is_ready(job: &Job) -> Result<bool, StoreError> {
    let table_id = job.table.describe().await?.id;
    Ok(job.index.readiness(&table_id, now()).await?.iter().all(|(_, answer)| answer.is_ok()))
}

/// Rebuilds the page index without a lease and without a record of the run. Reads `segments` shards of the table's index in
/// parallel.
///
/// # Errors
/// A store's. The page index may also have been lost meanwhile, or another rebuild may have begun. The index is then
/// not ready, and running the rebuild again is safe.
pub async fn rebuild(table: &Table, index: &PageIndex, segments: u32) -> Result<Report, StoreError> {
    let settings = JobSettings { apply: true, ..JobSettings::default() };
    let job = Job::new(table.clone(), index.clone(), settings, Stop::default());
    let mut rebuilt = Ok(());
    let work = async |run: &Run<'_>| {
        rebuilt = Box::pin(rebuild_index(run, segments, Wanted::All)).await;
        Ok(())
    };
    let report = job.run("rebuild", None, work).await;
    rebuilt.map(|()| report)
}

/// Rebuilds what is wanted of the page index, and notes what was read.
pub(crate) async fn rebuild_index(run: &Run<'_>, segments: u32, wanted: Wanted) -> Result<(), StoreError> {
    let job = run.job;
    let described = job.table.describe().await?;
    // A table without the index fails here, while the page index still has its entries.
    job.table.primaries_part(0, None, 1).await?;
    let Some(filling) = Filling::begin(run, &described.id, wanted).await? else {
        run.ledger.add_note("every partition of the page index has a marker by now".to_owned());
        return Ok(());
    };
    job.progress.expect(described.items / ITEMS_PER_COMMENT);
    let readers = (0..segments.clamp(1, PRIMARIES_SHARDS)).map(|_| fill(run, &filling).boxed());
    let filled = try_join_all(readers).await;
    if !matches!(&filled, Ok(are_whole) if are_whole.iter().all(|is_whole| *is_whole)) {
        filling.store().await?;
    }
    let is_filled = filled?.into_iter().all(|is_whole| is_whole);
    let comments = run.ledger.report().checked;
    if job.settings.apply {
        let reconciled_to = reconcile(run, &filling, is_filled && job.stop.reason().is_none()).await?;
        // These repairs follow from the rebuild itself. They are not differences that existed before.
        run.ledger.forget_drift();
        if let Some(reconciled_to) = reconciled_to {
            let is_whole = filling.rebuild.partitions.len() == job.index.partitions().count();
            remember_rebuild(&job.table, &filling.rebuild, is_whole).await?;
            job.index.finish_rebuild(&filling.rebuild, &described.id, reconciled_to).await?;
        } else {
            filling.store().await?;
            run.ledger.add_skipped(format!("the page index is not ready; {RESUMES}"));
        }
    }
    let changed = run.ledger.report().checked - comments;
    // A comment that changes several times is checked several times.
    run.ledger.add_note(format!("{comments} comments read; {changed} checks of changes since shortly before it began"));
    Ok(())
}

/// Puts the comments of shards into the page index: of one shard, then of the next one that no other reader has taken.
/// Returns whether all were read, and the comments of all invalid entries were repaired.
async fn fill(run: &Run<'_>, filling: &Filling<'_>) -> Result<bool, StoreError> {
    let job = run.job;
    let (mut edits, mut reached, mut is_whole) = (Vec::new(), Vec::new(), true);
    let apply = async |edits: &[IndexEdit]| if job.settings.apply { job.index.apply(edits).await } else { Ok(()) };
    'shards: while let Some((shard, mut position)) = filling.next_shard() {
        let mut is_right = true;
        loop {
            if run.must_stop(RESUMES) {
                is_whole = false;
                break 'shards;
            }
            let read = job.table.primaries_part(shard, position, READ_LIMIT);
            let part = if edits.len() < EDITS_TOGETHER {
                read.await?
            } else {
                let (part, ()) = try_join(read, apply(&edits)).await?;
                edits.clear();
                filling.record(reached.drain(..)).await?;
                part
            };
            run.ledger.report().items += part.read;
            job.progress.advance(part.read);
            let (before, mut invalid) = (edits.len(), Vec::new());
            for comment in part.comments {
                match comment {
                    Ok(PlacedComment { id, placement, created_at, .. }) => {
                        let partition = job.index.partition_of(&placement.product);
                        if filling.rebuild.partitions.contains(&partition) {
                            edits.extend(index_edits(&id, Some((&placement, created_at)), &[]));
                        }
                    }
                    Err(entry) => invalid.push(entry),
                }
            }
            run.add_checked(edits.len() - before);
            is_right &= repair(run, filling, places_of(run, invalid)).await?;
            position = part.next;
            if is_right {
                reached.push((shard, position.clone().map_or(Reached::Everything, Reached::Position)));
            }
            if position.is_none() {
                break;
            }
        }
        is_whole &= is_right;
    }
    apply(&edits).await?;
    filling.record(reached).await?;
    Ok(is_whole)
}

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

fn scope<'run>(run: &Run<'_>, rebuild: &'run Rebuild) -> Scope<'run> {
    let index = if run.job.settings.apply { IndexScope::Partitions(&rebuild.partitions) } else { IndexScope::Nothing };
    Scope { duplicates: false, index }
}

async fn repair(
    run: &Run<'_>,
    filling: &Filling<'_>,
    comments: BTreeMap<CommentId, Places>,
) -> Result<bool, StoreError> {
    Ok(Box::pin(repair_all(run, comments.into(), &scope(run, &filling.rebuild))).await?.is_complete())
}

/// Repairs the unresolved comments, and those that have changed since the rebuild began. Returns the instant up to
/// which the page index is then complete; `None` when it is not, as when it was not filled.
async fn reconcile(run: &Run<'_>, filling: &Filling<'_>, is_filled: bool) -> Result<Option<Timestamp>, StoreError> {
    let (job, from) = (run.job, filling.journal_from);
    if planted::has(Bug::MarkedBeforeJournal) {
        return Ok(is_filled.then(now));
    }
    let rebuild = &filling.rebuild;
    let mut changed = ChangedMeanwhile { run, rebuild, is_whole: is_filled };
    changed.is_whole &= repair(run, filling, unresolved::remembered(&job.table).await?).await?;
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
        let mut finder = JournalFinder::new(&job.table, window, STOPPED_AT);
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

/// The checkpoint of the comments that changed during the rebuild. It stores nothing. The passes over the journal
/// overlap, so an unreadable entry may come several times.
struct ChangedMeanwhile<'run> {
    run: &'run Run<'run>,
    rebuild: &'run Rebuild,
    is_whole: bool,
}

impl Checkpoint<Part> for ChangedMeanwhile<'_> {
    fn scope(&self) -> Scope<'_> {
        scope(self.run, self.rebuild)
    }

    async fn record(&mut self, part: Part, outcome: &Outcome) -> Result<bool, StoreError> {
        part.unreadable.into_iter().for_each(|what| self.run.ledger.add_unresolved_once(what));
        self.is_whole &= outcome.is_complete();
        Ok(true)
    }
}
