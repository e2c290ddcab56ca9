//! Each alarm watches a metric that is sent, and has a section in the runbook.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use strum::VariantArray;

use super::{assert_each, assert_settings, of_type, project_file, properties};

const NAMESPACE: &str = "Pagemark/${AWS::StackName}";

fn anchor(heading: &str) -> String {
    let in_anchor = |c: char| match c {
        ' ' | '-' => Some('-'),
        other if other.is_alphanumeric() => Some(other.to_ascii_lowercase()),
        _ => None,
    };
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter_map(in_anchor)
        .collect()
}

#[test]
fn the_runbook_lists_every_alarm_with_the_section_that_its_description_names() {
    let section = |(name, alarm): (&String, &Value)| {
        let description = &alarm["Properties"]["AlarmDescription"];
        let text = description
            .as_str()
            .or(description["Fn::Sub"].as_str())
            .unwrap();
        let (_, section) = text
            .split_once(" docs/operate.md#")
            .unwrap_or_else(|| panic!("{name}"));
        // The runbook names the alarms of every node once.
        (
            name.trim_end_matches(|c: char| c.is_ascii_digit())
                .to_owned(),
            section.to_owned(),
        )
    };
    let expected: BTreeMap<String, String> = of_type("AWS::CloudWatch::Alarm")
        .into_iter()
        .map(section)
        .collect();

    let runbook = project_file("docs/operate.md");
    let anchors: BTreeSet<String> = runbook
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(anchor)
        .collect();
    let (_, table) = runbook.split_once("\n## The alarms\n").unwrap();
    let mut listed = BTreeMap::new();
    for row in table
        .split("\n## ")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `"))
    {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [names, _, then] = cells[..] else {
            panic!("{row}")
        };
        let (_, link) = then.split_once("](#").unwrap_or_else(|| panic!("{row}"));
        let section = link.split(')').next().unwrap();
        assert!(anchors.contains(section), "{section} is not in {anchors:?}");
        for name in names.split('`').skip(1).step_by(2) {
            listed.insert(name.to_owned(), section.to_owned());
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
    };
    repair_job::Invoked {
        reports: Vec::new(),
        status: Ok(status),
    }
}

pub(super) fn metrics_of_repair() -> Vec<String> {
    let line: Value =
        serde_json::from_str(&repair_job::metrics_line(&hourly_run(), NAMESPACE)).unwrap();
    let metrics = line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
        .as_array()
        .unwrap();
    metrics
        .iter()
        .map(|metric| metric["Name"].as_str().unwrap().to_owned())
        .collect()
}

/// The metrics of our own that the alarms watch and the dashboard shows: process and name.
fn watched() -> Vec<(Option<&'static str>, &'static str)> {
    let own = json!({ "Fn::Sub": NAMESPACE });
    let mut watched = Vec::new();
    for (_, alarm) in of_type("AWS::CloudWatch::Alarm") {
        let properties = &alarm["Properties"];
        let inner = properties["Metrics"].as_array().into_iter().flatten();
        let metrics = inner
            .map(|metric| &metric["MetricStat"]["Metric"])
            .chain([properties]);
        for metric in metrics.filter(|metric| metric["Namespace"] == own) {
            let dimension = &metric["Dimensions"][0];
            assert!(
                dimension["Name"].is_null() || dimension["Name"] == functions::metrics::DIMENSION
            );
            watched.push((
                dimension["Value"].as_str(),
                metric["MetricName"].as_str().unwrap(),
            ));
        }
    }
    watched
}

fn shown() -> Vec<(Option<String>, String)> {
    let dashboard = properties("Dashboard")["DashboardBody"]["Fn::Sub"]
        .as_str()
        .unwrap();
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let widgets = dashboard["widgets"].as_array().unwrap().iter();
    let metrics = widgets.flat_map(|widget| widget["properties"]["metrics"].as_array().unwrap());
    let own = metrics.filter(|metric| metric[0] == NAMESPACE);
    own.map(|metric| {
        (
            metric[3].as_str().map(str::to_owned),
            metric[1].as_str().unwrap().to_owned(),
        )
    })
    .collect()
}

#[test]
fn alarms_and_dashboard_are_about_metrics_that_are_sent() {
    let mut sent = BTreeSet::new();
    for process in [stream_writer::FUNCTION, page_indexer::FUNCTION] {
        sent.extend(
            functions::metrics::Metric::ALL
                .iter()
                .map(|of| (Some(process.to_owned()), <&str>::from(of).to_owned())),
        );
    }
    sent.extend(
        metrics_of_repair()
            .into_iter()
            .map(|name| (Some(repair_job::FUNCTION.to_owned()), name)),
    );
    let of_api = api::Series::VARIANTS
        .iter()
        .map(|of| (Some(api::PROCESS.to_owned()), <&str>::from(of).to_owned()));
    sent.extend(of_api.clone());
    assert_each(
        "AWS::Logs::MetricFilter",
        &[(
            "/MetricTransformations/0/MetricNamespace",
            json!({ "Fn::Sub": NAMESPACE }),
        )],
    );
    for (_, filter) in of_type("AWS::Logs::MetricFilter") {
        let name = filter["Properties"]["MetricTransformations"][0]["MetricName"]
            .as_str()
            .unwrap();
        sent.insert((None, name.to_owned()));
    }
    let watched = watched()
        .into_iter()
        .map(|(process, name)| (process.map(str::to_owned), name.to_owned()));
    let shown = shown();
    for metric in watched.chain(shown.clone()) {
        assert!(sent.contains(&metric), "nobody sends {metric:?}");
    }
    for metric in of_api {
        assert!(shown.contains(&metric), "the dashboard lacks {metric:?}");
    }
}

#[test]
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
fn a_mapping_that_no_longer_polls_sets_off_an_alarm() {
    for function in ["StreamWriter", "PageIndexer"] {
        let (mapping, alarm) = (format!("{function}Mapping"), format!("{function}NotPolled"));
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
fn an_alarm_looks_back_over_a_day_at_most() {
    for (name, alarm) in of_type("AWS::CloudWatch::Alarm") {
        let properties = &alarm["Properties"];
        let period = properties["Period"].as_u64().unwrap_or(300);
        let seconds = period * properties["EvaluationPeriods"].as_u64().unwrap();
        assert!(seconds <= 86_400, "{name}: {seconds}");
    }
}
