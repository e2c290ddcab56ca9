//! The Lambda function: what it does every hour, every five minutes or on request, and the metrics that it prints.

use functions::{Quarantine, metrics};
use process::now;
use serde_json::{Value, json};

use crate::{
    commands::{
        audit_plan::AuditOptions,
        big_repair::{BigRepair, Step, take_step},
        status::Status,
    },
    run::{
        Job,
        report::{Report, exit},
        settings::JobSettings,
    },
};

/// The name of the function in its metrics.
pub const FUNCTION: &str = "repair-job";

/// Number of shards of the index `primaries` that a rebuild reads in parallel.
const REBUILD_READERS: u32 = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Hourly,
    /// `recent`, by `{"command": "recent"}`. The schedule asks for it every five minutes, because it confirms the page
    /// index. Partitions of the page index that have no marker are then rebuilt.
    Recent,
    /// A rebuild of the page index, by `{"command": "rebuild"}`. A person who deploys has no other way into the
    /// network.
    Rebuild,
    /// A step of a big repair, by `{"command": "big_repair", "of": …, "step": …}`. Its state machine asks for it.
    BigRepair(BigRepair, Step),
}

impl Asked {
    /// Reads an event. Any unknown event, like that of the hourly schedule, asks for the hourly run.
    ///
    /// # Errors
    /// A step of a big repair is malformed.
    pub fn by(event: &Value) -> Result<Self, serde_json::Error> {
        Ok(match event.get("command").and_then(Value::as_str) {
            Some("recent") => Self::Recent,
            Some("rebuild") => Self::Rebuild,
            Some("big_repair") => {
                let of = event.get("of").cloned().unwrap_or_default();
                Self::BigRepair(serde_json::from_value(of)?, serde_json::from_value(event.clone())?)
            }
            Some(_) | None => Self::Hourly,
        })
    }

    /// The settings of the job: it repairs, within its share of the limits.
    pub fn settings(&self, settings: JobSettings) -> JobSettings {
        let settings = JobSettings { apply: true, ..settings };
        match self {
            Self::BigRepair(of, step) => of.settings(settings, *step),
            Self::Hourly | Self::Recent | Self::Rebuild => settings,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Invoked {
    /// One report per command that ran: `recent`, `quarantine`, `audit` or `rebuild`.
    pub reports: Vec<Report>,
    /// The state of everything afterwards, or why it is unknown.
    pub status: Result<Status, String>,
    pub is_index_reachable: bool,
    /// The answer of a step of a big repair, or why the step failed.
    pub step: Option<Result<Value, String>>,
}

/// Does what the event asks for. The hourly run first reconciles recent changes, then works off the quarantine. With
/// the time that is left, `audit` checks the parts of the table and of the page index whose last check is nearly a week
/// old.
pub async fn invoked(job: &Job, quarantine: &Quarantine, audit: AuditOptions, asked: Asked) -> Invoked {
    let (reports, step) = match asked {
        Asked::Hourly => (Box::pin(hourly(job, quarantine, audit)).await, None),
        Asked::Recent => {
            let recent = Box::pin(job.recent()).await;
            let rebuild = Box::pin(job.rebuild_missing(REBUILD_READERS)).await;
            ([recent].into_iter().chain(rebuild).collect(), None)
        }
        Asked::Rebuild => (vec![Box::pin(job.rebuild(REBUILD_READERS)).await], None),
        Asked::BigRepair(of, step) => {
            let (reports, step) = Box::pin(take_step(job, &of, step)).await;
            (reports, Some(step))
        }
    };
    let status = job.status(audit.segments, Some(quarantine)).await.map_err(|error| error.to_string());
    let is_index_reachable = match &status {
        Ok(status) => status.index.is_ok(),
        // The table's failure says nothing about the page index, so read the markers. No table has this id.
        Err(_) => job.index.marks("").await.is_ok(),
    };
    Invoked { reports, status, is_index_reachable, step }
}

async fn hourly(job: &Job, quarantine: &Quarantine, audit: AuditOptions) -> Vec<Report> {
    let mut reports = vec![job.recent().await];
    if !matches!(quarantine, Quarantine::Mapping) {
        reports.push(job.quarantine(quarantine).await);
    }
    reports.push(job.audit(audit).await);
    reports
}

impl Invoked {
    /// The answer of the function: that of a step of a big repair, or the reports.
    ///
    /// # Errors
    /// The step or one of the commands failed.
    pub fn answer(&self) -> Result<Value, String> {
        if let Some(step) = &self.step {
            return step.clone();
        }
        let status = match &self.status {
            Ok(status) => json!(status),
            Err(error) => json!({ "failure": error }),
        };
        let answer = json!({ "runs": self.reports.iter().map(Report::json).collect::<Vec<_>>(), "status": status });
        let has_failed = self.reports.iter().any(|report| report.exit_code() & exit::FAILURE != 0);
        if has_failed { Err(answer.to_string()) } else { Ok(answer) }
    }
}

/// The line of metrics of an invocation (see [`functions::metrics`]). `Unresolved` deserves an alarm: it stays until a
/// person has looked. docs/operate.md explains each metric.
pub fn metrics_line(invoked: &Invoked, namespace: &str) -> String {
    let sum = |of: fn(&Report) -> u64| -> Value { invoked.reports.iter().map(of).sum::<u64>().into() };
    let sum_units = |of: fn(&Report) -> f64| -> Value { invoked.reports.iter().map(of).sum::<f64>().into() };
    let present = now();
    let mut values = vec![
        ("Checked", "Count", sum(|report| report.checked)),
        ("Drifted", "Count", sum(|report| report.drifted.values().sum())),
        ("Repaired", "Count", sum(|report| report.repaired)),
        ("Left", "Count", sum(|report| report.left)),
        ("Unresolved", "Count", sum(|report| report.unresolved_count)),
        ("Skipped", "Count", sum(|report| report.skipped_count)),
        ("Failed", "Count", sum(|report| u64::from(report.failure.is_some()))),
        ("ReadUnits", "Count", sum_units(|report| report.read_units)),
        ("WriteUnits", "Count", sum_units(|report| report.write_units)),
        ("Duration", "Milliseconds", sum_units(|report| report.seconds * 1e3)),
        ("IndexReachable", "Count", u8::from(invoked.is_index_reachable).into()),
    ];
    if let Ok(status) = &invoked.status {
        let age = |at: model::Timestamp| Value::from((present.epoch_ms() - at.epoch_ms()).max(0));
        values.extend(status.duplicates_watermark.map(|at| ("DuplicatesWatermarkAge", "Milliseconds", age(at))));
        if let Ok(index) = &status.index {
            values.extend(index.oldest_confirmation.map(|at| ("IndexConfirmationAge", "Milliseconds", age(at))));
            values.extend(index.oldest_watermark.map(|at| ("IndexWatermarkAge", "Milliseconds", age(at))));
            values.push(("PartitionsNotReady", "Count", (index.stale + index.unmarked).into()));
        }
        values.extend(status.index_scanned_since.map(|at| ("IndexScanAge", "Milliseconds", age(at))));
        values.push(("AuditedShare", "Percent", (status.audited_share * 100.0).into()));
        values.extend(status.quarantined.map(|count| ("QuarantinedBatches", "Count", count.into())));
    }
    metrics::line(namespace, FUNCTION, present.epoch_ms(), &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_its_command_and_any_other_asks_for_the_hourly_run() {
        let asked = |event: &str| Asked::by(&serde_json::from_str(event).unwrap());
        let by = |event: &str| asked(event).unwrap();
        assert_eq!(by(r#"{"command": "recent"}"#), Asked::Recent);
        assert_eq!(by(r#"{"command": "rebuild"}"#), Asked::Rebuild);
        assert_eq!(by(r#"{"source": "aws.events", "detail-type": "Scheduled Event"}"#), Asked::Hourly);
        let step = |step: &str, of: &str| asked(&format!(r#"{{"command": "big_repair", {step}, "of": {of}}}"#));
        let (part, of) = (r#""step": "part", "part": 7"#, r#"{"run": "r", "max_write_units": 40}"#);
        let Ok(Asked::BigRepair(_, Step::Part { part: 7 })) = step(part, of) else { panic!("not understood") };
        for (wrong, of) in [
            (r#""step": "part""#, of),
            (r#""step": "other""#, of),
            (part, "{}"),
            (part, r#"{"run": "r", "max_write_unit": 40}"#),
        ] {
            assert!(step(wrong, of).is_err(), "{wrong} {of}");
        }
    }

    #[test]
    fn the_parts_of_a_big_repair_share_its_limits() {
        let event = r#"{"command": "big_repair", "step": "part", "part": 3,
                        "of": {"run": "r", "parts": 4, "at_once": 8, "max_write_units": 40}}"#;
        let settings = JobSettings { max_read_units: Some(3), ..JobSettings::default() };
        let shares = |event: &str| {
            let asked = Asked::by(&serde_json::from_str(event).unwrap()).unwrap();
            let settings = asked.settings(settings.clone());
            (settings.apply, settings.max_read_units, settings.max_write_units)
        };
        assert_eq!(shares(event), (true, Some(1), Some(5)));
        let last = event.replace("\"part\": 3", "\"part\": 4");
        assert_eq!(shares(&last), (true, Some(3), Some(40)), "the scan of the page index has no neighbours");
    }
}
