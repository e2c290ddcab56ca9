//! Checks that each alarm watches a metric that is sent, and has a section in the runbook.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{FUNCTIONS, assert_each, assert_properties, file, of_type, resources};

/// The namespace of a stack's own metrics.
const NAMESPACE: &str = "Pagemark/${AWS::StackName}";

/// The anchor by which links name a heading.
fn anchor(heading: &str) -> String {
    let in_anchor = |c: char| match c {
        ' ' | '-' => Some('-'),
        other if other.is_alphanumeric() => Some(other.to_ascii_lowercase()),
        _ => None,
    };
    heading.trim_start_matches('#').trim().chars().filter_map(in_anchor).collect()
}

/// The section of the runbook that each alarm's description names.
fn sections() -> BTreeMap<String, String> {
    let section = |(name, alarm): (String, Value)| {
        let description = alarm["Properties"]["AlarmDescription"].as_str().unwrap().to_owned();
        let (_, section) = description.split_once(" docs/operations.md#").unwrap_or_else(|| panic!("{name}"));
        (name, section.to_owned())
    };
    of_type("AWS::CloudWatch::Alarm").into_iter().map(section).collect()
}

#[test]
fn each_alarm_names_a_section_of_the_runbook() {
    let runbook = file("docs/operations.md");
    let anchors: BTreeSet<String> = runbook.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    for (name, section) in sections() {
        assert!(anchors.contains(&section), "{name} names {section}, which is not in {anchors:?}");
    }
}

#[test]
fn the_runbook_lists_the_alarms_that_there_are_each_with_its_section() {
    let runbook = file("docs/operations.md");
    let (_, table) = runbook.split_once("\n## The alarms\n").unwrap();
    let mut listed = BTreeMap::new();
    for row in table.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [names, _, then] = cells[..] else { panic!("{row}") };
        let (_, link) = then.split_once("](#").unwrap_or_else(|| panic!("{row}"));
        let section = link.split(')').next().unwrap();
        for name in names.split('`').skip(1).step_by(2) {
            listed.insert(name.to_owned(), section.to_owned());
        }
    }
    assert_eq!(listed, sections());
}

#[test]
fn the_table_of_failures_gives_each_alarm_s_time_and_section() {
    let document = file("docs/deploy.md");
    let (_, table) = document.split_once("\n## Failures, and what notices them\n").unwrap();
    let rows: Vec<&str> = table
        .split("\n## ")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
        .collect();
    assert!(!rows.is_empty());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [_, names, after, then] = cells[..] else { panic!("{row}") };
        for name in names.split('`').skip(1).step_by(2) {
            let properties = &resources()[name]["Properties"];
            // An expression has the period of its metrics.
            let period = properties.get("Period").unwrap_or(&properties["Metrics"][1]["MetricStat"]["Period"]);
            let seconds = period.as_u64().unwrap() * properties["EvaluationPeriods"].as_u64().unwrap();
            assert_eq!(after, format!("{} min", seconds / 60), "{name}");
            let link = format!("](operations.md#{})", sections()[name]);
            assert!(then.contains(&link), "{name}: {row}");
        }
    }
}

/// A run whose status has a value for everything.
fn hourly_run() -> repair_job::Invoked {
    let at = model::Timestamp::MIN;
    let index =
        repair_job::IndexStatus { ready: 0, stale: 0, unmarked: 0, oldest_watermark: Some(at), oldest_vouch: Some(at) };
    let status = repair_job::Status {
        index: Ok(index),
        duplicates_watermark: Some(at),
        journal_reaches_back: true,
        last_runs: Vec::new(),
        segments: 1,
        audited_share: 1.0,
        last_index_scan: Some(at),
        index_scanned_since: Some(at),
        running: Vec::new(),
        quarantined: Some(0),
    };
    repair_job::Invoked { reports: Vec::new(), status: Ok(status), is_index_reachable: true }
}

#[test]
fn alarms_and_dashboard_are_about_metrics_that_are_sent() {
    let of_repair: Value = serde_json::from_str(&repair_job::metrics_line(&hourly_run(), NAMESPACE)).unwrap();
    let of_repair = of_repair["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap().iter();
    let sent: BTreeSet<String> = functions::metrics::Metric::ALL
        .iter()
        .map(|metric| metric.name().to_owned())
        .chain(of_repair.map(|metric| metric["Name"].as_str().unwrap().to_owned()))
        .collect();
    let from_logs = ("/Properties/MetricTransformations/0/MetricNamespace", json!({ "Fn::Sub": NAMESPACE }));
    assert_each("AWS::Logs::MetricFilter", &[from_logs]);
    let filters: BTreeSet<String> = of_type("AWS::Logs::MetricFilter")
        .into_iter()
        .map(|(_, filter)| filter["Properties"]["MetricTransformations"][0]["MetricName"].as_str().unwrap().to_owned())
        .collect();
    let check = |name: &str| assert!(sent.contains(name) || filters.contains(name), "nobody sends {name}");
    for (_, alarm) in of_type("AWS::CloudWatch::Alarm") {
        let properties = &alarm["Properties"];
        if properties["Namespace"] == json!({ "Fn::Sub": NAMESPACE }) {
            check(properties["MetricName"].as_str().unwrap());
            assert_eq!(properties["Dimensions"][0]["Name"], functions::metrics::DIMENSION);
            let function = properties["Dimensions"][0]["Value"].as_str().unwrap();
            let functions = [stream_writer::FUNCTION, page_indexer::FUNCTION, repair_job::FUNCTION];
            assert!(functions.contains(&function), "nobody is called {function}");
        }
        for metric in properties["Metrics"].as_array().into_iter().flatten() {
            let metric = &metric["MetricStat"]["Metric"];
            if metric["Namespace"] == json!({ "Fn::Sub": NAMESPACE }) {
                check(metric["MetricName"].as_str().unwrap());
            }
        }
    }
    let dashboard = &resources()["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"];
    let dashboard: Value = serde_json::from_str(dashboard.as_str().unwrap()).unwrap();
    for widget in dashboard["widgets"].as_array().unwrap() {
        for metric in widget["properties"]["metrics"].as_array().unwrap() {
            if metric[0] == NAMESPACE {
                check(metric[1].as_str().unwrap());
            }
        }
    }
}

#[test]
fn every_process_that_sends_metrics_uses_the_stack_s_namespace() {
    let namespace = ("/Properties/Environment/Variables/PAGEMARK_METRICS_NAMESPACE", json!({ "Fn::Sub": NAMESPACE }));
    assert_each("AWS::Serverless::Function", &[namespace]);
}

#[test]
fn a_mapping_that_no_longer_polls_sets_off_an_alarm() {
    for function in FUNCTIONS {
        let mapping = format!("{function}Mapping");
        let (alarm, reported) = (format!("{function}NotPolled"), json!({"Metrics": ["EventCount"]}));
        assert_properties(&mapping, &json!({ "MetricsConfig": reported }));
        let expected = json!({
            "MetricName": "PolledEventCount",
            "Dimensions": [{"Name": "EventSourceMappingUUID", "Value": {"Ref": mapping}}],
            "TreatMissingData": "breaching",
        });
        assert_properties(&alarm, &expected);
    }
}

#[test]
fn an_alarm_looks_back_over_a_day_at_most() {
    for (name, alarm) in of_type("AWS::CloudWatch::Alarm") {
        let properties = &alarm["Properties"];
        let period = properties["Period"].as_u64().unwrap_or(300);
        let seconds = period * properties["EvaluationPeriods"].as_u64().unwrap();
        assert!(seconds <= 86_400, "{name}: {seconds}");
    }
}
