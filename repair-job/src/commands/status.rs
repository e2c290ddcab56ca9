//! `status`: readiness, watermarks, last runs, coverage of the audit, leases, open quarantine. It
//! only reads.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

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
    run::{IndexAnswer, Job, RUN, answer_of_index, lease::describe, report::LastRun, settings::ms},
    state::checkpoint::{INDEX_SCAN, POSITION, ScanState, SegmentState, segment_states},
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
        let table = &self.table;
        let present = now();
        let table_id = table.describe().await?.id;
        let watermark = table.watermark().await?;
        let runs: Vec<(String, LastRun)> = table.states(RUN).await?;
        let leases: Vec<(String, Lease)> = table.leases().await?;
        let audited = segment_states(table, &table_id).await?;
        let segments = segments.max(1);
        let index_scan: Option<ScanState<IndexScanPosition>> =
            table.state(INDEX_SCAN, POSITION).await?;
        let quarantined = match quarantine {
            Some(quarantine) => Some(quarantine.list(None, LISTED_MAX).await?.len()),
            None => None,
        };
        let index = index_status(&self.index, &table_id, present).await;
        Ok(JobStatus {
            index: match answer_of_index(index)? {
                IndexAnswer::Answered(status) => Ok(status),
                IndexAnswer::Away(error) => Err(error.to_string()),
            },
            duplicates_watermark: watermark,
            journal_reaches_back: watermark
                .is_none_or(|watermark| watermark >= oldest_entry(present)),
            last_runs: runs.into_iter().map(|(_, run)| run).collect(),
            segments,
            audited_share: audited_share(&audited, segments, present),
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

/// The share of segments of which the last pass began in the last week.
fn audited_share(
    states: &BTreeMap<String, SegmentState>,
    segments: u32,
    present: Timestamp,
) -> f64 {
    let last_week = present.plus_ms(-ms(EVERY))..=present;
    let mut covered: u32 = 0;
    for segment in 0..segments {
        let state = states.get(&state_name(segment, segments));
        let last_began = state.and_then(|state| state.last_began);
        if last_began.is_some_and(|began| last_week.contains(&began)) {
            covered += 1;
        }
    }
    f64::from(covered) / f64::from(segments)
}

async fn index_status(
    index: &PageIndex,
    table_id: &str,
    present: Timestamp,
) -> Result<IndexStatus, StoreError> {
    let readiness = index.readiness(table_id, present).await?;
    let marks = index.marks(table_id).await?;
    let mut status = IndexStatus {
        ready: 0,
        stale: 0,
        unmarked: 0,
        oldest_watermark: marks.iter().map(|(_, mark)| mark.watermark).min(),
        oldest_confirmation: marks.iter().filter_map(|(_, mark)| mark.confirmed).min(),
    };
    for (_, answer) in &readiness {
        match answer {
            Ok(_) => status.ready += 1,
            Err(NotReady::Stale { .. }) => status.stale += 1,
            Err(NotReady::NoMarker | NotReady::OtherTable) => status.unmarked += 1,
        }
    }
    Ok(status)
}

fn instant_text(at: Option<Timestamp>) -> String {
    match at {
        Some(at) => at.to_string(),
        None => "never".to_owned(),
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        match &self.index {
            Ok(index) => writeln!(
                text,
                "page index:   {} partitions ready, {} not confirmed, {} without a marker; oldest confirmation {}, oldest watermark {}",
                index.ready,
                index.stale,
                index.unmarked,
                instant_text(index.oldest_confirmation),
                instant_text(index.oldest_watermark)
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
            instant_text(self.duplicates_watermark)
        )?;
        writeln!(
            text,
            "audit:        {:.1} % of {} segments checked in the last week; scan of the page index begun: {}",
            self.audited_share * 100.0,
            self.segments,
            instant_text(self.index_scanned_since)
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
