//! The repair job's `recent` on a schedule, as a deployment has it every hour.
//!
//! It and the index keeper share the page index without knowing of each other: `recent` looks only at partitions that
//! have a marker, and moves a watermark on only if nobody has touched the marker since; a rebuild takes the markers away
//! when it begins.

use std::time::Duration;

use repair_job::{Job, JobSettings, SETTLE_DELAY, Stop, exit};
use stores::{PageIndex, StoreError, Table, capacity::Meter, now, table::ScanOf};

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

/// Sets the first watermark of a table that is new: `recent` need not look for entries that nobody wrote.
pub(crate) async fn begin_watermark(table: &Table) -> Result<(), StoreError> {
    if table.watermark().await?.is_none() && table.scan_segment(ScanOf::Everything, None, 0, 1, 1).await?.read == 0 {
        table.advance_watermark(now()).await?;
    }
    Ok(())
}

/// Runs until it is dropped.
pub(crate) async fn repair(table: Table, index: PageIndex, schedule: RepairSchedule) {
    let settings = JobSettings {
        apply: true,
        settle: schedule.settle,
        // The stack's index does not grow old: see `stack`.
        index_max_age: Duration::MAX,
        ..JobSettings::default()
    };
    loop {
        tokio::time::sleep(schedule.every).await;
        let job = Job::new(table.clone(), index.clone(), settings.clone(), Meter::default(), Stop::default());
        let report = job.recent().await;
        if report.exit_code() & (exit::FAILURE | exit::UNRESOLVED | exit::HELD) != 0 {
            tracing::warn!(%report, "the repair job needs somebody to look");
        } else if report.mended > 0 {
            tracing::info!(mended = report.mended, "the repair job has mended differences");
        }
    }
}
