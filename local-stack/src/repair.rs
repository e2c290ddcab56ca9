//! The repair job's `recent` and `audit` on a schedule. In a deployment one function does both: `recent` every five minutes, and
//! everything every hour.
//!
//! `recent` and the index keeper share the page index without knowing of each other: `recent` looks only at partitions that
//! have a marker, and moves a watermark on only if nobody has touched the marker since; a rebuild takes the markers away
//! when it begins.

use std::time::{Duration, Instant};

use repair_job::{AuditOptions, Job, JobSettings, Report, SETTLE_DELAY, Stop, exit};
use stores::{PageIndex, StoreError, Table, capacity::Meter, now, table::ScanOf};

/// The table is read in one go: the engine has one connection, and sorts the whole table for each answer of a parallel scan.
const AUDIT_SEGMENTS: u32 = 1;

/// When `recent` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairSchedule {
    /// Between two runs.
    pub every: Duration,
    /// How long ago an entry of the journal must be to be looked at.
    pub settle: Duration,
}

impl RepairSchedule {
    /// Runs of the repair job as it is deployed, so often.
    pub fn every(every: Duration) -> Self {
        Self { every, settle: SETTLE_DELAY }
    }
}

/// When everything is audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSchedule {
    /// Between the start, or the end of an audit, and the next one.
    pub every: Duration,
    /// After an audit that took long, the next one waits this many times as long, if that is longer.
    pub rest_factor: u32,
}

impl AuditSchedule {
    /// Audits so often, or more seldom: they take at most 5 % of the time.
    pub fn every(every: Duration) -> Self {
        Self { every, rest_factor: 20 }
    }
}

/// Sets the first watermark of a table that is new: `recent` need not look for entries that nobody wrote.
pub(crate) async fn begin_watermark(table: &Table) -> Result<(), StoreError> {
    if table.watermark().await?.is_none() && table.scan_segment(ScanOf::Everything, None, 0, 1, 1).await?.read == 0 {
        table.advance_watermark(now()).await?;
    }
    Ok(())
}

/// Runs `recent` until it is dropped.
pub(crate) async fn repair(table: Table, index: PageIndex, schedule: RepairSchedule) {
    let settings = JobSettings { settle: schedule.settle, ..settings() };
    loop {
        tokio::time::sleep(schedule.every).await;
        log(&job(&table, &index, &settings).recent().await);
    }
}

/// Audits the table and the page index until it is dropped.
pub(crate) async fn audit(table: Table, index: PageIndex, schedule: AuditSchedule) {
    let options = AuditOptions { segments: AUDIT_SEGMENTS, at_once: 1, ..AuditOptions::default() };
    let mut rest = schedule.every;
    loop {
        tokio::time::sleep(rest).await;
        let begun = Instant::now();
        log(&Box::pin(job(&table, &index, &settings()).audit(options)).await);
        rest = schedule.every.max(begun.elapsed().saturating_mul(schedule.rest_factor));
    }
}

fn settings() -> JobSettings {
    JobSettings { apply: true, ..JobSettings::default() }
}

fn job(table: &Table, index: &PageIndex, settings: &JobSettings) -> Job {
    Job::new(table.clone(), index.clone(), settings.clone(), Meter::default(), Stop::default())
}

fn log(report: &Report) {
    if report.exit_code() & (exit::FAILURE | exit::UNRESOLVED) != 0 {
        tracing::warn!(%report, "the repair job needs somebody to look");
    } else if let Some(holder) = &report.held_by {
        // `pagemark repair` may be at work.
        tracing::info!(command = report.command, holder, "another run of the repair job is in progress");
    } else if report.mended > 0 {
        tracing::info!(command = report.command, mended = report.mended, "the repair job has mended differences");
    }
}
