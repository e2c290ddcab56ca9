//! A big repair: many invocations of the function audit parts of the table in parallel. A state machine starts them, and
//! joins their reports into one (`BigRepair` in `infra/template.yaml`).
//!
//! The state machine takes each [`Step`], and repeats one that fails, with back-off.
//!
//! **Invariant:** each step may be invoked again at any point, and parts may be invoked in any order. The table stores
//! the report of each part, and whether it is done. What a killed invocation repaired is missing from the report. A part
//! whose invocation lost its lease begins anew, so the report counts some of its comments twice.

use model::Timestamp;
use process::{StoreError, now};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use table::Table;

use crate::{
    commands::audit_plan::{AuditOptions, SEGMENTS, Which},
    run::{Job, report::Report, settings::JobSettings},
};

/// Maximum number of parts. The answers of all of them fit into the 256 KiB of a state.
const PARTS_MAX: u32 = 1_000;

/// Default number of parts that are audited in parallel.
const AT_ONCE: u32 = 8;

/// How long the table keeps the reports of parts: as long as the bucket keeps the joined report. An execution ends
/// within thirteen days.
const KEPT_DAYS: i64 = 30;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BigRepair {
    pub run: String,
    #[serde(default)]
    pub parts: Option<u32>,
    #[serde(default)]
    pub at_once: Option<u32>,
    #[serde(default)]
    pub max_read_units: Option<u32>,
    #[serde(default)]
    pub max_write_units: Option<u32>,
    #[serde(default)]
    pub since: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum Step {
    /// Names the parts, which are the segments of the table.
    Begin,
    /// The audit of one part, as far as the time of the invocation allows. The state machine repeats it until the part is done.
    Part {
        /// Its number. The one after the last stands for the scan of the page index.
        part: u32,
    },
    /// Adds the reports of all parts.
    Join,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Part {
    /// The sum of its runs. The part is done when nothing ended the last run early.
    report: Report,
    /// When DynamoDB removes it, in seconds since 1970.
    #[serde(default)]
    expires_at: i64,
}

impl BigRepair {
    fn parts(&self) -> u32 {
        self.parts.unwrap_or(SEGMENTS).clamp(1, PARTS_MAX)
    }

    fn at_once(&self) -> u32 {
        self.at_once.unwrap_or(AT_ONCE).max(1)
    }

    /// The settings of a step: its share of the limits. At most `at_once` parts are audited in parallel, so all of them
    /// together stay within the limits.
    pub fn settings(&self, settings: JobSettings, step: Step) -> JobSettings {
        let sharers = match step {
            Step::Part { part } if part < self.parts() => self.at_once(),
            Step::Begin | Step::Part { .. } | Step::Join => 1,
        };
        let share = |limit: u32| (limit / sharers).max(1);
        JobSettings {
            max_read_units: self.max_read_units.or(settings.max_read_units).map(share),
            max_write_units: self.max_write_units.or(settings.max_write_units).map(share),
            ..settings
        }
    }

    fn states(&self) -> String {
        format!("big_repair#{}", self.run)
    }
}

/// The answer of a step, and the reports of what it ran.
///
/// # Errors
/// Why the state machine has to repeat the step.
pub(crate) async fn take_step(job: &Job, of: &BigRepair, step: Step) -> (Vec<Report>, Result<Value, String>) {
    match step {
        Step::Begin => (Vec::new(), Ok(begin(of))),
        Step::Part { part } => audit_part(job, of, part).await,
        Step::Join => (Vec::new(), join(&job.table, of).await.map_err(|error| error.to_string())),
    }
}

fn begin(of: &BigRepair) -> Value {
    let (parts, at_once) = (of.parts(), of.at_once());
    let of = BigRepair {
        since: Some(of.since.unwrap_or_else(now)),
        parts: Some(parts),
        at_once: Some(at_once),
        ..of.clone()
    };
    json!({ "of": of, "parts": (0..parts).collect::<Vec<_>>(), "last": parts, "at_once": at_once })
}

fn succeeded(report: &Report) -> Result<(), String> {
    let held = || report.held_by.as_ref().map(|holder| format!("another run works there: {holder}"));
    report.failure.clone().or_else(held).map_or(Ok(()), Err)
}

async fn audit_part(job: &Job, of: &BigRepair, part: u32) -> (Vec<Report>, Result<Value, String>) {
    let name = format!("{part:06}");
    let answer = |is_done: bool| json!({ "part": part, "done": is_done });
    let before = match job.table.state::<Part>(&of.states(), &name).await {
        Ok(Some(before)) if !before.report.ended_early() => return (Vec::new(), Ok(answer(true))),
        Ok(before) => before,
        Err(error) => return (Vec::new(), Err(error.to_string())),
    };
    let report = Box::pin(job.audit(audit_options(of, part))).await;
    let mut sum = before.map(|before| before.report).unwrap_or_default();
    sum.add(report.clone());
    let expires_at = now().epoch_seconds() + KEPT_DAYS * 24 * 3600;
    let stored = job.table.put_state(&of.states(), &name, &Part { report: sum, expires_at }).await;
    let stored = stored.map_err(|error| error.to_string());
    let answered = succeeded(&report).and(stored).map(|()| answer(!report.ended_early()));
    (vec![report], answered)
}

fn audit_options(of: &BigRepair, part: u32) -> AuditOptions {
    let is_segment = part < of.parts();
    let which = if is_segment { Which::One(part) } else { Which::NoneOfThem };
    let index_scan = !is_segment;
    AuditOptions { segments: of.parts(), which, index_scan, since: of.since, ..AuditOptions::default() }
}

async fn join(table: &Table, of: &BigRepair) -> Result<Value, StoreError> {
    let parts: Vec<(String, Part)> = table.states(&of.states()).await?;
    let mut left: Vec<u32> = (0..=of.parts()).collect();
    let mut sum = Report { apply: true, ..Report::default() };
    let mut problems = Vec::new();
    for (name, Part { mut report, .. }) in parts {
        let number: Option<u32> = name.parse().ok();
        if report.ended_early() {
            let Report { failure, held_by, stopped, .. } = &report;
            problems.push(json!({ "part": number, "failure": failure, "held_by": held_by, "stopped": stopped }));
        } else {
            left.retain(|part| Some(*part) != number);
        }
        (report.failure, report.held_by, report.stopped) = (None, None, None);
        sum.add(report);
    }
    if !left.is_empty() {
        sum.failure = Some(format!("{} of {} parts are not done", left.len(), of.parts() + 1));
    }
    let is_complete = left.is_empty();
    Ok(json!({ "of": of, "complete": is_complete, "parts_left": left, "problems": problems, "report": sum.json() }))
}
