//! One run of the job: its settings, its lease and its totals.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream};
use model::{
    CommentId, Timestamp,
    plan::reconcile::{Drift, Places},
};
use page_index::PageIndex;
use process::{StoreError, now};
use serde::{Deserialize, Serialize};
use table::{
    Lease, Table,
    capacity::{Meter, Units},
};
use tokio::time::Instant as Clock;

use crate::{
    counted::Counted,
    error::RepairError,
    progress::Progress,
    reconcile::{Reconciled, Reconciler, Scope, State},
    report::{Report, Stopped},
    stop::{Stop, StopReason},
    unresolved,
};

/// Minimum age of journal entries at which their window is complete. It exceeds the time of a write (30 s, see
/// `table/src/writer.rs`), plus clock differences between writers and the delay of a page-index edit
/// (`reconcile`).
pub const SETTLE_DELAY: Duration = Duration::from_secs(60);

/// How much of the time already reconciled is reconciled again.
pub const OVERLAP: Duration = Duration::from_secs(300);

/// Maximum lag of the page indexer at which the job still vouches for the page index. The lag's alarm comes first: it
/// fires when records are 5 minutes old for a quarter of an hour.
pub const INDEXER_LAG: Duration = Duration::from_secs(900);

/// Interval between two vouches of a run for the page index. The run notices within this time that Redis was restored
/// or taken over.
pub const VOUCH_EVERY: Duration = Duration::from_secs(60);

/// Lifetime of a lease that is not renewed. A killed run keeps others away for this long.
pub const LEASE: Duration = Duration::from_secs(60);

/// Number of lock stripes. Must exceed the concurrency.
const LANES: usize = 64;

/// The kind of state that records the last run of a command.
pub(crate) const RUN: &str = "run";

/// Settings of a job.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// Whether the job repairs differences. A dry run takes no lease and stores nothing.
    pub apply: bool,
    /// See [`SETTLE_DELAY`].
    pub settle: Duration,
    /// See [`OVERLAP`].
    pub overlap: Duration,
    /// See [`LEASE`].
    pub lease: Duration,
    /// Number of comments reconciled in parallel.
    pub concurrency: usize,
    /// See [`INDEXER_LAG`].
    pub indexer_lag: Duration,
    /// See [`VOUCH_EVERY`].
    pub vouch_every: Duration,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            apply: false,
            settle: SETTLE_DELAY,
            overlap: OVERLAP,
            lease: LEASE,
            concurrency: 8,
            indexer_lag: INDEXER_LAG,
            vouch_every: VOUCH_EVERY,
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

/// The stored record of a command's last run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) began: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) exit_code: u8,
    pub(crate) checked: u64,
    pub(crate) mended: u64,
    pub(crate) unresolved: u64,
    pub(crate) read_units: f64,
    pub(crate) write_units: f64,
}

/// A run that is under way.
pub(crate) struct Run<'job> {
    pub(crate) job: &'job Job,
    pub(crate) began: Timestamp,
    /// Units consumed before the run began.
    before: Units,
    report: Mutex<Report>,
    counted: Mutex<Counted>,
    /// Lock stripes. Only one task at a time reconciles a comment, so a difference that two parts of the run find is
    /// repaired, and counted, once.
    lanes: Vec<tokio::sync::Mutex<()>>,
    /// A part of the run has failed. Work under way completes, and nothing new begins.
    has_failed: AtomicBool,
    /// Comments were skipped because the run had to stop.
    has_left_out: AtomicBool,
}

impl Job {
    /// A job. `meter` counts and limits the units that it consumes; `stop` ends it.
    pub fn new(table: Table, index: PageIndex, settings: JobSettings, meter: Meter, stop: Stop) -> Self {
        let meter = Arc::new(meter.until(stop.interrupt()));
        let table = table.metered(Arc::clone(&meter));
        Self { table, index, settings, stop, progress: Progress::default(), meter }
    }

    /// The job's progress.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Does some work under a lease and reports. Without `--apply`, it takes no lease.
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

    /// Does some work without a lease and reports.
    pub(crate) async fn without_lease(
        &self,
        command: &str,
        work: impl AsyncFnOnce(&Run<'_>) -> Result<(), RepairError>,
    ) -> Report {
        let (began, began_at) = (now(), Clock::now());
        let before = self.meter.consumed();
        let report = Report { command: command.to_owned(), apply: self.settings.apply, ..Report::default() };
        let run = Run {
            job: self,
            began,
            before,
            report: Mutex::new(report),
            counted: Mutex::default(),
            lanes: (0..LANES).map(|_| tokio::sync::Mutex::default()).collect(),
            has_failed: AtomicBool::new(false),
            has_left_out: AtomicBool::new(false),
        };
        let outcome = work(&run).await;
        run.say_what_was_left_out();
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
        let until = |at: Timestamp| at.epoch_ms() + i64::try_from(self.settings.lease.as_millis()).unwrap_or(i64::MAX);
        let mut lasts = Clock::now() + self.settings.lease;
        let lease = Lease { holder: process::new_ulid(), who: who(), since: run.began, until_ms: until(run.began) };
        if let Some(holder) = self.table.take_lease(scope, &lease, run.began).await? {
            run.report().hold(&holder);
            return Ok(());
        }
        let renewal = async {
            let every = self.settings.lease / 3;
            loop {
                let asked_at = lasts.min(Clock::now() + every);
                tokio::time::sleep_until(asked_at).await;
                let renewed = self.table.renew_lease(scope, &lease.holder, until(now()));
                match tokio::time::timeout_at(lasts, renewed).await {
                    Ok(Ok(true)) => {
                        lasts = asked_at + self.settings.lease;
                        continue;
                    }
                    Ok(Ok(false)) => {}
                    // The next try may still succeed in time.
                    Ok(Err(error)) if Clock::now() < lasts => {
                        tracing::warn!(scope, %error, "the lease was not renewed");
                        continue;
                    }
                    Ok(Err(_)) | Err(_) => tracing::warn!(scope, "the lease could not be renewed until its end"),
                }
                tracing::warn!(scope, "the lease is lost");
                self.stop.lose_lease();
                return std::future::pending::<()>().await;
            }
        };
        let outcome = tokio::select! {
            outcome = work(run) => outcome,
            () = renewal => Ok(()),
        };
        run.say_what_was_left_out();
        let record = {
            let report = run.report();
            RunRecord {
                began: run.began,
                ended: now(),
                exit_code: report.exit_code() | u8::from(outcome.is_err()),
                checked: report.checked,
                mended: report.mended,
                unresolved: report.unresolved_count,
                read_units: self.meter.consumed().read - run.before.read,
                write_units: self.meter.consumed().write - run.before.write,
            }
        };
        let remembered = match run.may_remember() {
            true => {
                let unresolved = unresolved::remember(run).await;
                let record = self.table.put_state(RUN, command, &record).await;
                unresolved.and(record.map_err(RepairError::from))
            }
            false => Ok(()),
        };
        let released = self.table.release_lease(scope, &lease.holder).await;
        outcome?;
        remembered?;
        Ok(released?)
    }

    pub(crate) fn reconciler(&self) -> Reconciler {
        Reconciler {
            table: self.table.clone(),
            index: self.index.clone(),
            apply: self.settings.apply,
            stop: self.stop.clone(),
        }
    }
}

/// Identifies this process for a person.
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

    /// Whether the run must stop. If so, the report says where the next run resumes.
    pub(crate) fn must_stop(&self, goes_on: impl FnOnce() -> String) -> bool {
        let Some(reason) = self.job.stop.reason() else { return false };
        let mut report = self.report();
        if report.stopped.is_none() {
            report.stopped = Some(Stopped { reason, goes_on: goes_on() });
        }
        true
    }

    /// Reports that the run stopped before its end, if comments were skipped for that reason and the report does not
    /// say so yet.
    fn say_what_was_left_out(&self) {
        if self.has_left_out.load(Ordering::Relaxed) {
            self.must_stop(|| "the next run looks at what was left out".to_owned());
        }
    }

    /// Whether a part of the run has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Lets work under way complete, and nothing new begin.
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Whether the run may store its position. A dry run may not. Nor may a run that lost its lease, because another
    /// run may be at work by now.
    pub(crate) fn may_remember(&self) -> bool {
        self.job.settings.apply && self.job.stop.reason() != Some(StopReason::LeaseLost)
    }

    /// Counts checked comments.
    pub(crate) fn add_checked(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.report().checked += count;
        self.job.progress.add(count);
    }

    /// Counts items read from a table of about `whole` items.
    pub(crate) fn add_items(&self, count: u64, whole: u64) {
        self.report().items += count;
        self.job.progress.add_items(count, whole);
    }

    pub(crate) fn add_unresolved(&self, what: String) {
        tracing::error!(what, "unresolved: a person has to look");
        self.report().add_unresolved(what);
    }

    /// The comments that need a person, with the reason and the places where each was looked for. When there are many,
    /// only some.
    pub(crate) fn unresolved_comments(&self) -> Vec<(CommentId, String, Places)> {
        self.counted().unresolved()
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_skipped(&self, what: String) {
        self.report().add_skipped(what);
    }

    pub(crate) fn add_note(&self, what: String) {
        self.report().notes.push(what);
    }

    /// Removes the differences repaired so far from the report.
    pub(crate) fn forget_drift(&self) {
        let mut report = self.report();
        report.drifted.clear();
        (report.drifted_comments, report.mended) = (0, 0);
    }

    /// Counts a difference that belongs to no comment.
    pub(crate) fn add_drift(&self, drift: &Drift) {
        let mut report = self.report();
        *report.drifted.entry(drift.kind()).or_default() += 1;
        match self.job.settings.apply {
            true => report.mended += 1,
            false => report.left += 1,
        }
    }

    /// Reconciles comments in parallel and returns the outcome of each. When the run must stop, the rest is skipped.
    ///
    /// # Errors
    /// A store's. Work that was under way has then completed and is reported. The rest is skipped.
    pub(crate) async fn reconcile_all(
        &self,
        comments: impl IntoIterator<Item = (CommentId, Places)>,
        scope: &Scope,
    ) -> Result<Vec<(CommentId, State)>, RepairError> {
        let reconciler = self.job.reconciler();
        let reconciled = stream::iter(comments).map(|(id, places)| {
            let reconciler = &reconciler;
            // Boxed, so that the future types of all callers do not nest too deeply for the compiler.
            let reconciling: BoxFuture<'_, (CommentId, Result<State, StoreError>)> = Box::pin(async move {
                let lane = BuildHasherDefault::<DefaultHasher>::default().hash_one(&id);
                let lane = usize::try_from(lane % LANES as u64).ok().and_then(|lane| self.lanes.get(lane));
                let _alone = match lane {
                    Some(lane) => Some(lane.lock().await),
                    None => None,
                };
                if self.has_failed() {
                    return (id, Ok(State::LeftOut("the run has failed".to_owned())));
                }
                let mut reconciled = reconciler.reconcile(&id, &places, scope).await;
                match &reconciled.state {
                    // The stop cut the comment's time short.
                    Err(error) if error.is_unavailable() && self.job.stop.reason().is_some() => {
                        reconciled.state = Ok(State::LeftOut(error.to_string()));
                    }
                    Err(_) => self.fail(),
                    Ok(_) => {}
                }
                self.add_reconciled(&id, &places, &reconciled);
                (id, reconciled.state)
            });
            reconciling
        });
        let mut reconciled = pin!(reconciled.buffer_unordered(self.job.settings.concurrency.max(1)));
        let (mut states, mut failure) = (Vec::new(), None);
        while let Some((id, state)) = reconciled.next().await {
            match state {
                Ok(state) => states.push((id, state)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(states), |error| Err(error.into()))
    }

    /// Adds the result for a comment. A remaining difference counts once, even when it is found in two ways; in a dry
    /// run, all differences remain. A comment that needs a person also counts once.
    fn add_reconciled(&self, id: &CommentId, places: &Places, reconciled: &Reconciled) {
        let mended = &reconciled.found.mended;
        let (left, was_counted) = self.counted().add_left(id, &reconciled.found.left);
        let count = |drift: &[Drift]| u64::try_from(drift.len()).unwrap_or(u64::MAX);
        {
            let mut report = self.report();
            report.drifted_comments += u64::from(!was_counted && (!mended.is_empty() || !left.is_empty()));
            for drift in mended.iter().chain(&left) {
                *report.drifted.entry(drift.kind()).or_default() += 1;
            }
            report.mended += count(mended);
            report.left += count(&left);
        }
        for (drift, what) in
            mended.iter().map(|drift| (drift, "mended")).chain(left.iter().map(|drift| (drift, "found")))
        {
            tracing::info!(comment = %id, %drift, "{what}");
        }
        match &reconciled.state {
            Ok(State::Settled) | Err(_) => {}
            Ok(State::Unresolved(what)) => {
                let is_new = self.counted().add_unresolved(id, what, places);
                is_new.then(|| self.add_unresolved(what.clone()));
            }
            Ok(State::KeepsChanging) => {
                self.add_skipped(format!("comment {id} keeps changing; its last change is in the journal"));
            }
            // `must_stop` reports this, or the end of the run does.
            Ok(State::LeftOut(_)) if self.job.stop.reason().is_some() => {
                self.has_left_out.store(true, Ordering::Relaxed);
            }
            Ok(State::LeftOut(why)) => self.add_skipped(format!("comment {id}: {why}")),
            Ok(State::IndexAway(error)) => {
                self.add_skipped(format!("comment {id}: its entries in the page index, because {error}"));
            }
        }
    }
}

/// How many comments were checked, with or without the page index.
pub(crate) fn looked_at(states: &[(CommentId, State)]) -> usize {
    states.iter().filter(|(_, state)| !matches!(state, State::LeftOut(_))).count()
}

/// Whether the page index failed in a way that prevents only its part of the work.
pub(crate) fn index_is_away(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable { store, .. } | StoreError::Refused { store, .. } => {
            *store == process::Store::PageIndex
        }
        StoreError::Rejected { .. } | StoreError::Malformed(_) => false,
    }
}
