//! Confirmations: every minute of a run, `recent` confirms which partitions of the page index
//! readers may believe.
//!
//! A confirmation says two things. Nothing was lost, or possible losses were checked before the
//! backlog (`confirm_plan`). And the page indexer keeps up: for a sample of comments that changed a
//! while ago, the page index agrees with the table. Changes that the watermarks have passed need no
//! sample. ADR 44 says what readers do meanwhile.
//!
//! **Invariant:** a partition is confirmed only after its possible losses were checked
//! (`tests/repair/confirmed.rs`).

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use model::{CommentId, Timestamp, plan::reconcile::Places};
use page_index::{Check, ConfirmationTime, LastConfirmation, Rebuild, ServerIdentity};
use process::{Store, StoreError, now};
use table::Table;
use tokio::time::Instant;

use crate::{
    find::journal::{Journal, JournalFinder, Window, oldest_entry, windows},
    repair::{
        RESUMES_WITH_UNFINISHED,
        index_snapshot::{IndexSnapshot, RepairScope},
        pipeline::Pipeline,
        repair_all,
    },
    run::{Job, Run, index_is_away, settings::ms},
    state::{
        confirm_plan::{Seen, Step, plan},
        rebuild_plan::confirmation_of,
    },
};

const CONFIRMATION: &str = LastConfirmation::KIND;
const INDEX: &str = LastConfirmation::NAME;

/// Number of sampled comments. A stopped indexer misses all of them. The sample reveals an indexer
/// that misses every tenth comment with a probability of 99 %.
const SAMPLE: usize = 50;

/// The most parts of a window that are read for the sample: one comment may have most of the
/// entries.
const SAMPLE_PARTS_MAX: usize = 8;

/// How far back to look for the sample, in seconds, until there are enough comments. A busy journal
/// is read for one second only.
const SAMPLE_SPANS_S: [i64; 5] = [1, 10, 100, 1_000, 10_000];

/// Maximum number of tries to replace the stored confirmation, which a run of `recent` replaces
/// once a minute.
const REPLACE_TRIES_MAX: u32 = 10;

const ANOTHER_RUN: &str = "another run or a rebuild has confirmed meanwhile";

/// Stores the confirmation of a rebuild that is about to mark its partitions.
pub(crate) async fn remember_rebuild(
    table: &Table,
    rebuild: &Rebuild,
    is_whole: bool,
) -> Result<(), StoreError> {
    if is_whole {
        let next = confirmation_of(rebuild, is_whole, None);
        return table.put_state(CONFIRMATION, INDEX, &next).await;
    }
    for _ in 0..REPLACE_TRIES_MAX {
        let stored: Option<LastConfirmation> = table.state(CONFIRMATION, INDEX).await?;
        let next = confirmation_of(rebuild, is_whole, stored.as_ref());
        let is_replaced = table
            .replace_state(CONFIRMATION, INDEX, stored.as_ref(), &next)
            .await?;
        if is_replaced {
            return Ok(());
        }
    }
    Err(StoreError::unavailable(Store::Table, ANOTHER_RUN))
}

pub(crate) struct Confirmer<'run> {
    run: &'run Run<'run>,
    last: Instant,
    refusal: Option<String>,
}

impl<'run> Confirmer<'run> {
    pub(crate) fn new(run: &'run Run<'run>) -> Self {
        Self {
            run,
            last: Instant::now(),
            refusal: None,
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        self.last.elapsed() >= self.run.job.settings.confirm_every
    }

    /// Confirms if possible. Returns `false` when the servers have changed since the run began, have
    /// evicted keys, or answer again after a failure. The run must then end, and the next run begins
    /// with what they may have lost.
    ///
    /// # Errors
    /// The table's. A page index that does not answer only prevents the confirmation.
    pub(crate) async fn confirm(&mut self, snapshot: &IndexSnapshot) -> Result<bool, StoreError> {
        self.last = Instant::now();
        self.refusal = None;
        let Some(began_with) = &snapshot.servers else {
            return Ok(true);
        };
        if !self.run.may_remember() || self.run.stop_reason().is_some() {
            return Ok(true);
        }
        match Box::pin(self.try_to_confirm(snapshot, began_with)).await {
            Ok(()) => Ok(true),
            Err(Refusal::Because(why)) => {
                tracing::warn!(why, "the page index is not confirmed");
                self.refusal = Some(why);
                Ok(true)
            }
            Err(Refusal::BeginAnew) => {
                let why = "its servers have changed since the run began, or did not answer; the next run resumes";
                self.refusal = Some(why.to_owned());
                Ok(false)
            }
            Err(Refusal::GiveUp(why)) => {
                tracing::error!(why, "the page index is not confirmed");
                snapshot.give_up(why, &self.run.ledger);
                Ok(false)
            }
            Err(Refusal::Failed(error)) => Err(error),
        }
    }

    pub(crate) fn report(&self) {
        if let Some(why) = &self.refusal {
            self.run
                .ledger
                .add_skipped(format!("confirming the page index: {why}"));
        }
    }

    /// Reads what a confirmation depends on, and takes the planned steps.
    async fn try_to_confirm(
        &self,
        snapshot: &IndexSnapshot,
        began_with: &ServerIdentity,
    ) -> Result<(), Refusal> {
        let Job {
            table,
            index,
            settings,
            ..
        } = self.run.job;
        let present = now();
        // The servers are asked before the state is read. The next confirmation finds a server that
        // takes over later. A rebuild that ends in between has already changed the state.
        let servers = index.server_identity().await?;
        if !snapshot.is_in_use() {
            return Err(Refusal::BeginAnew);
        }
        let stored: Option<LastConfirmation> = table.state(CONFIRMATION, INDEX).await?;
        let mut marks = index.marks(&snapshot.table_id).await?;
        marks.retain(|(partition, _)| snapshot.has(*partition));
        if marks.is_empty() {
            return Ok(());
        }
        let seen = Seen {
            stored: stored.as_ref(),
            marks: &marks,
            servers: &servers,
            began_with,
            present,
        };
        let steps = plan(&seen, settings, [process::new_ulid(), process::new_ulid()]);
        self.take(steps, snapshot, stored).await
    }

    /// Takes steps in their order. `stored` is what the table stores.
    async fn take(
        &self,
        steps: Vec<Step>,
        snapshot: &IndexSnapshot,
        mut stored: Option<LastConfirmation>,
    ) -> Result<(), Refusal> {
        let Job { table, index, .. } = self.run.job;
        let table_id = &snapshot.table_id;
        let mut sampled_at = now();
        for step in steps {
            match step {
                Step::Store(next) => replace(table, &mut stored, next).await?,
                Step::Leave { read, token, time } => {
                    index.leave_token(table_id, &read, &token, time).await?;
                }
                Step::Report {
                    what,
                    since,
                    loses_readers,
                } => self.report_losses(&what, since, loses_readers),
                Step::RemoveMarkers => {
                    let marks = index.marks(table_id).await?;
                    let marked: Vec<_> = marks.iter().map(|(partition, _)| *partition).collect();
                    index.remove_markers(&marked).await?;
                }
                Step::GiveUp(why) => return Err(Refusal::GiveUp(why)),
                Step::Refuse(why) => return Err(Refusal::Because(why)),
                Step::BeginAnew => return Err(Refusal::BeginAnew),
                Step::CheckLosses(check) => self.check_losses(check, snapshot, &mut stored).await?,
                Step::Sample => {
                    sampled_at = now();
                    self.sample(snapshot, sampled_at).await?;
                }
                Step::AssertServers(servers) => {
                    if index.server_identity().await? != servers {
                        return Err(Refusal::BeginAnew);
                    }
                }
                Step::Confirm { read, token } => {
                    let time = ConfirmationTime::At(sampled_at);
                    let confirmed = index.leave_token(table_id, &read, &token, time).await?;
                    let others = read.len() - confirmed.len();
                    if others > 0 {
                        return Err(Refusal::Because(format!(
                            "the markers of {others} of {} partitions have changed meanwhile (a rebuild, or the index \
                             was lost)",
                            read.len()
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reports that possible losses are checked. The log warns only if readers believed a partition
    /// until now.
    fn report_losses(&self, what: &str, since: Timestamp, loses_readers: bool) {
        let next = "possible losses of the page index are checked first";
        if loses_readers {
            tracing::warn!(what, %since, next);
        } else {
            tracing::info!(what, %since, next);
        }
        self.run.ledger.add_note(format!(
            "{what}: what has changed since {since} is checked first"
        ));
    }

    async fn check_losses(
        &self,
        check: Check,
        snapshot: &IndexSnapshot,
        stored: &mut Option<LastConfirmation>,
    ) -> Result<(), Refusal> {
        let table = &self.run.job.table;
        let window = Window {
            from: check.from,
            to: check.to,
        };
        let finder = JournalFinder::new(table, window, "the next run looks for lost changes from");
        let mut journal = Pipeline::new(self.run, finder);
        // The run reports unreadable entries when it reaches them.
        while let Some((part, outcome)) = journal.next(of_index(snapshot)).await? {
            if !outcome.is_complete() {
                return Err(Refusal::because("not all possible losses were checked"));
            }
            let Some(known) = stored.clone() else {
                continue;
            };
            let check = known.check.map(|check| Check {
                from: part.window.to,
                ..check
            });
            replace(table, stored, LastConfirmation { check, ..known }).await?;
        }
        if journal.is_complete() {
            Ok(())
        } else {
            Err(Refusal::because("the run had to stop"))
        }
    }

    /// Samples whether the page indexer keeps up, and repairs what it missed in the sample.
    async fn sample(&self, snapshot: &IndexSnapshot, present: Timestamp) -> Result<(), Refusal> {
        let run = self.run;
        let lag = run.job.settings.indexer_lag;
        let reconciled = snapshot
            .begins(oldest_entry(present))
            .min()
            .unwrap_or(present);
        let until = present.plus_ms(-ms(lag));
        let changed = changed_before(&run.job.table, reconciled, until).await?;
        let sample = self.unchanged_since(until, changed).await?;
        let count = sample.len();
        let repaired_before = run.ledger.report().repaired;
        let scope = of_index(snapshot);
        let resumes = Some(RESUMES_WITH_UNFINISHED);
        let outcome = repair_all(run, sample.into(), &scope, resumes).await?;
        if !outcome.is_complete() {
            return Err(Refusal::because("the sample could not be checked"));
        }
        let missed = run.ledger.report().repaired - repaired_before;
        if missed > 0 {
            return Err(Refusal::Because(format!(
                "{count} comments that changed more than {} s ago were sampled, and {missed} of their entries were \
                 wrong: the page indexer is behind, or has stopped",
                lag.as_secs()
            )));
        }
        Ok(())
    }

    /// The comments without those that changed again after `at`: their last change may still be on
    /// its way to the indexer.
    async fn unchanged_since(
        &self,
        at: Timestamp,
        comments: BTreeMap<CommentId, Places>,
    ) -> Result<BTreeMap<CommentId, Places>, StoreError> {
        let Job {
            table, settings, ..
        } = self.run.job;
        let looks = comments.into_iter().map(async |(id, places)| {
            let has_changed = has_changed_after(table, &id, at).await?;
            Ok::<_, StoreError>((id, places, has_changed))
        });
        let looked_up: Vec<_> = stream::iter(looks)
            .buffered(settings.concurrency.max(1))
            .try_collect()
            .await?;
        let mut unchanged = BTreeMap::new();
        for (id, places, has_changed) in looked_up {
            if !has_changed {
                unchanged.insert(id, places);
            }
        }
        Ok(unchanged)
    }
}

async fn has_changed_after(
    table: &Table,
    id: &CommentId,
    at: Timestamp,
) -> Result<bool, StoreError> {
    match table.comment(id).await {
        Ok(Some(comment)) => Ok(comment.revision.instant() > at),
        Ok(None) => Ok(false),
        // It has no entries in the page index, which the sample checks too.
        Err(StoreError::Malformed(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Replaces what the table stores, unless another run has replaced it.
async fn replace(
    table: &Table,
    stored: &mut Option<LastConfirmation>,
    next: LastConfirmation,
) -> Result<(), Refusal> {
    let is_replaced = table
        .replace_state(CONFIRMATION, INDEX, stored.as_ref(), &next)
        .await?;
    if !is_replaced {
        return Err(Refusal::because(ANOTHER_RUN));
    }
    *stored = Some(next);
    Ok(())
}

fn of_index(snapshot: &IndexSnapshot) -> RepairScope<'_> {
    RepairScope {
        duplicates: false,
        entries: false,
        index: snapshot.scope(),
    }
}

enum Refusal {
    Because(String),
    BeginAnew,
    GiveUp(&'static str),
    Failed(StoreError),
}

impl Refusal {
    fn because(why: &str) -> Self {
        Self::Because(why.to_owned())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        if index_is_away(&error) {
            Self::Because(error.to_string())
        } else {
            Self::Failed(error)
        }
    }
}

/// A sample of the comments that changed in a time, from its end backwards.
async fn changed_before(
    table: &Table,
    from: Timestamp,
    to: Timestamp,
) -> Result<BTreeMap<CommentId, Places>, StoreError> {
    let mut changed = BTreeMap::new();
    for span_s in SAMPLE_SPANS_S {
        let begins = to.plus_ms(-1_000 * span_s).max(from);
        changed.clear();
        for window in windows(begins, to) {
            add_changed(table, window, &mut changed).await?;
        }
        if changed.len() >= SAMPLE || begins == from {
            break;
        }
    }
    let step = changed.len().div_ceil(SAMPLE).max(1);
    Ok(changed.into_iter().step_by(step).collect())
}

/// Adds comments that changed in a window, until there are enough.
async fn add_changed(
    table: &Table,
    window: Window,
    changed: &mut BTreeMap<CommentId, Places>,
) -> Result<(), StoreError> {
    let mut journal = Journal::new(table, window);
    let before = changed.len();
    for _ in 0..SAMPLE_PARTS_MAX {
        let Some(part) = journal.next().await? else {
            break;
        };
        for (id, places) in part.named {
            // A reported comment is likely to be wrong even if the page indexer is right.
            if part.changed.contains(&id) {
                changed.insert(id, places);
            }
        }
        if changed.len() >= before + SAMPLE {
            break;
        }
    }
    Ok(())
}
