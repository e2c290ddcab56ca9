//! The repair job's `recent` and `audit` on a schedule. In a deployment one function does both. It
//! runs `recent` every five minutes, and every hour `recent`, the quarantine and the part of the
//! audit that is due.
//!
//! `recent` and the index keeper use the page index independently. `recent` looks only at
//! partitions that have a marker. It advances a watermark only if the marker is unchanged since it
//! was read. A rebuild removes the markers when it begins.

use std::time::Duration;

use page_index::PageIndex;
use process::{StoreError, now};
use repair_job::{AuditOptions, Job, JobSettings, Report, Stop, exit};
use table::Table;
use tokio::time::Instant;

use crate::settings::StackSettings;

/// The table is read as one segment, because the engine has one connection, and sorts the whole
/// table for each answer of a parallel scan.
const AUDIT_SEGMENTS: u32 = 1;

/// Sets the first watermark of a new table, so that `recent` does not look for entries from before
/// the table existed.
pub(crate) async fn begin_watermark(table: &Table) -> Result<(), StoreError> {
    if table.watermark().await?.is_none()
        && table.scan_segment(None, 0, 1, 1).await?.rows.is_empty()
    {
        table.advance_watermark(now()).await?;
    }
    Ok(())
}

/// Ends the leases of the repair job. The caller has the only engine on the table, so runs of the
/// last stack have ended. A surviving run in a different process stops when it finds its lease
/// gone.
pub async fn release_leases(table: &Table) -> Result<(), StoreError> {
    for (scope, lease) in table.leases().await? {
        table.release_lease(&scope, &lease.holder).await?;
    }
    Ok(())
}

/// Runs `recent` and audits at the intervals of the settings, until it is dropped. Begins when the
/// stack has `started`.
pub(crate) async fn on_schedule(
    table: Table,
    index: PageIndex,
    started: impl Future<Output = ()>,
    settings: StackSettings,
) {
    started.await;
    tokio::join!(
        repeat(settings.repair_every, 0, || recent(&table, &index)),
        repeat(settings.audit_every, settings.audit_rest_factor, || audit(
            &table, &index
        ))
    );
}

async fn recent(table: &Table, index: &PageIndex) -> Report {
    job(table, index).recent().await
}

async fn audit(table: &Table, index: &PageIndex) -> Report {
    let options = AuditOptions {
        segments: AUDIT_SEGMENTS,
        at_once: 1,
        ..AuditOptions::default()
    };
    Box::pin(job(table, index).audit(options)).await
}

/// Repeats a run at an interval, unless it is zero. The pause after a long run is `rest_factor`
/// times as long as the run.
async fn repeat<Run: Future<Output = Report>>(
    every: Duration,
    rest_factor: u32,
    run: impl Fn() -> Run,
) {
    if every.is_zero() {
        return std::future::pending().await;
    }
    let mut rest = every;
    loop {
        tokio::time::sleep(rest).await;
        let begun = Instant::now();
        log(&run().await);
        rest = every.max(begun.elapsed().saturating_mul(rest_factor));
    }
}

pub(crate) fn job(table: &Table, index: &PageIndex) -> Job {
    let settings = JobSettings {
        apply: true,
        ..JobSettings::default()
    };
    Job::new(table.clone(), index.clone(), settings, Stop::default())
}

fn log(report: &Report) {
    if report.exit_code() & (exit::FAILURE | exit::UNRESOLVED) != 0 {
        tracing::warn!(%report, "the repair job needs a person to look");
    } else if let Some(holder) = &report.held_by {
        // `pagemark repair` may be at work.
        tracing::info!(
            command = report.command,
            holder,
            "another run of the repair job is in progress"
        );
    } else if report.repaired > 0 {
        tracing::info!(
            command = report.command,
            repaired = report.repaired,
            "the repair job has repaired differences"
        );
    }
}
