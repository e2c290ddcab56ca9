//! The runner: a job over its stores, and one run of it with its lease, its budget, its report and its progress.
//!
//! **Invariant:** a dry run (without `--apply`) takes no lease and writes nothing at all.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{StreamExt, future::BoxFuture, stream};
use model::{
    CommentId, Timestamp,
    plan::reconcile::{Drift, Places},
};
use page_index::PageIndex;
use process::{Remedy, StoreError, now};
use table::{Table, capacity::Meter};
use tokio::time::Instant;

use crate::{
    index_snapshot::{IndexScope, Scope},
    lease::hold_lease,
    ledger::Ledger,
    outcome::{Outcome, State},
    progress::Progress,
    repair::Repairer,
    report::{LastRun, Report, Stopped},
    settings::JobSettings,
    stop::{Stop, StopReason},
    suspect::{Name, Suspects},
    unresolved,
};

/// Number of lock stripes. Two comments of one stripe wait for each other, so this should exceed the concurrency.
const STRIPES: usize = 64;

/// The kind of state that records the last run of a command.
pub(crate) const RUN: &str = "run";

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

/// A run that is under way.
pub(crate) struct Run<'job> {
    pub(crate) job: &'job Job,
    pub(crate) began: Timestamp,
    pub(crate) ledger: Ledger,
    /// Only one task at a time repairs a comment. So a difference that two parts of the run find is repaired, and
    /// counted, once.
    stripes: Vec<tokio::sync::Mutex<()>>,
    /// A part of the run has failed. Work under way completes, and nothing new begins.
    has_failed: AtomicBool,
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

    /// Does some work and reports. A run that repairs holds the lease of `scope`, if there is one, and stores its
    /// record.
    pub(crate) async fn run(
        &self,
        command: &str,
        scope: Option<&str>,
        work: impl AsyncFnOnce(&Run<'_>) -> Result<(), StoreError>,
    ) -> Report {
        let (began_at, before) = (Instant::now(), self.meter.consumed());
        let run = Run {
            job: self,
            began: now(),
            ledger: Ledger::new(command, self.settings.apply),
            stripes: (0..STRIPES).map(|_| tokio::sync::Mutex::default()).collect(),
            has_failed: AtomicBool::new(false),
        };
        let work = async {
            let outcome = work(&run).await;
            if run.ledger.has_left_out() {
                run.must_stop("the next run checks what was left out");
            }
            outcome
        };
        let outcome = match scope.filter(|_| self.settings.apply) {
            None => work.await,
            Some(scope) => {
                let work = async {
                    let outcome = work.await;
                    run.store_record(command, outcome).await
                };
                match hold_lease(&self.table, scope, self.settings.lease, run.began, &self.stop, work).await {
                    Ok(holder) => {
                        holder.iter().for_each(|holder| run.ledger.report().hold(holder));
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
        };
        let consumed = self.meter.consumed();
        let mut report = run.ledger.into_report();
        match outcome {
            Ok(()) if report.stopped.is_none() && report.held_by.is_none() => self.progress.finish(),
            Ok(()) => {}
            Err(error) => {
                tracing::error!(command, %error, "the run failed");
                report.failure = Some(error.to_string());
            }
        }
        report.read_units = consumed.read - before.read;
        report.write_units = consumed.write - before.write;
        report.seconds = began_at.elapsed().as_secs_f64();
        report
    }
}

impl Run<'_> {
    /// Stores what the run did and the comments that it could not resolve.
    async fn store_record(&self, command: &str, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        if !self.may_remember() {
            return outcome;
        }
        let table = &self.job.table;
        let record = LastRun::of(&self.ledger.report(), self.began, now(), outcome.is_err());
        let remembered = unresolved::remember(table, self.began, self.ledger.unresolved_comments()).await;
        let recorded = table.put_state(RUN, command, &record).await;
        outcome.and(remembered).and(recorded)
    }

    /// Whether the run must stop. If so, the report says where the next run resumes.
    pub(crate) fn must_stop(&self, resumes: &str) -> bool {
        let Some(reason) = self.job.stop.reason() else { return false };
        self.ledger.report().stopped.get_or_insert_with(|| Stopped { reason, resumes: resumes.to_owned() });
        true
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
        self.ledger.report().checked += count;
        self.job.progress.add(count);
    }

    /// Repairs suspects in parallel. When the run must stop, the rest is skipped.
    ///
    /// # Errors
    /// A store's. Work that was under way has then completed and is reported. The rest is skipped.
    pub(crate) async fn repair_all(&self, suspects: Suspects, scope: &Scope<'_>) -> Result<Outcome, StoreError> {
        // Before the comments: a comment's repair may use an empty name again.
        self.repair_names(suspects.names, scope).await?;
        let repairing = stream::iter(suspects.comments).map(|(id, places)| {
            // Boxed, so that the future types of all callers do not nest too deeply for the compiler.
            let repairing: BoxFuture<'_, _> = Box::pin(async move {
                let state = self.repair(&id, &places, scope).await;
                (id, state)
            });
            repairing
        });
        let mut repaired = pin!(repairing.buffer_unordered(self.job.settings.concurrency.max(1)));
        let (mut states, mut failure) = (Vec::new(), None);
        while let Some((id, state)) = repaired.next().await {
            match state {
                Ok(state) => states.push((id, state)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Outcome { states }), Err)
    }

    /// Repairs one comment, and counts the result.
    async fn repair(&self, id: &CommentId, places: &Places, scope: &Scope<'_>) -> Result<State, StoreError> {
        let stripe = BuildHasherDefault::<DefaultHasher>::default().hash_one(id) % STRIPES as u64;
        let _alone = match usize::try_from(stripe).ok().and_then(|stripe| self.stripes.get(stripe)) {
            Some(stripe) => Some(stripe.lock().await),
            None => None,
        };
        if self.has_failed() {
            return Ok(State::LeftOut("the run has failed".to_owned()));
        }
        let Job { table, index, settings, stop, .. } = self.job;
        let mut repaired = Repairer { table, index, apply: settings.apply, stop }.repair(id, places, scope).await;
        match &repaired.state {
            // The stop cut the comment's time short.
            Err(error) if error.is_unavailable() && stop.reason().is_some() => {
                repaired.state = Ok(State::LeftOut(error.to_string()));
            }
            Err(_) => self.fail(),
            Ok(_) => {}
        }
        self.ledger.add_repaired(id, places, &repaired, stop.reason().is_some());
        repaired.state
    }

    /// Removes names that no comment has from the page index.
    async fn repair_names(&self, names: BTreeSet<Name>, scope: &Scope<'_>) -> Result<(), StoreError> {
        let index = &self.job.index;
        let IndexScope::Snapshot(snapshot) = scope.index else {
            debug_assert!(names.is_empty(), "only a scan of the page index finds names");
            return Ok(());
        };
        if names.is_empty() {
            return Ok(());
        }
        snapshot.assert_current(index, names.iter().map(|(product, _)| product)).await?;
        for (product, language) in names {
            if self.job.settings.apply {
                match index.forget_if_empty(&product, language.as_ref()).await {
                    Err(error) if error.remedy() == Remedy::Quarantine => {
                        self.ledger.add_unreadable_product(&product, &error);
                        continue;
                    }
                    forgotten => forgotten?,
                }
            }
            self.ledger.add_drift(&Drift::ExtraName(product, language));
        }
        Ok(())
    }
}
