//! The runner: a job over its stores, and one run of it with its lease, its budget, its report and
//! its progress.
//!
//! **Invariant:** a dry run (without `--apply`) takes no lease and writes nothing at all.

pub(crate) mod columns;
pub(crate) mod lease;
pub(crate) mod ledger;
pub(crate) mod outcome;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod settings;
pub(crate) mod unresolved;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use model::Timestamp;
use page_index::PageIndex;
use process::{Remedy, Stop, StopReason, Store, StoreError, now};
use table::{Table, capacity::Meter};
use tokio::time::Instant;

use crate::run::{
    lease::{describe, hold_lease},
    ledger::Ledger,
    progress::Progress,
    report::{LastRun, Report, Stopped},
    settings::JobSettings,
};

pub(crate) const RUN: &str = "run";

#[derive(Debug, Clone)]
pub struct Job {
    pub(crate) table: Table,
    pub(crate) index: PageIndex,
    pub(crate) settings: JobSettings,
    pub(crate) stop: Stop,
    pub(crate) progress: Progress,
    meter: Arc<Meter>,
}

pub(crate) struct Run<'job> {
    pub(crate) job: &'job Job,
    pub(crate) began: Timestamp,
    pub(crate) ledger: Ledger,
    /// Whether a store has failed, which is a [`StopReason`].
    has_failed: AtomicBool,
}

impl Job {
    pub fn new(table: Table, index: PageIndex, settings: JobSettings, stop: Stop) -> Self {
        let meter = Meter::new(settings.max_read_units, settings.max_write_units);
        let meter = Arc::new(meter.until(&stop));
        let table = table.metered(Arc::clone(&meter)).written_by("repair job");
        Self {
            table,
            index,
            settings,
            stop,
            progress: Progress::default(),
            meter,
        }
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Does some work and reports. A run that repairs holds the lease, if there is one, and stores
    /// its record.
    pub(crate) async fn run(
        &self,
        command: &str,
        lease: Option<&str>,
        work: impl AsyncFnOnce(&Run<'_>) -> Result<(), StoreError>,
    ) -> Report {
        let began_at = Instant::now();
        let before = self.meter.consumed();
        let run = Run {
            job: self,
            began: now(),
            ledger: Ledger::new(command, self.settings.apply),
            has_failed: AtomicBool::new(false),
        };
        let work = async {
            let outcome = work(&run).await;
            if lease.is_some() {
                run.store_record(command, outcome).await
            } else {
                outcome
            }
        };
        let ended = match lease {
            Some(scope) if self.settings.apply => {
                let lasting = self.settings.lease;
                hold_lease(&self.table, scope, lasting, run.began, &self.stop, work).await
            }
            Some(_) | None => work.await.map(|()| None),
        };
        let consumed = self.meter.consumed();
        let mut report = run.ledger.into_report();
        match &ended {
            Ok(Some(holder)) => report.held_by = Some(describe(holder)),
            Ok(None) if report.stopped.is_none() => self.progress.finish(),
            Ok(None) => {}
            Err(error) => {
                report.is_refused = error.remedy() == Remedy::CallOperator;
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
    async fn store_record(
        &self,
        command: &str,
        outcome: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if !self.may_remember() {
            return outcome;
        }
        let table = &self.job.table;
        let record = {
            let report = self.ledger.report();
            LastRun {
                command: report.command.clone(),
                began: self.began,
                ended: now(),
                exit_code: report.exit_code() | u8::from(outcome.is_err()),
                checked: report.checked,
                repaired: report.repaired,
                unresolved: report.unresolved_count,
            }
        };
        let comments = self.ledger.unresolved_comments();
        let remembered = unresolved::remember(table, self.began, comments).await;
        let recorded = table.put_state(RUN, command, &record).await;
        outcome.and(remembered).and(recorded)
    }

    /// Why the run must stop, if so. Finders and repairs ask only this before they
    /// begin something.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        let failure = if self.has_failed.load(Ordering::Relaxed) {
            Some(StopReason::StoreFailed)
        } else {
            None
        };
        self.job.stop.reason().max(failure)
    }

    /// Why even work under way must end, if so. A failed store does not count: that work completes.
    pub(crate) fn interruption(&self) -> Option<StopReason> {
        self.stop_reason()
            .filter(|reason| *reason != StopReason::StoreFailed)
    }

    /// Whether the run must stop. If so, the report says where the next run resumes. A failed store
    /// is the report's failure instead.
    pub(crate) fn must_stop(&self, resumes: &str) -> bool {
        let Some(reason) = self.stop_reason() else {
            return false;
        };
        if reason != StopReason::StoreFailed {
            self.ledger.report().stopped.get_or_insert_with(|| Stopped {
                reason,
                resumes: resumes.to_owned(),
            });
        }
        true
    }

    /// Makes the failure of a store a reason to stop.
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Whether the run may store its position. A dry run may not. Nor may a run that lost its
    /// lease, because another run may be at work by now.
    pub(crate) fn may_remember(&self) -> bool {
        self.job.settings.apply && self.stop_reason() != Some(StopReason::LeaseLost)
    }

    pub(crate) fn add_checked(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.ledger.report().checked += count;
        self.job.progress.add(count);
    }
}

/// Whether only the page index prevents something.
pub(crate) fn index_is_away(error: &StoreError) -> bool {
    match error {
        StoreError::Call { remedy, store, .. } => {
            *store == Store::PageIndex && *remedy != Remedy::Quarantine
        }
        StoreError::Malformed(_) => false,
    }
}

/// The answer of the page index, or why only its part of the work cannot be done.
pub(crate) enum IndexAnswer<T> {
    Answered(T),
    Away(StoreError),
}

/// Separates a page index that is away from every other error.
///
/// # Errors
/// Every other error.
pub(crate) fn answer_of_index<T>(
    answer: Result<T, StoreError>,
) -> Result<IndexAnswer<T>, StoreError> {
    match answer {
        Ok(answer) => Ok(IndexAnswer::Answered(answer)),
        Err(error) if index_is_away(&error) => Ok(IndexAnswer::Away(error)),
        Err(error) => Err(error),
    }
}
