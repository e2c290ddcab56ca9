//! `status`: readiness, watermarks, last runs, coverage of the audit, leases, open quarantine. It
//! only reads.

use std::fmt::{self, Write};

use functions::Quarantine;
use model::Timestamp;
use page_index::{IndexScanPosition, NotReady, PageIndex};
use process::{StoreError, now};
use serde::{Deserialize, Serialize};
use table::Lease;

use crate::{
    commands::{
        audit_plan::{EVERY, state_name},
        quarantine::LISTED_MAX,
    },
    find::journal::oldest_entry,
    run::{Job, RUN, answer_of_index, lease::describe, report::LastRun, settings::ms},
    state::checkpoint::{INDEX_SCAN, POSITION, ScanState, segment_states},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexStatus {
    pub ready: usize,
    /// Partitions that are not ready, because their last confirmation is too old, was taken away,
    /// or never happened.
    pub stale: usize,
    /// Partitions without a marker of this table.
    pub unmarked: usize,
    pub oldest_watermark: Option<Timestamp>,
    pub oldest_confirmation: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    pub index: Result<IndexStatus, String>,
    pub duplicates_watermark: Option<Timestamp>,
    pub journal_reaches_back: bool,
    pub last_runs: Vec<LastRun>,
    pub segments: u32,
    /// The share of segments checked in the last week, from 0 to 1. A check counts when its pass
    /// began in that week.
    pub audited_share: f64,
    /// The beginning of the last completed scan of the page index, which found everything that was
    /// wrong there by then. Before a scan completes: the beginning of the first scan.
    pub index_scanned_since: Option<Timestamp>,
    pub running: Vec<(String, String)>,
    /// Batches in quarantine; `None` when the place is not configured.
    pub quarantined: Option<usize>,
}

impl Job {
    /// The state of everything. `segments` is the number with which the audit runs.
    pub async fn status(
        &self,
        segments: u32,
        quarantine: Option<&Quarantine>,
    ) -> Result<JobStatus, StoreError> {
        let (table, present) = (&self.table, now());
        let table_id = table.describe().await?.id;
        let watermark = table.watermark().await?;
        let runs: Vec<(String, LastRun)> = table.states(RUN).await?;
        let leases: Vec<(String, Lease)> = table.leases().await?;
        let audited = segment_states(table, &table_id).await?;
        let segments = segments.max(1);
        let is_covered = |segment: &u32| {
            let last_began = audited
                .get(&state_name(*segment, segments))
                .and_then(|state| state.last_began);
            last_began.is_some_and(|began| (present.plus_ms(-ms(EVERY))..=present).contains(&began))
        };
        let covered = (0..segments).filter(is_covered).count();
        let index_scan: Option<ScanState<IndexScanPosition>> =
            table.state(INDEX_SCAN, POSITION).await?;
        let quarantined = match quarantine {
            Some(quarantine) => Some(quarantine.list(None, LISTED_MAX).await?.len()),
            None => None,
        };
        Ok(JobStatus {
            index: index_status(&self.index, &table_id, present).await?,
            duplicates_watermark: watermark,
            journal_reaches_back: watermark
                .is_none_or(|watermark| watermark >= oldest_entry(present)),
            last_runs: runs.into_iter().map(|(_, run)| run).collect(),
            segments,
            audited_share: f64::from(u32::try_from(covered).unwrap_or(u32::MAX))
                / f64::from(segments),
            index_scanned_since: index_scan.and_then(|scan| scan.last_began.or(scan.first_began)),
            running: leases
                .into_iter()
                .filter(|(_, lease)| lease.until_ms >= present.epoch_ms())
                .map(|(scope, lease)| (scope, describe(&lease)))
                .collect(),
            quarantined,
        })
    }
}

async fn index_status(
    index: &PageIndex,
    table_id: &str,
    present: Timestamp,
) -> Result<Result<IndexStatus, String>, StoreError> {
    let asked = async {
        Ok((
            index.readiness(table_id, present).await?,
            index.marks(table_id).await?,
        ))
    };
    let answer = answer_of_index(asked.await)?;
    Ok(answer
        .map_err(|error| error.to_string())
        .map(|(readiness, marks)| {
            let is_stale = |not: &NotReady| matches!(not, NotReady::Stale { .. });
            let ready = readiness
                .iter()
                .filter(|(_, answer)| answer.is_ok())
                .count();
            let stale = readiness
                .iter()
                .filter(|(_, answer)| answer.as_ref().is_err_and(is_stale))
                .count();
            IndexStatus {
                ready,
                stale,
                unmarked: readiness.len() - ready - stale,
                oldest_watermark: marks.iter().map(|(_, mark)| mark.watermark).min(),
                oldest_confirmation: marks.iter().filter_map(|(_, mark)| mark.confirmed).min(),
            }
        }))
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| at.to_string());
        let mut text = String::new();
        match &self.index {
            Ok(index) => writeln!(
                text,
                "page index:   {} partitions ready, {} not confirmed, {} without a marker; oldest confirmation {}, oldest watermark {}",
                index.ready,
                index.stale,
                index.unmarked,
                instant(index.oldest_confirmation),
                instant(index.oldest_watermark)
            )?,
            Err(error) => writeln!(text, "page index:   {error}")?,
        }
        let reaches = if self.journal_reaches_back {
            ""
        } else {
            ": the journal does not reach back to it"
        };
        writeln!(
            text,
            "duplicates:   watermark {}{reaches}",
            instant(self.duplicates_watermark)
        )?;
        writeln!(
            text,
            "audit:        {:.1} % of {} segments checked in the last week; scan of the page index begun: {}",
            self.audited_share * 100.0,
            self.segments,
            instant(self.index_scanned_since)
        )?;
        match self.quarantined {
            Some(count) => writeln!(text, "quarantine:   {count} batches")?,
            None => writeln!(text, "quarantine:   not configured (PAGEMARK_QUARANTINE)")?,
        }
        for (scope, who) in &self.running {
            writeln!(text, "in progress:  {scope}: {who}")?;
        }
        for run in &self.last_runs {
            writeln!(
                text,
                "last {:<10} ended {}, exit code {}, {} checked, {} repaired, {} unresolved",
                run.command, run.ended, run.exit_code, run.checked, run.repaired, run.unresolved
            )?;
        }
        f.write_str(text.trim_end())
    }
}
