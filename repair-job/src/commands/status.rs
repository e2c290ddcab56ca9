//! `status`: readiness, watermarks, last runs, coverage of the audit, leases, open quarantine. It
//! only reads.

use std::{collections::BTreeMap, fmt};

use derive_more::Display;
use functions::Quarantine;
use model::Timestamp;
use page_index::{IndexScanPosition, NotReady, PageIndex};
use process::{StoreError, now};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use table::Lease;

use crate::{
    commands::{
        audit_plan::{EVERY, state_name},
        quarantine::LISTED_MAX,
    },
    find::journal::oldest_entry,
    run::{
        IndexAnswer, Job, RUN, answer_of_index,
        columns::in_columns,
        lease::describe,
        report::{LastRun, exit},
        settings::ms,
    },
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

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobStatus {
    #[serde(serialize_with = "answer_or_reason")]
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
    /// Whether the table takes no writes, because its disk has no room. Only `pagemark up` knows it.
    pub disk_is_full: bool,
}

const DISK_IS_FULL: &str = "the disk is full, and nothing can be written: make room";

/// What a person must know first.
#[derive(Debug, PartialEq, Eq, Display)]
pub enum Verdict {
    #[display("in order")]
    InOrder,
    #[display("pages are served, repair is needed: {}", _0.join("; "))]
    RepairNeeded(Vec<String>),
    #[display("numbered pages are unavailable: {_0}")]
    Unavailable(String),
}

impl Verdict {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::InOrder => 0,
            Self::RepairNeeded(_) => exit::DRIFT_FOUND | exit::DRIFT_LEFT,
            Self::Unavailable(_) => exit::SKIPPED,
        }
    }
}

impl JobStatus {
    pub fn verdict(&self) -> Verdict {
        let index = match &self.index {
            Ok(index) => index,
            Err(reason) => return Verdict::Unavailable(reason.clone()),
        };
        let not_ready = index.stale + index.unmarked;
        if not_ready > 0 {
            let partitions = not_ready + index.ready;
            let is_rebuilt = self.running.iter().any(|(scope, _)| scope == "rebuild");
            let then = if self.disk_is_full {
                DISK_IS_FULL
            } else if is_rebuilt {
                "being rebuilt, nothing to do"
            } else {
                "the next run fills or confirms them"
            };
            return Verdict::Unavailable(format!(
                "{not_ready} of {partitions} partitions are not ready, {then}"
            ));
        }
        let needs = self.needs();
        if needs.is_empty() {
            Verdict::InOrder
        } else {
            Verdict::RepairNeeded(needs)
        }
    }

    /// Why a person must repair something.
    fn needs(&self) -> Vec<String> {
        const BAD: u8 = exit::FAILURE | exit::DRIFT_LEFT | exit::UNRESOLVED;
        let mut needs = Vec::new();
        if self.disk_is_full {
            needs.push(DISK_IS_FULL.to_owned());
        }
        if !self.journal_reaches_back {
            needs.push(
                "the journal does not reach back to the watermark: `audit --apply`".to_owned(),
            );
        }
        if let Some(count @ 1..) = self.quarantined {
            needs.push(format!(
                "{count} batches in quarantine: `quarantine --apply`"
            ));
        }
        for run in &self.last_runs {
            if run.exit_code & BAD != 0 {
                let command = &run.command;
                let exit_code = run.exit_code;
                needs.push(format!(
                    "the last {command} ended with exit code {exit_code}: `{command} --apply`"
                ));
            }
        }
        needs
    }

    pub fn json(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = json.as_object_mut() {
            let verdict = self.verdict();
            fields.insert("verdict".to_owned(), verdict.to_string().into());
            fields.insert("exit_code".to_owned(), verdict.exit_code().into());
        }
        json
    }
}

/// The status of a page index, or `{"unavailable": "the reason"}`.
fn answer_or_reason<S: Serializer>(
    index: &Result<IndexStatus, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match index {
        Ok(status) => status.serialize(serializer),
        Err(reason) => {
            let mut unavailable = serializer.serialize_map(Some(1))?;
            unavailable.serialize_entry("unavailable", reason)?;
            unavailable.end()
        }
    }
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
            disk_is_full: false,
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

impl JobStatus {
    /// The state of each part, and since when it holds.
    fn parts(&self) -> Vec<Vec<String>> {
        let mut parts = vec![row(["part", "state", "as of"])];
        match &self.index {
            Ok(index) => {
                let IndexStatus {
                    ready,
                    stale,
                    unmarked,
                    oldest_watermark,
                    oldest_confirmation,
                } = index;
                let state = format!(
                    "{ready} partitions ready, {stale} not confirmed, {unmarked} without a marker"
                );
                let confirmed = instant_text(*oldest_confirmation);
                parts.push(row(["page index", &state, &confirmed]));
                let watermark = instant_text(*oldest_watermark);
                parts.push(row([
                    "",
                    "has every change up to its watermark",
                    &watermark,
                ]));
            }
            Err(error) => parts.push(row(["page index", error, ""])),
        }
        let duplicates = if self.journal_reaches_back {
            "have every change up to their watermark"
        } else {
            "the journal does not reach back to their watermark"
        };
        let watermark = instant_text(self.duplicates_watermark);
        parts.push(row(["duplicates", duplicates, &watermark]));
        let audited = format!(
            "{:.1} % of {} segments checked in the last week",
            self.audited_share * 100.0,
            self.segments
        );
        parts.push(row(["audit", &audited, ""]));
        let scanned = instant_text(self.index_scanned_since);
        parts.push(row(["", "scan of the page index begun", &scanned]));
        let quarantine = match self.quarantined {
            Some(count) => format!("{count} batches"),
            None => "not configured (PAGEMARK_QUARANTINE)".to_owned(),
        };
        parts.push(row(["quarantine", &quarantine, ""]));
        for (scope, who) in &self.running {
            parts.push(row(["in progress", &format!("{scope}: {who}"), ""]));
        }
        parts
    }

    fn runs(&self) -> Vec<Vec<String>> {
        let titles = [
            "last run",
            "ended",
            "exit code",
            "checked",
            "repaired",
            "unresolved",
        ];
        let mut runs = vec![row(titles)];
        for run in &self.last_runs {
            runs.push(row([
                &run.command,
                &run.ended.to_string(),
                &run.exit_code.to_string(),
                &run.checked.to_string(),
                &run.repaired.to_string(),
                &run.unresolved.to_string(),
            ]));
        }
        runs
    }
}

fn row<const CELLS: usize>(cells: [&str; CELLS]) -> Vec<String> {
    cells.map(str::to_owned).into()
}

impl fmt::Display for JobStatus {
    /// The verdict, and two tables below it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verdict())?;
        for table in [self.parts(), self.runs()] {
            if table.len() > 1 {
                write!(f, "\n\n{}", in_columns(&table).join("\n"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_order() -> JobStatus {
        let ran = Timestamp::parse("2024-01-31T06:00:00Z").unwrap();
        JobStatus {
            index: Ok(IndexStatus {
                ready: 8,
                stale: 0,
                unmarked: 0,
                oldest_watermark: None,
                oldest_confirmation: None,
            }),
            duplicates_watermark: None,
            journal_reaches_back: true,
            last_runs: vec![LastRun {
                command: "audit".to_owned(),
                began: ran,
                ended: ran,
                exit_code: exit::DRIFT_FOUND,
                checked: 1,
                repaired: 1,
                unresolved: 0,
            }],
            segments: 1,
            audited_share: 0.0,
            index_scanned_since: None,
            running: Vec::new(),
            quarantined: Some(0),
            disk_is_full: false,
        }
    }

    #[test]
    fn the_verdict_is_one_line_with_the_exit_code_of_what_is_wrong() {
        let mut unreachable = in_order();
        unreachable.index = Err("no answer".to_owned());
        let mut lost = in_order();
        if let Ok(index) = &mut lost.index {
            index.unmarked = 3;
        }
        let mut rebuilt = lost.clone();
        rebuilt
            .running
            .push(("rebuild".to_owned(), "who".to_owned()));
        let mut unresolved = in_order();
        unresolved.last_runs[0].exit_code = exit::UNRESOLVED;
        unresolved.quarantined = Some(2);
        let mut full = in_order();
        full.disk_is_full = true;
        let mut lost_and_full = lost.clone();
        lost_and_full.disk_is_full = true;
        for (status, exit_code, said) in [
            (in_order(), 0, "in order"),
            (unreachable, 32, "numbered pages are unavailable: no answer"),
            // No advice to rebuild: a stack begins to do it within a second.
            (
                lost,
                32,
                "3 of 11 partitions are not ready, the next run fills or confirms them",
            ),
            (rebuilt, 32, "being rebuilt, nothing to do"),
            (
                full,
                12,
                "pages are served, repair is needed: the disk is full",
            ),
            (
                lost_and_full,
                32,
                "3 of 11 partitions are not ready, the disk is full",
            ),
            (
                unresolved,
                12,
                "pages are served, repair is needed: 2 batches in quarantine",
            ),
        ] {
            let verdict = status.verdict();
            assert_eq!(verdict.exit_code(), exit_code, "{verdict}");
            let text = status.to_string();
            let first = text.lines().next().unwrap();
            assert!(first.contains(said), "{first}");
            let json = status.json();
            assert_eq!(json["exit_code"], exit_code, "{json}");
            let has_reason = json["index"]["unavailable"].is_string();
            assert_eq!(has_reason, status.index.is_err(), "{json}");
        }
    }

    #[test]
    fn below_the_verdict_two_tables_show_the_parts_and_the_last_runs() {
        let shown = in_order().to_string();
        expect_test::expect![[r#"
            in order

            part        state                                                    as of
            page index  8 partitions ready, 0 not confirmed, 0 without a marker  never
                        has every change up to its watermark                     never
            duplicates  have every change up to their watermark                  never
            audit       0.0 % of 1 segments checked in the last week
                        scan of the page index begun                             never
            quarantine  0 batches

            last run  ended                     exit code  checked  repaired  unresolved
            audit     2024-01-31T06:00:00.000Z  4          1        1         0"#]]
        .assert_eq(&shown);
    }
}
