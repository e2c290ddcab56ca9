//! The Lambda function: what it does every hour, every five minutes or on request, and the metrics
//! that it prints.

use std::num::NonZeroU32;

use functions::{Quarantine, metrics};
use model::Timestamp;
use process::now;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    commands::{
        audit_plan::{AuditOptions, SEGMENTS},
        status::JobStatus,
    },
    run::{Job, report::Report, settings::JobSettings},
};

/// The name of the function in its metrics.
pub const FUNCTION: &str = "repair-job";

/// Number of shards of the index `primaries` that a rebuild reads in parallel.
const REBUILD_READERS: u32 = 16;

/// The reasons of all segments fit into the 256 KiB of a state.
const WHY_CHARS_MAX: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum FunctionCommand {
    /// `recent`, by `{"command": "recent"}`. The schedule asks for it every five minutes, because
    /// it confirms the page index. Partitions of the page index that have no marker are then
    /// rebuilt.
    Recent,
    /// A rebuild of the page index, by `{"command": "rebuild"}`. A person who deploys has no other
    /// way into the network.
    Rebuild,
    /// The audit of one segment, by `{"command": "audit", "segment": …, "since": …, "of": …}`. The
    /// state machine of big repairs (`BigRepair` in `infra/template.yaml`) asks for it until
    /// nothing stopped it.
    Audit(SegmentAudit),
    /// Anything else, such as the event of the hourly schedule.
    #[serde(other)]
    Hourly,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SegmentAudit {
    /// Its number. The one after the last stands for the scan of the page index.
    segment: u32,
    /// When the big repair began.
    since: Timestamp,
    of: BigRepair,
}

/// What a person may give to a big repair.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct BigRepair {
    segments: NonZeroU32,
    /// Number of segments that are audited in parallel. Each has this share of the limits.
    at_once: NonZeroU32,
    max_read_units: Option<u32>,
    max_write_units: Option<u32>,
}

impl BigRepair {
    /// The share of a limit that one segment has.
    fn share(&self, limit: Option<u32>) -> Option<u32> {
        limit.map(|limit| (limit / self.at_once).max(1))
    }
}

impl SegmentAudit {
    fn options(&self) -> AuditOptions {
        AuditOptions {
            segments: self.of.segments.get(),
            segment: Some(self.segment),
            since: Some(self.since),
            ..AuditOptions::default()
        }
    }
}

impl FunctionCommand {
    /// Reads an event.
    ///
    /// # Errors
    /// The audit of a segment is malformed.
    pub fn of_event(event: &Value) -> Result<Self, serde_json::Error> {
        if event["command"].is_string() {
            Self::deserialize(event)
        } else {
            Ok(Self::Hourly)
        }
    }

    /// The settings of the job: it repairs, within its share of the limits.
    pub fn settings(&self, settings: JobSettings) -> JobSettings {
        let mut settings = JobSettings {
            apply: true,
            ..settings
        };
        if let Self::Audit(SegmentAudit { of, .. }) = self {
            let read = of.max_read_units.or(settings.max_read_units);
            let write = of.max_write_units.or(settings.max_write_units);
            settings.max_read_units = of.share(read);
            settings.max_write_units = of.share(write);
        }
        settings
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Invoked {
    /// One report per command that ran: `recent`, `quarantine`, `audit` or `rebuild`.
    pub reports: Vec<Report>,
    /// The state of everything afterwards, or why it is unknown.
    pub status: Result<JobStatus, String>,
}

/// Does what the event asks for. The hourly run first reconciles recent changes, then works off the
/// quarantine. With the time that is left, `audit` checks the parts of the table and of the page
/// index whose last check is nearly a week old.
pub async fn invoked(job: &Job, quarantine: &Quarantine, command: FunctionCommand) -> Invoked {
    let reports = match command {
        FunctionCommand::Hourly => Box::pin(hourly(job, quarantine)).await,
        FunctionCommand::Recent => {
            let recent = Box::pin(job.recent()).await;
            let rebuild = Box::pin(job.rebuild_missing(REBUILD_READERS)).await;
            [recent].into_iter().chain(rebuild).collect()
        }
        FunctionCommand::Rebuild => vec![Box::pin(job.rebuild(REBUILD_READERS)).await],
        FunctionCommand::Audit(segment) => vec![Box::pin(job.audit(segment.options())).await],
    };
    for report in &reports {
        let command = &report.command;
        if let Some(error) = &report.failure {
            tracing::error!(command, error, "the run failed");
        }
    }
    let status = job.status(SEGMENTS, Some(quarantine)).await;
    Invoked {
        reports,
        status: status.map_err(|error| error.to_string()),
    }
}

async fn hourly(job: &Job, quarantine: &Quarantine) -> Vec<Report> {
    let mut reports = vec![job.recent().await];
    if !matches!(quarantine, Quarantine::Mapping) {
        reports.push(job.quarantine(quarantine).await);
    }
    reports.push(
        job.audit(AuditOptions {
            rolling: true,
            ..AuditOptions::default()
        })
        .await,
    );
    reports
}

impl Invoked {
    /// The answer of the function: the reports and the state.
    ///
    /// # Errors
    /// One of the commands failed, the state is unknown, or the audit of a segment left something
    /// out.
    pub fn answer(&self) -> Result<Value, String> {
        // The hourly run never audits alone.
        if let [report] = &*self.reports
            && report.command == "audit"
        {
            return answer_of_segment(report);
        }
        let status = match &self.status {
            Ok(status) => json!(status),
            Err(error) => json!({ "failure": error }),
        };
        let answer = json!({ "runs": self.reports.iter().map(Report::json).collect::<Vec<_>>(), "status": status });
        let has_failed =
            self.status.is_err() || self.reports.iter().any(|report| report.failure.is_some());
        if has_failed {
            Err(answer.to_string())
        } else {
            Ok(answer)
        }
    }
}

/// What a big repair adds up. It waits before it repeats what failed.
fn answer_of_segment(report: &Report) -> Result<Value, String> {
    if let Some(why) = why_unfinished(report) {
        return Err(why.chars().take(WHY_CHARS_MAX).collect());
    }
    Ok(json!({
        "stopped": report.stopped,
        "checked": report.checked,
        "repaired": report.repaired,
        "left": report.left,
        "unresolved": report.unresolved_count,
    }))
}

/// Why the segment must be repeated. What a stop left out is resumed instead.
fn why_unfinished(report: &Report) -> Option<String> {
    if let Some(failure) = &report.failure {
        return Some(failure.clone());
    }
    if let Some(holder) = &report.held_by {
        return Some(format!("another run works there: {holder}"));
    }
    if report.stopped.is_some() {
        return None;
    }
    report.skipped.first().cloned()
}

/// The line of metrics of an invocation (see [`functions::metrics`]). `Unresolved` deserves an
/// alarm: it stays until a person has looked. docs/operate.md explains each metric.
pub fn metrics_line(invoked: &Invoked, namespace: &str) -> String {
    let present = now();
    let mut values = metrics_of_reports(&invoked.reports);
    if let Ok(status) = &invoked.status {
        values.extend(metrics_of_status(status, present));
    }
    metrics::line(namespace, FUNCTION, present.epoch_ms(), &values)
}

/// A metric: its name, its unit and its value.
type RunMetric = (&'static str, &'static str, Value);

fn metrics_of_reports(reports: &[Report]) -> Vec<RunMetric> {
    let mut sum = Report::default();
    let mut drifted: u64 = 0;
    let mut failed: u64 = 0;
    let mut duration_ms = 0.0;
    for report in reports {
        sum.checked += report.checked;
        drifted += report.drifted.values().sum::<u64>();
        sum.repaired += report.repaired;
        sum.left += report.left;
        sum.unresolved_count += report.unresolved_count;
        sum.skipped_count += report.skipped_count;
        failed += u64::from(report.failure.is_some());
        sum.read_units += report.read_units;
        sum.write_units += report.write_units;
        duration_ms += report.seconds * 1e3;
    }
    vec![
        ("Checked", "Count", sum.checked.into()),
        ("Drifted", "Count", drifted.into()),
        ("Repaired", "Count", sum.repaired.into()),
        ("Left", "Count", sum.left.into()),
        ("Unresolved", "Count", sum.unresolved_count.into()),
        ("Skipped", "Count", sum.skipped_count.into()),
        ("Failed", "Count", failed.into()),
        ("ReadUnits", "Count", sum.read_units.into()),
        ("WriteUnits", "Count", sum.write_units.into()),
        ("Duration", "Milliseconds", duration_ms.into()),
    ]
}

fn metrics_of_status(status: &JobStatus, present: Timestamp) -> Vec<RunMetric> {
    let is_reachable = u8::from(status.index.is_ok());
    let mut values: Vec<RunMetric> = vec![("IndexReachable", "Count", is_reachable.into())];
    if let Some(at) = status.duplicates_watermark {
        values.push(age("DuplicatesWatermarkAge", at, present));
    }
    if let Ok(index) = &status.index {
        if let Some(at) = index.oldest_confirmation {
            values.push(age("IndexConfirmationAge", at, present));
        }
        if let Some(at) = index.oldest_watermark {
            values.push(age("IndexWatermarkAge", at, present));
        }
        let not_ready = index.stale + index.unmarked;
        values.push(("PartitionsNotReady", "Count", not_ready.into()));
    }
    if let Some(at) = status.index_scanned_since {
        values.push(age("IndexScanAge", at, present));
    }
    let audited_percent = status.audited_share * 100.0;
    values.push(("AuditedShare", "Percent", audited_percent.into()));
    if let Some(count) = status.quarantined {
        values.push(("QuarantinedBatches", "Count", count.into()));
    }
    values
}

fn age(name: &'static str, at: Timestamp, present: Timestamp) -> RunMetric {
    let age_ms = (present.epoch_ms() - at.epoch_ms()).max(0);
    (name, "Milliseconds", age_ms.into())
}

#[cfg(test)]
mod tests {
    use process::StopReason;

    use super::*;
    use crate::run::report::Stopped;

    fn command_of(event: &str) -> Result<FunctionCommand, serde_json::Error> {
        FunctionCommand::of_event(&serde_json::from_str(event).unwrap())
    }

    fn audit_command(part: &str, of: &str) -> Result<FunctionCommand, serde_json::Error> {
        command_of(&format!(r#"{{"command": "audit", {part}, "of": {of}}}"#))
    }

    #[test]
    fn an_event_names_its_command_and_any_other_asks_for_the_hourly_run() {
        for (event, command) in [
            (r#"{"command": "recent"}"#, FunctionCommand::Recent),
            (r#"{"command": "rebuild"}"#, FunctionCommand::Rebuild),
            (
                r#"{"source": "aws.events", "detail-type": "Scheduled Event"}"#,
                FunctionCommand::Hourly,
            ),
        ] {
            assert_eq!(command_of(event).unwrap(), command);
        }
        let part = r#""segment": 7, "since": "2026-01-31T12:00:00.123Z""#;
        let of = r#"{"segments": 8, "at_once": 2, "max_write_units": 40}"#;
        let Ok(FunctionCommand::Audit(segment)) = audit_command(part, of) else {
            panic!("not understood")
        };
        let of_segment = segment.options();
        assert_eq!(
            (of_segment.wanted(), of_segment.scans_index()),
            (7..8, false)
        );
        let of_index = SegmentAudit {
            segment: 8,
            ..segment
        }
        .options();
        assert_eq!(
            (of_index.wanted().count(), of_index.scans_index()),
            (0, true)
        );
        let misspelt = of.replace("units", "unit");
        let none = of.replace('2', "0");
        for (wrong, of) in [
            (r#""segment": 7"#, of),
            (part, "{}"),
            (part, &misspelt),
            (part, &none),
        ] {
            assert!(audit_command(wrong, of).is_err(), "{wrong} {of}");
        }
    }

    #[test]
    fn the_segments_of_a_big_repair_share_its_limits() {
        let event = r#"{"command": "audit", "segment": 3, "since": "2026-01-31T12:00:00.123Z",
                        "of": {"segments": 4, "at_once": 8, "max_write_units": 40}}"#;
        let command = command_of(event).unwrap();
        let settings = command.settings(JobSettings {
            max_read_units: Some(3),
            ..JobSettings::default()
        });
        assert_eq!(
            (
                settings.apply,
                settings.max_read_units,
                settings.max_write_units
            ),
            (true, Some(1), Some(5))
        );
    }

    #[test]
    fn a_segment_counts_as_done_only_if_nothing_was_left_out() {
        let report = Report {
            checked: 7,
            ..Report::default()
        };
        let done = answer_of_segment(&report).unwrap();
        assert_eq!(
            (&done["stopped"], &done["checked"]),
            (&Value::Null, &json!(7))
        );
        let skipped = Report {
            skipped: vec!["é".repeat(WHY_CHARS_MAX + 1)],
            ..report.clone()
        };
        let held = Report {
            held_by: Some("m".to_owned()),
            ..report.clone()
        };
        let failed = Report {
            failure: Some("f".to_owned()),
            ..skipped.clone()
        };
        let whys = [&skipped, &held, &failed].map(|report| answer_of_segment(report).unwrap_err());
        assert_eq!(
            whys,
            [
                "é".repeat(WHY_CHARS_MAX),
                "another run works there: m".to_owned(),
                "f".to_owned()
            ]
        );
        let stopped = Some(Stopped {
            reason: StopReason::TimeIsUp,
            resumes: String::new(),
        });
        assert!(
            answer_of_segment(&Report { stopped, ..skipped })
                .is_ok_and(|answer| !answer["stopped"].is_null())
        );
    }
}
