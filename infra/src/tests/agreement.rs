//! The template says what the code says: renaming something in one of them fails.

use std::collections::BTreeSet;

use clap::CommandFactory;
use serde_json::Value;

use super::resources;

#[test]
fn the_template_and_the_code_describe_the_same_table() {
    use model::item::attribute::{CD, EXPIRES_AT, PK, SK};
    let table = &resources()["CommentsTable"]["Properties"];
    let keys = |schema: &Value| -> Vec<(String, String)> {
        let text = |key: &Value, name: &str| key[name].as_str().unwrap().to_owned();
        schema.as_array().unwrap().iter().map(|key| (text(key, "AttributeName"), text(key, "KeyType"))).collect()
    };
    let expected =
        |hash: &str, range: &str| vec![(hash.to_owned(), "HASH".to_owned()), (range.to_owned(), "RANGE".to_owned())];
    assert_eq!(keys(&table["KeySchema"]), expected(PK, SK));
    let indexes = table["GlobalSecondaryIndexes"].as_array().unwrap();
    assert_eq!(indexes.len(), 1);
    assert_eq!(indexes[0]["IndexName"], stores::table::GSI);
    assert_eq!(keys(&indexes[0]["KeySchema"]), expected(SK, CD));
    assert_eq!(table["TimeToLiveSpecification"]["AttributeName"], EXPIRES_AT);
}

/// The variables that a process is given, by its part of the template.
fn given(logical_id: &str) -> BTreeSet<String> {
    let properties = &resources()[logical_id]["Properties"];
    if let Some(variables) = properties["Environment"]["Variables"].as_object() {
        return variables.keys().cloned().collect();
    }
    let container = &properties["ContainerDefinitions"][0];
    let lists = [&container["Environment"], &container["Secrets"]];
    let entries = lists.into_iter().flat_map(|list| list.as_array().unwrap());
    // An entry with a condition is the first alternative.
    let name = |entry: &Value| entry["Name"].as_str().or(entry["Fn::If"][1]["Name"].as_str()).unwrap().to_owned();
    entries.map(name).collect()
}

#[test]
fn each_process_gets_every_variable_that_it_needs_and_no_other() {
    for (logical_id, command) in [
        ("StreamWriter", stream_writer::Config::command()),
        ("PageIndexer", page_indexer::Config::command()),
        ("RepairJob", repair_job::FunctionConfig::command()),
        ("ApiTask", api::Settings::command()),
    ] {
        let given = given(logical_id);
        let all = || command.get_arguments();
        let variable = |argument: &clap::Arg| argument.get_env().map(|name| name.to_string_lossy().into_owned());
        let known: BTreeSet<String> = all().filter_map(variable).collect();
        let needed: BTreeSet<String> =
            all().filter(|argument| argument.is_required_set()).filter_map(variable).collect();
        assert!(!needed.is_empty());
        assert!(given.is_superset(&needed), "{logical_id} lacks {:?}", needed.difference(&given));
        assert!(known.is_superset(&given), "{logical_id} does not know {:?}", given.difference(&known));
    }
}

/// A file of the project.
fn file(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn each_process_has_a_user_of_redis_with_the_permissions_that_are_tested() {
    let documented = file("docs/redis.md");
    for (logical_id, user) in [("PageIndexerUser", "page-indexer"), ("RepairJobUser", "repair-job"), ("ApiUser", "api")]
    {
        let prefix = format!("ACL SETUSER {user} on >PASSWORD ");
        let rules = documented.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| panic!("{user}"));
        let properties = &resources()[logical_id]["Properties"];
        assert_eq!(properties["AccessString"].as_str().unwrap(), format!("on {rules}"));
        assert_eq!(properties["UserName"], user);
    }
}

#[test]
fn each_alarm_names_a_section_of_the_runbook() {
    let runbook = file("docs/operations.md");
    let anchor = |heading: &str| -> String {
        let kept = |c: char| match c {
            ' ' => Some('-'),
            '-' => Some('-'),
            other if other.is_alphanumeric() => Some(other.to_ascii_lowercase()),
            _ => None,
        };
        heading.trim_start_matches('#').trim().chars().filter_map(kept).collect()
    };
    let anchors: BTreeSet<String> = runbook.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    let mut alarms = 0;
    for (name, resource) in resources().iter().filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm") {
        let description = resource["Properties"]["AlarmDescription"].as_str().unwrap();
        let (_, section) = description.split_once(" docs/operations.md#").unwrap_or_else(|| panic!("{name}"));
        assert!(anchors.contains(section), "{name} names {section}, which is not in {anchors:?}");
        alarms += 1;
    }
    assert!(alarms >= 20, "{alarms}");
}

/// A run that has found out everything.
fn hourly_run() -> repair_job::Invoked {
    let at = model::Instant::MIN;
    let index = repair_job::IndexStatus { ready: 0, stale: 0, unmarked: 0, oldest_watermark: Some(at) };
    let status = repair_job::Status {
        index: Ok(index),
        duplicates_watermark: Some(at),
        journal_reaches_back: true,
        last_runs: Vec::new(),
        segments: 1,
        audited_share: 1.0,
        last_sweep: Some(at),
        swept_since: Some(at),
        running: Vec::new(),
        quarantined: Some(0),
    };
    repair_job::Invoked { reports: Vec::new(), status: Ok(status), is_index_reachable: true }
}

#[test]
fn alarms_and_dashboard_are_about_metrics_that_are_sent() {
    let of_repair: Value = serde_json::from_str(&repair_job::metrics_line(&hourly_run())).unwrap();
    let of_repair = of_repair["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap().iter();
    let sent: BTreeSet<String> = stores::metrics::Metric::ALL
        .iter()
        .map(|metric| metric.name().to_owned())
        .chain(of_repair.map(|metric| metric["Name"].as_str().unwrap().to_owned()))
        .collect();
    let filters: BTreeSet<String> = resources()
        .values()
        .filter(|resource| resource["Type"] == "AWS::Logs::MetricFilter")
        .map(|filter| {
            let transformation = &filter["Properties"]["MetricTransformations"][0];
            transformation["MetricName"]["Fn::Sub"].as_str().unwrap().to_owned()
        })
        .collect();
    let check = |name: &str| assert!(sent.contains(name) || filters.contains(name), "nobody sends {name}");
    for alarm in resources().values().filter(|resource| resource["Type"] == "AWS::CloudWatch::Alarm") {
        let properties = &alarm["Properties"];
        if properties["Namespace"] == stores::metrics::NAMESPACE {
            check(properties["MetricName"].as_str().unwrap());
            assert_eq!(properties["Dimensions"][0]["Name"], stores::metrics::DIMENSION);
            let function = properties["Dimensions"][0]["Value"].as_str().unwrap();
            let functions = [stream_writer::FUNCTION, page_indexer::FUNCTION, repair_job::FUNCTION];
            assert!(functions.contains(&function), "nobody is called {function}");
        }
        for metric in properties["Metrics"].as_array().into_iter().flatten() {
            let metric = &metric["MetricStat"]["Metric"];
            if metric["Namespace"] == stores::metrics::NAMESPACE {
                check(metric["MetricName"]["Fn::Sub"].as_str().unwrap());
            }
        }
    }
    let dashboard = &resources()["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"];
    let dashboard: Value = serde_json::from_str(dashboard.as_str().unwrap()).unwrap();
    for widget in dashboard["widgets"].as_array().unwrap() {
        for metric in widget["properties"]["metrics"].as_array().unwrap() {
            if metric[0] == stores::metrics::NAMESPACE {
                check(metric[1].as_str().unwrap());
            }
        }
    }
}
