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
use model::{
    CommentId, Timestamp,
    plan::reconcile::Places,
    planted::{self, Bug},
};
use page_index::{ConfirmationTime, Rebuild, ServerIdentity};
use process::{Store, StoreError, now};
use table::Table;
use tokio::time::Instant;

use crate::{
    find::journal::{Journal, JournalFinder, JournalPart, Window, oldest_entry, windows},
    repair::{
        RESUMES_WITH_UNFINISHED,
        index_snapshot::{IndexSnapshot, RepairScope},
        pipeline::Pipeline,
        repair_all,
    },
    run::{Job, Run, index_is_away, settings::ms},
    state::confirm_plan::{Check, LastConfirmation, Seen, Step, Tokens, plan},
};

/// The kind of the state that stores the last confirmation. Tables of the first version have it
/// under this word.
const CONFIRMATION: &str = "vouch";
const INDEX: &str = "index";

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

/// Stores the confirmation of a rebuild that is about to mark its partitions. If they are not all,
/// the token of the other partitions becomes the one before. The next run then checks what they may
/// have lost, and readers believe them meanwhile.
pub(crate) async fn remember_rebuild(
    table: &Table,
    rebuild: &Rebuild,
    is_whole: bool,
) -> Result<(), StoreError> {
    let (token, servers) = (rebuild.token.clone(), rebuild.servers.clone());
    let whole = LastConfirmation {
        token,
        before: None,
        servers,
        check: None,
    };
    if is_whole {
        return table.put_state(CONFIRMATION, INDEX, &whole).await;
    }
    for _ in 0..REPLACE_TRIES_MAX {
        let before: Option<LastConfirmation> = table.state(CONFIRMATION, INDEX).await?;
        let (others, check) = before
            .clone()
            .map(|before| (before.token, before.check))
            .unzip();
        let next = LastConfirmation {
            before: others,
            check: check.flatten(),
            ..whole.clone()
        };
        if table
            .replace_state(CONFIRMATION, INDEX, before.as_ref(), &next)
            .await?
        {
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

    /// Confirms if possible. Returns `false` when the servers have changed since the run began, or
    /// answer again after a failure. The run must then end, and the next run begins with what they
    /// may have lost.
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
        let leave = async |read: &Tokens, token: &str, time| {
            index
                .leave_token(&snapshot.table_id, read, token, time)
                .await
        };
        let mut sampled_at = now();
        for step in steps {
            match step {
                Step::Store(next) => replace(table, &mut stored, next).await?,
                Step::Leave { read, token, time } => drop(leave(&read, &token, time).await?),
                Step::Report {
                    what,
                    since,
                    loses_readers,
                } => self.report_losses(&what, since, loses_readers),
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
                    leave(&read, &token, ConfirmationTime::At(sampled_at)).await?;
                }
            }
        }
        Ok(())
    }

    /// Reports that possible losses are checked. The log warns only if readers believed a partition
    /// until now.
    fn report_losses(&self, what: &str, since: Timestamp, loses_readers: bool) {
        let next = "possible losses of the page index are checked first";
        match loses_readers {
            true => tracing::warn!(what, %since, next),
            false => tracing::info!(what, %since, next),
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
        if planted::has(Bug::ConfirmedTooEarly) {
            return Ok(());
        }
        let (table, words) = (
            &self.run.job.table,
            "the next run looks for lost changes from",
        );
        let finder = JournalFinder::new(
            table,
            Window {
                from: check.from,
                to: check.to,
            },
            words,
        );
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
        let sample = self
            .unchanged_since(
                until,
                changed_before(&run.job.table, reconciled, until).await?,
            )
            .await?;
        let (count, before) = (sample.len(), run.ledger.report().repaired);
        if !repair_all(
            run,
            sample.into(),
            &of_index(snapshot),
            Some(RESUMES_WITH_UNFINISHED),
        )
        .await?
        .is_complete()
        {
            return Err(Refusal::because("the sample could not be checked"));
        }
        match run.ledger.report().repaired - before {
            0 => Ok(()),
            missed => Err(Refusal::Because(format!(
                "{count} comments that changed more than {} s ago were sampled, and {missed} of their entries were \
                 wrong: the page indexer is behind, or has stopped",
                lag.as_secs()
            ))),
        }
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
            let changed_again = match table.comment(&id).await {
                Ok(comment) => comment.is_some_and(|comment| comment.revision.instant() > at),
                // It has no entries in the page index, which the sample checks too.
                Err(StoreError::Malformed(_)) => false,
                Err(error) => return Err(error),
            };
            Ok((!changed_again).then_some((id, places)))
        });
        let unchanged: Vec<_> = stream::iter(looks)
            .buffered(settings.concurrency.max(1))
            .try_collect()
            .await?;
        Ok(unchanged.into_iter().flatten().collect())
    }
}

/// Replaces what the table stores, unless another run has replaced it.
async fn replace(
    table: &Table,
    stored: &mut Option<LastConfirmation>,
    next: LastConfirmation,
) -> Result<(), Refusal> {
    if !table
        .replace_state(CONFIRMATION, INDEX, stored.as_ref(), &next)
        .await?
    {
        return Err(Refusal::because(ANOTHER_RUN));
    }
    *stored = Some(next);
    Ok(())
}

fn of_index(snapshot: &IndexSnapshot) -> RepairScope<'_> {
    RepairScope {
        duplicates: false,
        index: snapshot.scope(),
    }
}

enum Refusal {
    Because(String),
    BeginAnew,
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

async fn changed_before(
    table: &Table,
    from: Timestamp,
    to: Timestamp,
) -> Result<BTreeMap<CommentId, Places>, StoreError> {
    let mut named = BTreeMap::new();
    for span_s in SAMPLE_SPANS_S {
        let begins = to.plus_ms(-1_000 * span_s).max(from);
        named.clear();
        for window in windows(begins, to) {
            let (mut journal, before) = (Journal::new(table, window), named.len());
            for _ in 0..SAMPLE_PARTS_MAX {
                let Some(JournalPart {
                    named: found,
                    changed,
                    ..
                }) = journal.next().await?
                else {
                    break;
                };
                // A reported comment is likely to be wrong, whatever the page indexer does.
                named.extend(found.into_iter().filter(|(id, _)| changed.contains(id)));
                if named.len() >= before + SAMPLE {
                    break;
                }
            }
        }
        if named.len() >= SAMPLE || begins == from {
            break;
        }
    }
    let step = named.len().div_ceil(SAMPLE).max(1);
    Ok(named.into_iter().step_by(step).collect())
}
