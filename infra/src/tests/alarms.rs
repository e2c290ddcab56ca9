//! Checks that each alarm watches a metric that is sent, and has a section in the runbook.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{FUNCTIONS, assert_each, assert_properties, file, of_type, resources, resources_with};

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
        // The documents name the alarms of every shard once.
        (name.trim_end_matches("0001").to_owned(), section.to_owned())
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
            let resources = resources();
            let alarm = resources.get(name).unwrap_or_else(|| &resources[&format!("{name}0001")]);
            let properties = &alarm["Properties"];
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
pub(super) fn hourly_run() -> repair_job::Invoked {
    let at = model::Timestamp::MIN;
    let index = repair_job::IndexStatus {
        ready: 0,
        stale: 0,
        unmarked: 0,
        oldest_watermark: Some(at),
        oldest_confirmation: Some(at),
    };
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
    repair_job::Invoked { reports: Vec::new(), status: Ok(status), is_index_reachable: true, step: None }
}

#[test]
fn alarms_and_dashboard_are_about_metrics_that_are_sent() {
    let of_repair: Value = serde_json::from_str(&repair_job::metrics_line(&hourly_run(), NAMESPACE)).unwrap();
    let of_repair = of_repair["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap().iter();
    let sent: BTreeSet<String> = functions::metrics::Metric::ALL
        .iter()
        .map(|metric| metric.name().to_owned())
        .chain(of_repair.map(|metric| metric["Name"].as_str().unwrap().to_owned()))
        .chain(canary::METRICS.map(str::to_owned))
        .chain(api::Series::ALL.iter().map(|series| series.name().to_owned()))
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
            let functions =
                [stream_writer::FUNCTION, page_indexer::FUNCTION, repair_job::FUNCTION, canary::FUNCTION, api::PROCESS];
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
    let mut shown = BTreeSet::new();
    for widget in dashboard["widgets"].as_array().unwrap() {
        for metric in widget["properties"]["metrics"].as_array().unwrap() {
            if metric[0] == NAMESPACE {
                check(metric[1].as_str().unwrap());
                let [dimension, process] = [2, 3].map(|at| metric[at].as_str());
                if dimension.is_some() {
                    assert_eq!(dimension, Some(functions::metrics::DIMENSION));
                    shown.insert((process.unwrap(), metric[1].as_str().unwrap()));
                }
            }
        }
    }
    for series in api::Series::ALL {
        assert!(shown.contains(&(api::PROCESS, series.name())), "the dashboard lacks {series:?}");
    }
}

#[test]
fn every_process_that_sends_metrics_uses_the_stack_s_namespace() {
    let namespace = ("/Properties/Environment/Variables/PAGEMARK_METRICS_NAMESPACE", json!({ "Fn::Sub": NAMESPACE }));
    assert_each("AWS::Serverless::Function", &[namespace]);
    let of_api = resources()["ApiTask"]["Properties"]["ContainerDefinitions"][0]["Environment"].clone();
    let namespace = json!({ "Name": "PAGEMARK_METRICS_NAMESPACE", "Value": { "Fn::Sub": NAMESPACE } });
    assert!(of_api.as_array().unwrap().contains(&namespace), "{of_api}");
}

#[test]
fn each_shard_of_redis_has_every_alarm_on_both_of_its_nodes() {
    let resources = resources_with(&[("RedisShards", "0001,0002,0003")]);
    let on = |alarm: &Value, shard: &str| {
        let metrics = alarm["Properties"]["Metrics"].to_string();
        let node = |node: &str| metrics.matches(&format!("${{Redis}}-{shard}-{node}")).count();
        node("001") == 1 && node("002") == 1 && metrics.matches("${Redis}").count() == 2
    };
    for shard in ["0001", "0002", "0003"] {
        for alarm in ["RedisMemory", "RedisEvictions", "RedisBusy", "RedisProcessor", "RedisCredits"] {
            let name = format!("{alarm}{shard}");
            assert!(on(&resources[&name], shard), "{name}: {}", resources[&name]);
        }
    }
    let of_redis = resources.values().filter(|resource| resource.to_string().contains("AWS/ElastiCache"));
    assert_eq!(of_redis.count(), 15 + 1, "the dashboard finds the nodes of all shards");
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

#[test]
fn a_canary_without_a_fresh_time_sets_off_its_alarm() {
    let (alarm, canary) = (&resources()["CanaryStale"]["Properties"], &resources()["Canary"]["Properties"]);
    assert_eq!((&alarm["MetricName"], &alarm["TreatMissingData"]), (&json!("Freshness"), &json!("breaching")));
    // Each period has a run, and a run may wait longer than the alarm allows.
    assert_eq!(
        (&canary["Events"]["Regular"]["Properties"]["Schedule"], &alarm["Period"]),
        (&json!("rate(5 minutes)"), &json!(300))
    );
    assert!(canary["Timeout"].as_u64().unwrap() * 1_000 > alarm["Threshold"].as_u64().unwrap() * 2);
    // It exists as a whole, or not at all.
    for name in ["Canary", "CanaryLogs", "CanaryStale"] {
        assert_eq!(resources()[name]["Condition"], "HasCanary", "{name}");
    }
}
