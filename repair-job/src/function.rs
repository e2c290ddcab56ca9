//! The Lambda function: what it does every hour, every five minutes or on request, and the metrics that it prints.

use functions::{Quarantine, metrics};
use process::now;
use serde_json::{Value, json};

use crate::{
    audit_plan::AuditOptions,
    report::{Report, exit},
    runner::Job,
    status::Status,
};

/// The name of the function in its metrics.
pub const FUNCTION: &str = "repair-job";

/// Number of shards of the index `primaries` that a rebuild reads in parallel.
const REBUILD_SEGMENTS: u32 = 16;

/// What an event asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The hourly run.
    Hourly,
    /// `recent` alone, by `{"command": "recent"}`. The schedule asks for it every five minutes, because it vouches for
    /// the page index.
    Recent,
    /// A rebuild of the page index, by `{"command": "rebuild"}`. A person who deploys has no other way into the
    /// network.
    Rebuild,
}

impl Asked {
    /// Reads an event. Any unknown event, like that of the hourly schedule, asks for the hourly run.
    pub fn by(event: &Value) -> Self {
        match event.get("command").and_then(Value::as_str) {
            Some("recent") => Self::Recent,
            Some("rebuild") => Self::Rebuild,
            Some(_) | None => Self::Hourly,
        }
    }
}

/// What an invocation did.
#[derive(Debug, Clone, PartialEq)]
pub struct Invoked {
    /// One report per command that ran: `recent`, `quarantine`, `audit` or `rebuild`.
    pub reports: Vec<Report>,
    /// The state of everything afterwards, or why it is unknown.
    pub status: Result<Status, String>,
    /// Whether the page index answers afterwards.
    pub is_index_reachable: bool,
}

/// Does what the event asks for. The hourly run first reconciles recent changes, then works off the quarantine. With
/// the time that is left, `audit` checks the parts of the table and of the page index whose last check is nearly a week
/// old.
pub async fn invoked(job: &Job, quarantine: &Quarantine, audit: AuditOptions, asked: Asked) -> Invoked {
    let reports = match asked {
        Asked::Hourly => Box::pin(hourly(job, quarantine, audit)).await,
        Asked::Recent => vec![Box::pin(job.recent()).await],
        Asked::Rebuild => vec![Box::pin(job.rebuild(REBUILD_SEGMENTS)).await],
    };
    let status = job.status(audit.segments, Some(quarantine)).await.map_err(|error| error.to_string());
    let is_index_reachable = match &status {
        Ok(status) => status.index.is_ok(),
        // The table's failure says nothing about the page index, so read the markers. No table has this id.
        Err(_) => job.index.marks("").await.is_ok(),
    };
    Invoked { reports, status, is_index_reachable }
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
    /// Whether one of the commands failed.
    pub fn has_failed(&self) -> bool {
        self.reports.iter().any(|report| report.exit_code() & exit::FAILURE != 0)
    }

    /// The reports as JSON.
    pub fn json(&self) -> Value {
        let status = match &self.status {
            Ok(status) => json!(status),
            Err(error) => json!({ "failure": error }),
        };
        json!({ "runs": self.reports.iter().map(Report::json).collect::<Vec<_>>(), "status": status })
    }
}

/// The line of metrics of an invocation (see [`functions::metrics`]). `Unresolved` deserves an alarm: it stays until a
/// person has looked. docs/operations.md explains each metric.
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
            values.extend(index.oldest_vouch.map(|at| ("IndexVouchAge", "Milliseconds", age(at))));
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
        let by = |event: &str| Asked::by(&serde_json::from_str(event).unwrap());
        assert_eq!(by(r#"{"command": "recent"}"#), Asked::Recent);
        assert_eq!(by(r#"{"command": "rebuild"}"#), Asked::Rebuild);
        assert_eq!(by(r#"{"source": "aws.events", "detail-type": "Scheduled Event"}"#), Asked::Hourly);
    }
}
