//! Operators see what a deployed API does: CloudWatch, by lines of the log.

use ::api::Series;
use itertools::Itertools;
use serde_json::{Value, json};
use strum::VariantArray;

use crate::fixture::{
    api::{ApiProcess, api_variables},
    function::with,
    http::listing,
    stores::Stores,
    wait_for,
};

const _: crate::Engines = crate::Engines::Embedded("about the lines of the log");

/// The sum of a metric over all samples that have this label.
fn sum(metrics: &str, name: &str, label: &str) -> f64 {
    let beginning = format!("{name}{{");
    let mut sum = 0.0;
    for line in metrics.lines() {
        if line.starts_with(&beginning) && line.contains(label) {
            let (_, value) = line.rsplit_once(' ').unwrap();
            sum += value.parse::<f64>().unwrap();
        }
    }
    sum
}

/// The mean time of a call of a store, in milliseconds.
fn mean_ms(metrics: &str, store: &str) -> f64 {
    let label = format!("store=\"{store}\"");
    let seconds = sum(metrics, "pagemark_store_call_duration_seconds_sum", &label);
    let calls = sum(
        metrics,
        "pagemark_store_call_duration_seconds_count",
        &label,
    );
    1e3 * seconds / calls
}

/// The values of a series in the log, one for each minute.
fn values(lines: &[Value], name: &str) -> Vec<f64> {
    lines
        .iter()
        .filter_map(|line| line[name].as_f64())
        .collect()
}

fn added(lines: &[Value], name: &str) -> f64 {
    values(lines, name).iter().sum()
}

/// The lines of metrics in the log. There is one for each minute, and one at the end.
async fn metric_lines(api: &ApiProcess, requests: f64) -> Vec<Value> {
    wait_for("the lines of metrics", async || {
        let log = api.log();
        let mut lines = log.clone();
        lines.retain(|line| line["_aws"].is_object());
        if added(&lines, "Requests") == requests {
            Ok(lines)
        } else {
            Err(log)
        }
    })
    .await
}

/// A line tells CloudWatch which series it has, under which names.
fn assert_directive(line: &Value) {
    let directive = &line["_aws"]["CloudWatchMetrics"][0];
    assert_eq!(line["Function"], "api");
    assert_eq!(directive["Namespace"], "Pagemark/one");
    assert_eq!(directive["Dimensions"], json!([["Function"]]));
    let mut names = Vec::new();
    for metric in directive["Metrics"].as_array().unwrap() {
        names.push(metric["Name"].as_str().unwrap());
    }
    let mut known: Vec<&str> = Series::VARIANTS.iter().map(<&str>::from).collect();
    known.retain(|name| line[name].is_number());
    assert_eq!(names, known, "{line}");
}

#[tokio::test]
async fn the_log_has_the_series_of_cloudwatch_and_they_add_up_to_the_metrics() {
    let stores = Stores::start_with_redis().await;
    stores.fill(45).await;
    let namespace = [("PAGEMARK_METRICS_NAMESPACE", "Pagemark/one")];
    let api = ApiProcess::start(with(api_variables(&stores), &namespace)).await;
    for target in [
        listing("page=1"),
        listing("page=2"),
        listing("page=99"),
        "/products".to_owned(),
    ] {
        api.http.get(&target).await;
    }
    let metrics = api.operations.get("/metrics").await.body;
    api.terminate();
    let lines = metric_lines(&api, 4.0).await;
    assert!(api.ended().await.success());

    for line in &lines {
        assert_directive(line);
    }
    for series in Series::VARIANTS {
        let values = values(&lines, series.into());
        assert!(!values.is_empty(), "{series:?}: {lines:?}");
    }
    let all_requests = sum(&metrics, "pagemark_http_requests_total", "");
    let for_metrics = sum(&metrics, "pagemark_http_requests_total", "/metrics");
    assert_eq!(added(&lines, "Requests"), all_requests - for_metrics);
    for (name, store) in [("TableTime", "table"), ("PageIndexTime", "page_index")] {
        let mean = mean_ms(&metrics, store);
        let minmax = values(&lines, name).into_iter().minmax();
        let (least, most) = minmax.into_option().unwrap();
        assert!(least * (1.0 - 1e-6) < mean, "{name}: {mean} in {lines:?}");
        assert!(mean < most * (1.0 + 1e-6), "{name}: {mean} in {lines:?}");
    }
    for (name, last) in [
        ("RequestsInFlight", 0.0),
        ("AnswerBytes", 0.0),
        ("PageIndexAvailable", 1.0),
    ] {
        let values = values(&lines, name);
        assert_eq!(values.last(), Some(&last), "{name}: {lines:?}");
    }
    for name in [
        "ServerErrors",
        "RequestsShed",
        "DriftSigns",
        "MalformedItems",
    ] {
        assert_eq!(added(&lines, name), 0.0, "{name}: {lines:?}");
    }
    stores.index.clear().await.unwrap();
}
