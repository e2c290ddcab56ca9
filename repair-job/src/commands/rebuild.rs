//! `rebuild`: fills the page index from the table, then writes the markers.
//!
//! It fills all partitions, or only those without a marker, which were lost, from the table's index
//! `primaries` (`filling`). Live writes may continue. Afterwards, every comment that the journal
//! names is reconciled. So an outdated read cannot stay in the page index.
//!
//! **Invariant:** every valid comment is read from `primaries`, or is named by the journal entries
//! that are read (`tests/repair/primaries.rs`). An index of a table lags behind it. It lacks only
//! writes later than the rebuild's beginning minus ten minutes, so the journal is read from there
//! ([`journal_from`]).
//!
//! **Invariant:** an invalid item is left out. `primaries` does not hold texts. So the comments
//! that are remembered as unresolved are reconciled, too: one of them may have an unreadable text.
//!
//! **Invariant:** the markers get the instant up to which the last pass found the journal complete,
//! never a later one (`tests/repair/primaries.rs`).

use model::Timestamp;
use process::{StoreError, now};
use table::TableDescription;
use tokio::time::{Duration, sleep};

use crate::{
    find::{
        ITEMS_PER_COMMENT,
        journal::{JournalFinder, reaches_back_to},
    },
    repair::{pipeline::Pipeline, repair_all},
    run::{IndexAnswer, Job, Run, answer_of_index, report::Report, unresolved},
    state::{
        confirm::remember_rebuild,
        filling::{Filling, RESUMES, Wanted, fill, has_just_been_rebuilt},
        rebuild_plan::{RebuildStep, pass, plan},
    },
};

const STOPPED_AT: &str =
    "the function's next run resumes the rebuild, the command starts anew; this one stopped at";

/// Maximum number of passes over the journal.
const PASSES_MAX: u32 = 10;
/// A pass over the journal that takes no longer is the last, in milliseconds.
const PASS_MS_SHORT: i64 = 60_000;

const JUST_REBUILT: &str =
    "the page index is ready, and it or a part of it was rebuilt a moment ago";

/// Pause between two looks at a rebuild that is under way.
const LEASE_PAUSE: Duration = Duration::from_secs(1);

impl Job {
    /// Rebuilds the page index. Reads `readers` shards of the table's index in parallel. After a
    /// failure the index is not ready, and running the rebuild again is safe.
    ///
    /// While another rebuild is under way, it waits for that one. If the page index is ready then,
    /// nothing is left to do. A function that fills the page index would otherwise leave a command
    /// no turn.
    pub async fn rebuild(&self, readers: u32) -> Report {
        self.rebuild_or_wait(readers, Wanted::All).await
    }

    /// A rebuild that a person asks for. If the page index is ready, and was rebuilt a moment ago,
    /// nothing is done: the person may not know it yet. Asked once more, it is rebuilt.
    pub(crate) async fn rebuild_by_command(&self, readers: u32) -> Report {
        let wanted = Wanted::AllUnlessJustRebuilt;
        self.rebuild_or_wait(readers, wanted).await
    }

    async fn rebuild_or_wait(&self, readers: u32, mut wanted: Wanted) -> Report {
        loop {
            let report = self.rebuild_wanted(readers, wanted).await;
            let Some(holder) = &report.held_by else {
                return report;
            };
            if self.stop.reason().is_some() {
                return report;
            }
            if wanted != Wanted::AllUnlessReady {
                tracing::warn!(holder, "waiting for another rebuild");
                self.progress.wait_for("another rebuild of the page index");
                wanted = Wanted::AllUnlessReady;
            }
            sleep(LEASE_PAUSE).await;
        }
    }

    /// Rebuilds the partitions of the page index without any marker, and resumes an earlier rebuild
    /// of them. `None` when there are none, or the page index does not answer.
    pub async fn rebuild_missing(&self, readers: u32) -> Option<Report> {
        match self.index.unmarked().await {
            Ok(missing) if missing.is_empty() => None,
            Ok(_) => Some(self.rebuild_wanted(readers, Wanted::Missing).await),
            Err(error) => {
                tracing::warn!(%error, "whether the page index lacks partitions is unknown");
                None
            }
        }
    }

    /// The lease keeps two rebuilds apart. Each would empty what the other fills.
    async fn rebuild_wanted(&self, readers: u32, wanted: Wanted) -> Report {
        self.run("rebuild", Some("rebuild"), async |run| {
            Box::pin(rebuild_index(run, readers, wanted)).await
        })
        .await
    }
}

/// Rebuilds what is wanted of the page index, and notes what was read.
async fn rebuild_index(run: &Run<'_>, readers: u32, wanted: Wanted) -> Result<(), StoreError> {
    let job = run.job;
    job.progress.end_wait();
    let described = job.table.describe().await?;
    if !job.settings.apply {
        return say_what_it_would_do(run, &described).await;
    }
    // A table without the index fails here, while the page index still has its entries.
    job.table.primaries_part(0, None, 1).await?;
    let Some(filling) = Filling::begin(run, &described.id, wanted).await? else {
        run.ledger.add_note(match wanted {
            Wanted::AllUnlessJustRebuilt => format!(
                "{JUST_REBUILT}, so nothing is done; the same command once more rebuilds it"
            ),
            Wanted::All | Wanted::AllUnlessReady | Wanted::Missing => {
                "another rebuild has made the page index ready meanwhile".to_owned()
            }
        });
        return Ok(());
    };
    job.progress.expect(described.items / ITEMS_PER_COMMENT);
    let rebuild = &filling.begun.rebuild;
    let mut comments = 0;
    // A plan without `Reconcile`, which only a planted bug makes, marks as of its beginning.
    let mut reconciled_to = filling.begun.began;
    for step in plan(filling.begun.began, &job.settings) {
        match step {
            RebuildStep::Fill => {
                let filled = fill(&filling, readers).await;
                comments = run.ledger.report().checked;
                if filled.is_err() || !filling.is_filled() {
                    end_unfinished(run, &filling, filled).await?;
                    break;
                }
            }
            RebuildStep::Reconcile { from } => {
                let Some(to) = reconcile(run, &filling, from).await? else {
                    end_unfinished(run, &filling, Ok(())).await?;
                    break;
                };
                reconciled_to = to;
            }
            RebuildStep::Remember => {
                forget_own_repairs(run);
                let is_whole = rebuild.partitions.len() == job.index.partitions().count();
                remember_rebuild(&job.table, rebuild, is_whole).await?;
            }
            RebuildStep::Finish => {
                job.index
                    .finish_rebuild(rebuild, &described.id, reconciled_to)
                    .await?;
            }
        }
    }
    let changed = run.ledger.report().checked - comments;
    // A comment that changes several times is checked several times.
    run.ledger.add_note(format!(
        "{comments} comments read; {changed} checks of changes since shortly before it began"
    ));
    Ok(())
}

/// What a rebuild repairs is its own work. Nothing was wrong there before.
fn forget_own_repairs(run: &Run<'_>) {
    run.ledger.forget_drift();
}

/// Notes how far a rebuild has come that cannot go on, and why it cannot.
async fn end_unfinished(
    run: &Run<'_>,
    filling: &Filling<'_>,
    filled: Result<(), StoreError>,
) -> Result<(), StoreError> {
    forget_own_repairs(run);
    filling.store().await?;
    filled?;
    run.ledger
        .add_skipped(format!("the page index is not ready; {RESUMES}"));
    Ok(())
}

/// What a rebuild would do. A partition that is not ready is a difference.
async fn say_what_it_would_do(
    run: &Run<'_>,
    described: &TableDescription,
) -> Result<(), StoreError> {
    let index = &run.job.index;
    let readiness = match answer_of_index(index.readiness(&described.id, now()).await)? {
        IndexAnswer::Answered(readiness) => readiness,
        IndexAnswer::Away(error) => {
            run.ledger.add_skipped(error.to_string());
            return Ok(());
        }
    };
    let mut not_ready = 0;
    for (_, answer) in &readiness {
        if answer.is_err() {
            run.ledger.report().add_difference();
            not_ready += 1;
        }
    }
    let would_do = if not_ready == 0 && has_just_been_rebuilt(&run.job.table).await? {
        format!("{JUST_REBUILT}, so --apply does nothing the first time")
    } else {
        format!(
            "with --apply, all are emptied and filled with about {} comments, and numbered pages are 503 meanwhile",
            described.items / ITEMS_PER_COMMENT
        )
    };
    run.ledger.add_note(format!(
        "{not_ready} of {} partitions of the page index are not ready; {would_do}",
        readiness.len()
    ));
    Ok(())
}

/// Repairs the unresolved comments, and those that have changed since `from`. Returns the instant up
/// to which the page index is then complete; `None` when it is not.
async fn reconcile(
    run: &Run<'_>,
    filling: &Filling<'_>,
    from: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let job = run.job;
    let unresolved = unresolved::remembered(&job.table).await?;
    let of_unresolved =
        Box::pin(repair_all(run, unresolved.into(), &filling.scope(), None)).await?;
    let mut is_whole = of_unresolved.is_complete();
    // Reading may have taken days, and entries expire.
    if !reaches_back_to(from) {
        is_whole = false;
        run.ledger.add_skipped(
            "the journal does not reach back any more to where the rebuild began".to_owned(),
        );
    }
    let mut reconciled_to = from;
    for _ in 0..PASSES_MAX {
        let present = now();
        let pass = pass(reconciled_to, present, &job.settings);
        let finder = JournalFinder::new(&job.table, pass.window, STOPPED_AT);
        let mut journal = Pipeline::new(run, finder);
        while let Some((part, outcome)) = Box::pin(journal.next(filling.scope())).await? {
            // The passes overlap, so an unreadable entry may come several times.
            for what in part.unreadable {
                run.ledger.add_unresolved_once(what);
            }
            is_whole &= outcome.is_complete();
        }
        is_whole &= journal.is_complete();
        reconciled_to = pass.reconciled_to;
        if !is_whole || now().epoch_ms() - present.epoch_ms() <= PASS_MS_SHORT {
            break;
        }
    }
    Ok(if is_whole { Some(reconciled_to) } else { None })
}
