//! The repair job's `recent` and `audit` on a schedule. In a deployment one function does both. It runs `recent` every
//! five minutes, and every hour `recent`, the quarantine and the part of the audit that is due.
//!
//! `recent` and the index keeper use the page index independently. `recent` looks only at partitions that have a
//! marker. It advances a watermark only if the marker is unchanged since it was read. A rebuild removes the markers
//! when it begins.

use std::time::Duration;

use page_index::PageIndex;
use process::{StoreError, now};
use repair_job::{AuditOptions, Job, JobSettings, Report, Stop, exit};
use table::Table;
use tokio::time::Instant;

/// The table is read as one segment, because the engine has one connection, and sorts the whole table for each answer
/// of a parallel scan.
const AUDIT_SEGMENTS: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSchedule {
    /// The interval from the first look at the page index, or from the end of an audit, to the next one.
    pub every: Duration,
    /// The pause after a long audit is this many times as long as the audit, if that is more than `every`.
    pub rest_factor: u32,
}

impl AuditSchedule {
    /// Audits at this interval or less often: they take at most 0.5 % of the time, also of a stack with nothing to do.
    pub fn every(every: Duration) -> Self {
        Self { every, rest_factor: 200 }
    }
}

/// Sets the first watermark of a new table, so that `recent` does not look for entries from before the table existed.
pub(crate) async fn begin_watermark(table: &Table) -> Result<(), StoreError> {
    if table.watermark().await?.is_none() && table.scan_segment(None, 0, 1, 1).await?.read == 0 {
        table.advance_watermark(now()).await?;
    }
    Ok(())
}

/// Ends the leases of the repair job. The caller has the only engine on the table, so runs of the last stack have
/// ended. A run of another process that has survived stops when it finds its lease gone.
pub async fn release_leases(table: &Table) -> Result<(), StoreError> {
    for (scope, lease) in table.leases().await? {
        table.release_lease(&scope, &lease.holder).await?;
    }
    Ok(())
}

/// Runs `recent` at an interval and audits on a schedule, if they are asked for, until it is dropped. Begins when the stack
/// has `started`.
pub(crate) async fn on_schedule(
    table: Table,
    index: PageIndex,
    started: impl Future<Output = ()>,
    repair_every: Option<Duration>,
    of_audit: Option<AuditSchedule>,
) {
    started.await;
    let repairs = async {
        if let Some(every) = repair_every {
            repair(&table, &index, every).await;
        }
    };
    let audits = async {
        if let Some(schedule) = of_audit {
            audit(&table, &index, schedule).await;
        }
    };
    tokio::join!(repairs, audits);
}

/// Runs `recent` until it is dropped.
async fn repair(table: &Table, index: &PageIndex, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        log(&job(table, index).recent().await);
    }
}

/// Audits the table and the page index until it is dropped.
async fn audit(table: &Table, index: &PageIndex, schedule: AuditSchedule) {
    let options = AuditOptions { segments: AUDIT_SEGMENTS, at_once: 1, ..AuditOptions::default() };
    let mut rest = schedule.every;
    loop {
        tokio::time::sleep(rest).await;
        let begun = Instant::now();
        log(&Box::pin(job(table, index).audit(options)).await);
        rest = schedule.every.max(begun.elapsed().saturating_mul(schedule.rest_factor));
    }
}

pub(crate) fn job(table: &Table, index: &PageIndex) -> Job {
    let settings = JobSettings { apply: true, ..JobSettings::default() };
    Job::new(table.clone(), index.clone(), settings, Stop::default())
}

fn log(report: &Report) {
    if report.exit_code() & (exit::FAILURE | exit::UNRESOLVED) != 0 {
        tracing::warn!(%report, "the repair job needs a person to look");
    } else if let Some(holder) = &report.held_by {
        // `pagemark repair` may be at work.
        tracing::info!(command = report.command, holder, "another run of the repair job is in progress");
    } else if report.repaired > 0 {
        tracing::info!(command = report.command, repaired = report.repaired, "the repair job has repaired differences");
    }
}
