//! One run of the job: its settings, its lease, what it adds up.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, future::BoxFuture, stream};
use model::{
    CommentId, Instant,
    plan::reconcile::{Drift, Places},
};
use serde::{Deserialize, Serialize};
use stores::{PageIndex, StoreError, Table, capacity::Meter, now, table::Lease};

use crate::{
    error::RepairError,
    progress::Progress,
    reconcile::{Reconciled, Reconciler, Scope, State},
    report::{Report, Stopped},
    stop::Stop,
};

/// How long ago an entry of the journal must be for its window to be complete: longer than a write may take (30 s, see
/// `stores/src/table/writer.rs`), plus what the clocks of writers may differ and an edit of the page index may come late
/// (`reconcile`).
pub const SETTLE_DELAY: Duration = Duration::from_secs(60);

/// How much of what has been reconciled is looked at again.
pub const OVERLAP: Duration = Duration::from_secs(300);

/// How long a lease lasts that is not renewed: how long a run that was killed keeps others away.
pub const LEASE: Duration = Duration::from_secs(60);

/// How many comments are remembered as counted, so that one which is found twice counts once.
const COUNTED_MAX: usize = 200_000;

/// The state that tells when a command last ran.
pub(crate) const RUN: &str = "run";

/// How a job works.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// Whether it mends. A job that does not takes no lease and remembers nothing.
    pub apply: bool,
    /// See [`SETTLE_DELAY`].
    pub settle: Duration,
    /// See [`OVERLAP`].
    pub overlap: Duration,
    /// See [`LEASE`].
    pub lease: Duration,
    /// Comments reconciled at the same time.
    pub concurrency: usize,
    /// From which age of its watermark on an index partition is not ready.
    pub index_max_age: Duration,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            apply: false,
            settle: SETTLE_DELAY,
            overlap: OVERLAP,
            lease: LEASE,
            concurrency: 8,
            index_max_age: Duration::from_secs(3 * 3600),
        }
    }
}

/// The repair job over some stores.
#[derive(Debug, Clone)]
pub struct Job {
    pub(crate) table: Table,
    pub(crate) index: PageIndex,
    pub(crate) settings: JobSettings,
    pub(crate) stop: Stop,
    pub(crate) progress: Progress,
    meter: Arc<Meter>,
}

/// What a state says of the last run of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) exit_code: u8,
    pub(crate) checked: u64,
    pub(crate) mended: u64,
    pub(crate) unresolved: u64,
    pub(crate) read_units: f64,
    pub(crate) write_units: f64,
}

/// How comments were left.
pub(crate) struct AllReconciled {
    pub(crate) states: Vec<(CommentId, State)>,
    /// Whether all of them were looked at.
    pub(crate) is_whole: bool,
}

impl AllReconciled {
    /// Why the page index was not looked at for one of them.
    pub(crate) fn index_away(&self) -> Option<&str> {
        self.states.iter().find_map(|(_, state)| match state {
            State::IndexAway(error) => Some(error.as_str()),
            State::Settled | State::Unresolved(_) | State::KeepsChanging => None,
        })
    }
}

/// A run that is under way.
pub(crate) struct Run<'job> {
    pub(crate) job: &'job Job,
    pub(crate) began: Instant,
    report: Mutex<Report>,
    counted: Mutex<HashSet<CommentId>>,
}

impl Job {
    /// A job; `meter` counts and limits what it consumes, `stop` ends it.
    pub fn new(table: Table, index: PageIndex, settings: JobSettings, meter: Meter, stop: Stop) -> Self {
        let meter = Arc::new(meter);
        let table = table.metered(Arc::clone(&meter));
        Self { table, index, settings, stop, progress: Progress::default(), meter }
    }

    /// How far it is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Does some work under a lease and reports; without `--apply`, there is no lease.
    pub(crate) async fn run(
        &self,
        command: &str,
        scope: &str,
        work: impl AsyncFnOnce(&Run<'_>) -> Result<(), RepairError>,
    ) -> Report {
        let work_with_lease = async |run: &Run<'_>| match self.settings.apply {
            true => self.work_under_lease(run, command, scope, work).await,
            false => work(run).await,
        };
        self.without_lease(command, work_with_lease).await
    }

    /// Does some work and reports.
    pub(crate) async fn without_lease(
        &self,
        command: &str,
        work: impl AsyncFnOnce(&Run<'_>) -> Result<(), RepairError>,
    ) -> Report {
        let (began, began_at) = (now(), tokio::time::Instant::now());
        let before = self.meter.consumed();
        let report = Report { command: command.to_owned(), apply: self.settings.apply, ..Report::default() };
        let run = Run { job: self, began, report: Mutex::new(report), counted: Mutex::default() };
        let outcome = work(&run).await;
        let consumed = self.meter.consumed();
        let mut report = run.report.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = outcome {
            tracing::error!(command, %error, "the run failed");
            report.failure = Some(error.to_string());
        }
        report.read_units = consumed.read - before.read;
        report.write_units = consumed.write - before.write;
        report.seconds = began_at.elapsed().as_secs_f64();
        report
    }

    async fn work_under_lease(
        &self,
        run: &Run<'_>,
        command: &str,
        scope: &str,
        work: impl AsyncFnOnce(&Run<'_>) -> Result<(), RepairError>,
    ) -> Result<(), RepairError> {
        let until = |at: Instant| at.epoch_ms() + i64::try_from(self.settings.lease.as_millis()).unwrap_or(i64::MAX);
        let lease = Lease { holder: stores::new_ulid(), who: who(), since: run.began, until_ms: until(run.began) };
        if let Some(holder) = self.table.take_lease(scope, &lease, run.began).await? {
            run.report().hold(&holder);
            return Ok(());
        }
        let renewal = async {
            let every = self.settings.lease / 3;
            loop {
                tokio::time::sleep(every).await;
                match self.table.renew_lease(scope, &lease.holder, until(now())).await {
                    Ok(true) => {}
                    Ok(false) => {
                        tracing::warn!(scope, "the lease was lost to another run");
                        self.stop.lose_lease();
                    }
                    // The next try may come in time.
                    Err(error) => tracing::warn!(scope, %error, "the lease was not renewed"),
                }
            }
        };
        let outcome = tokio::select! {
            outcome = work(run) => outcome,
            () = renewal => Ok(()),
        };
        let record = {
            let report = run.report();
            RunRecord {
                began: run.began,
                ended: now(),
                exit_code: report.exit_code() | u8::from(outcome.is_err()),
                checked: report.checked,
                mended: report.mended,
                unresolved: report.unresolved_count,
                read_units: self.meter.consumed().read,
                write_units: self.meter.consumed().write,
            }
        };
        let remembered = self.table.put_state(RUN, command, &record).await;
        let released = self.table.release_lease(scope, &lease.holder).await;
        outcome?;
        remembered?;
        Ok(released?)
    }

    pub(crate) fn reconciler(&self) -> Reconciler {
        Reconciler { table: self.table.clone(), index: self.index.clone(), apply: self.settings.apply }
    }
}

/// What a person finds this process by.
fn who() -> String {
    let host = std::env::var("AWS_LAMBDA_LOG_STREAM_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .or_else(|_| std::fs::read_to_string("/etc/hostname").map(|name| name.trim().to_owned()))
        .unwrap_or_else(|_| "an unnamed host".to_owned());
    format!("process {} on {host}", std::process::id())
}

impl Run<'_> {
    pub(crate) fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run has to stop; then it is reported where it goes on.
    pub(crate) fn must_stop(&self, goes_on: impl FnOnce() -> String) -> bool {
        let Some(reason) = self.job.stop.reason() else { return false };
        let mut report = self.report();
        if report.stopped.is_none() {
            report.stopped = Some(Stopped { reason, goes_on: goes_on() });
        }
        true
    }

    /// Counts comments that were looked at.
    pub(crate) fn add_checked(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.report().checked += count;
        self.job.progress.add(count);
    }

    /// Counts items that were read of a table that has about so many.
    pub(crate) fn add_items(&self, count: u64, whole: u64) {
        self.report().items += count;
        self.job.progress.add_items(count, whole);
    }

    pub(crate) fn add_unresolved(&self, what: String) {
        tracing::error!(what, "unresolved: a person has to look");
        self.report().add_unresolved(what);
    }

    pub(crate) fn add_skipped(&self, what: String) {
        self.report().add_skipped(what);
    }

    pub(crate) fn add_note(&self, what: String) {
        self.report().notes.push(what);
    }

    /// Does not report differences that were mended so far.
    pub(crate) fn forget_drift(&self) {
        let mut report = self.report();
        report.drifted.clear();
        (report.drifted_comments, report.mended) = (0, 0);
    }

    /// Adds differences that belong to no comment.
    pub(crate) fn add_drift(&self, drift: &Drift) {
        let mut report = self.report();
        *report.drifted.entry(drift.kind()).or_default() += 1;
        match self.job.settings.apply {
            true => report.mended += 1,
            false => report.left += 1,
        }
    }

    /// Reconciles comments, several at the same time; returns how each was left. When the run has to stop, no further
    /// one is begun.
    ///
    /// # Errors
    /// A store's; some of the comments have been reconciled then.
    pub(crate) async fn reconcile_all(
        &self,
        comments: impl IntoIterator<Item = (CommentId, Places)>,
        scope: &Scope,
    ) -> Result<AllReconciled, RepairError> {
        let reconciler = self.job.reconciler();
        let mut is_whole = true;
        let begun = comments.into_iter().take_while(|_| {
            is_whole = self.job.stop.reason().is_none();
            is_whole
        });
        let reconciled = stream::iter(begun).map(|(id, places)| {
            let reconciler = &reconciler;
            // Boxed, so that the types of the futures of all who call this do not nest too deeply for the compiler.
            let reconciling: BoxFuture<'_, Result<(CommentId, State), RepairError>> = Box::pin(async move {
                let reconciled = reconciler.reconcile(&id, &places, scope).await?;
                self.add_reconciled(&id, &reconciled);
                Ok((id, reconciled.state))
            });
            reconciling
        });
        let states = reconciled.buffer_unordered(self.job.settings.concurrency.max(1)).try_collect().await?;
        Ok(AllReconciled { states, is_whole })
    }

    /// Adds what was found of a comment. One that is found a second time, by another way, is counted once: it is left as
    /// it was by a dry run, and unresolved by any.
    fn add_reconciled(&self, id: &CommentId, reconciled: &Reconciled) {
        let Reconciled { state, mended, left } = reconciled;
        let is_noteworthy = !left.is_empty() || matches!(state, State::Unresolved(_));
        if is_noteworthy {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            if counted.contains(id) {
                return;
            }
            if counted.len() < COUNTED_MAX {
                counted.insert(id.clone());
            }
        }
        let count = |drift: &[Drift]| u64::try_from(drift.len()).unwrap_or(u64::MAX);
        {
            let mut report = self.report();
            report.drifted_comments += u64::from(!mended.is_empty() || !left.is_empty());
            for drift in mended.iter().chain(left) {
                *report.drifted.entry(drift.kind()).or_default() += 1;
            }
            report.mended += count(mended);
            report.left += count(left);
        }
        for (drift, what) in
            mended.iter().map(|drift| (drift, "mended")).chain(left.iter().map(|drift| (drift, "found")))
        {
            tracing::info!(comment = %id, %drift, "{what}");
        }
        match state {
            State::Settled => {}
            State::Unresolved(what) => self.add_unresolved(what.clone()),
            State::KeepsChanging => {
                self.add_skipped(format!("comment {id} keeps changing; its last change is in the journal"));
            }
            State::IndexAway(error) => {
                self.add_skipped(format!("comment {id}: its entries in the page index, because {error}"));
            }
        }
    }
}

/// A failure of the page index that only keeps its part of the work from being done.
pub(crate) fn index_is_away(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable { store, .. } | StoreError::Refused { store, .. } => *store == stores::Store::PageIndex,
        StoreError::Rejected { .. } | StoreError::Malformed(_) => false,
    }
}
