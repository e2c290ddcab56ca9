//! Each alarm watches a metric that is sent, and has a section in the runbook.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use strum::VariantArray;

use super::{assert_each, assert_settings, of_type, project_file, properties};

const NAMESPACE: &str = "Pagemark/${AWS::StackName}";

/// The part of a link that leads to a heading.
fn anchor(heading: &str) -> String {
    let mut anchor = String::new();
    for character in heading.trim_start_matches('#').trim().chars() {
        if matches!(character, ' ' | '-') {
            anchor.push('-');
        } else if character.is_alphanumeric() {
            anchor.push(character.to_ascii_lowercase());
        }
    }
    anchor
}

/// The section of the runbook that an alarm's description names.
fn described_section(alarm: &Value) -> &str {
    let description = &alarm["Properties"]["AlarmDescription"];
    let text = description
        .as_str()
        .or(description["Fn::Sub"].as_str())
        .unwrap();
    let (_, section) = text
        .split_once(" docs/operate.md#")
        .unwrap_or_else(|| panic!("{text}"));
    section
}

#[test]
#[ignore = "needs Python packages"]
fn the_runbook_lists_every_alarm_with_the_section_that_its_description_names() {
    let mut expected = BTreeMap::new();
    for (name, alarm) in of_type("AWS::CloudWatch::Alarm") {
        // The runbook names the alarms of every node once.
        let name = name.trim_end_matches(|character: char| character.is_ascii_digit());
        expected.insert(name, described_section(alarm));
    }

    let runbook = project_file("docs/operate.md");
    let headings = runbook.lines().filter(|line| line.starts_with('#'));
    let anchors: BTreeSet<String> = headings.map(anchor).collect();
    let (_, after_heading) = runbook.split_once("\n## The alarms\n").unwrap();
    let (section_of_alarms, _) = after_heading.split_once("\n## ").unwrap();
    let mut listed = BTreeMap::new();
    for row in section_of_alarms.lines() {
        if !row.starts_with("| `") {
            continue;
        }
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [names, _, then] = cells[..] else {
            panic!("{row}")
        };
        let (_, link) = then.split_once("](#").unwrap_or_else(|| panic!("{row}"));
        let (section, _) = link.split_once(')').unwrap();
        assert!(anchors.contains(section), "{section} is not in {anchors:?}");
        for name in names.split('`').skip(1).step_by(2) {
            listed.insert(name, section);
        }
    }
    assert_eq!(listed, expected);
}

fn hourly_run() -> repair_job::Invoked {
    let at = model::Timestamp::MIN;
    let index = repair_job::IndexStatus {
        ready: 0,
        stale: 0,
        unmarked: 0,
        oldest_watermark: Some(at),
        oldest_confirmation: Some(at),
    };
    let status = repair_job::JobStatus {
        index: Ok(index),
        duplicates_watermark: Some(at),
        journal_reaches_back: true,
        last_runs: Vec::new(),
        segments: 1,
        audited_share: 1.0,
        index_scanned_since: Some(at),
        running: Vec::new(),
        quarantined: Some(0),
        disk_is_full: false,
    };
    repair_job::Invoked {
        reports: Vec::new(),
        status: Ok(status),
    }
}

pub(super) fn metrics_of_repair() -> Vec<String> {
    let line = repair_job::metrics_line(&hourly_run(), NAMESPACE);
    let line: Value = serde_json::from_str(&line).unwrap();
    let mut names = Vec::new();
    let metrics = &line["_aws"]["CloudWatchMetrics"][0]["Metrics"];
    for metric in metrics.as_array().unwrap() {
        names.push(metric["Name"].as_str().unwrap().to_owned());
    }
    names
}

/// A metric of our own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct OwnMetric {
    /// Absent if a filter counts lines of the log.
    process: Option<String>,
    name: String,
}

impl OwnMetric {
    fn new(process: Option<&str>, name: &str) -> Self {
        Self {
            process: process.map(str::to_owned),
            name: name.to_owned(),
        }
    }
}

/// The metrics of our own that the alarms watch.
fn watched() -> Vec<OwnMetric> {
    let own = json!({ "Fn::Sub": NAMESPACE });
    let mut watched = Vec::new();
    for (_, alarm) in of_type("AWS::CloudWatch::Alarm") {
        let properties = &alarm["Properties"];
        // An alarm is about one metric, or about an expression of several.
        let mut metrics = vec![properties];
        for part in properties["Metrics"].as_array().into_iter().flatten() {
            metrics.push(&part["MetricStat"]["Metric"]);
        }
        for metric in metrics {
            if metric["Namespace"] != own {
                continue;
            }
            let dimension = &metric["Dimensions"][0];
            assert!(
                dimension["Name"].is_null() || dimension["Name"] == functions::metrics::DIMENSION
            );
            let process = dimension["Value"].as_str();
            let name = metric["MetricName"].as_str().unwrap();
            watched.push(OwnMetric::new(process, name));
        }
    }
    watched
}

/// The metrics of our own that the dashboard shows.
fn shown() -> Vec<OwnMetric> {
    let dashboard = &properties("Dashboard")["DashboardBody"]["Fn::Sub"];
    let dashboard: Value = serde_json::from_str(dashboard.as_str().unwrap()).unwrap();
    let mut shown = Vec::new();
    for widget in dashboard["widgets"].as_array().unwrap() {
        for metric in widget["properties"]["metrics"].as_array().unwrap() {
            if metric[0] == NAMESPACE {
                let name = metric[1].as_str().unwrap();
                shown.push(OwnMetric::new(metric[3].as_str(), name));
            }
        }
    }
    shown
}

/// The metrics that our processes send, and those that filters of their log make.
fn sent() -> BTreeSet<OwnMetric> {
    let mut sent = BTreeSet::new();
    for process in [stream_writer::FUNCTION, page_indexer::FUNCTION] {
        for metric in functions::metrics::Metric::ALL {
            sent.insert(OwnMetric::new(Some(process), <&str>::from(metric)));
        }
    }
    for name in metrics_of_repair() {
        sent.insert(OwnMetric::new(Some(repair_job::FUNCTION), &name));
    }
    for series in api::Series::VARIANTS {
        sent.insert(OwnMetric::new(Some(api::PROCESS), series.into()));
    }
    for (_, filter) in of_type("AWS::Logs::MetricFilter") {
        let name = &filter["Properties"]["MetricTransformations"][0]["MetricName"];
        sent.insert(OwnMetric::new(None, name.as_str().unwrap()));
    }
    sent
}

#[test]
#[ignore = "needs Python packages"]
fn alarms_and_dashboard_are_about_metrics_that_are_sent() {
    let namespace = (
        "/MetricTransformations/0/MetricNamespace",
        json!({ "Fn::Sub": NAMESPACE }),
    );
    assert_each("AWS::Logs::MetricFilter", &[namespace]);
    let sent = sent();
    let shown = shown();
    for metric in watched().iter().chain(&shown) {
        assert!(sent.contains(metric), "nobody sends {metric:?}");
    }
    for series in api::Series::VARIANTS {
        let metric = OwnMetric::new(Some(api::PROCESS), series.into());
        assert!(shown.contains(&metric), "the dashboard lacks {metric:?}");
    }
}

#[test]
#[ignore = "needs Python packages"]
fn every_process_that_sends_metrics_uses_the_stack_s_namespace() {
    let namespace = json!({ "Fn::Sub": NAMESPACE });
    let of_function = (
        "/Environment/Variables/PAGEMARK_METRICS_NAMESPACE",
        namespace.clone(),
    );
    assert_each("AWS::Serverless::Function", &[of_function]);
    let of_api = properties("ApiTask")["ContainerDefinitions"][0]["Environment"]
        .as_array()
        .unwrap();
    assert!(
        of_api.contains(&json!({ "Name": "PAGEMARK_METRICS_NAMESPACE", "Value": namespace })),
        "{of_api:?}"
    );
}

#[test]
#[ignore = "needs Python packages"]
fn a_mapping_that_no_longer_polls_sets_off_an_alarm() {
    for function in ["StreamWriter", "PageIndexer"] {
        let mapping = format!("{function}Mapping");
        let alarm = format!("{function}NotPolled");
        assert_settings(&[
            (
                &format!("/{mapping}/Properties/MetricsConfig"),
                json!({"Metrics": ["EventCount"]}),
            ),
            (
                &format!("/{alarm}/Properties/MetricName"),
                json!("PolledEventCount"),
            ),
            (
                &format!("/{alarm}/Properties/Dimensions/0/Value"),
                json!({ "Ref": mapping }),
            ),
            (
                &format!("/{alarm}/Properties/TreatMissingData"),
                json!("breaching"),
            ),
        ]);
    }
}

#[test]
#[ignore = "needs Python packages"]
fn an_alarm_says_when_the_page_indexer_s_part_of_the_archive_time_is_used_up() {
    let write_ms = 30_000;
    let clocks_ms = 10_000;
    let archive_after_ms = 1_000 * u64::from(api::ApiSettings::default().archive_after_seconds);
    assert_eq!(
        properties("PageIndexerBehind")["Threshold"],
        archive_after_ms - write_ms - clocks_ms
    );
}

#[test]
#[ignore = "needs Python packages"]
fn an_alarm_looks_back_over_a_day_at_most() {
    for (name, alarm) in of_type("AWS::CloudWatch::Alarm") {
        let properties = &alarm["Properties"];
        let period = properties["Period"].as_u64().unwrap_or(300);
        let seconds = period * properties["EvaluationPeriods"].as_u64().unwrap();
        assert!(seconds <= 86_400, "{name}: {seconds}");
    }
}
