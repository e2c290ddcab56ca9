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

#[tokio::test]
async fn the_log_has_the_series_of_cloudwatch_and_they_add_up_to_the_metrics() {
    let stores = Stores::start_with_redis().await;
    stores.fill(45).await;
    let api = ApiProcess::start(with(
        api_variables(&stores),
        &[("PAGEMARK_METRICS_NAMESPACE", "Pagemark/one")],
    ))
    .await;
    for target in [
        listing("page=1"),
        listing("page=2"),
        listing("page=99"),
        "/products".to_owned(),
    ] {
        api.http.get(&target).await;
    }
    let metrics = api.operations.get("/metrics").await.body;
    let sum = |name: &str, label: &str| {
        let samples = metrics
            .lines()
            .filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
        samples
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
            .sum::<f64>()
    };
    let mean_ms = |store: &str| {
        let of = |part: &str| {
            sum(
                &format!("pagemark_store_call_duration_seconds_{part}"),
                &format!("store=\"{store}\""),
            )
        };
        1e3 * of("sum") / of("count")
    };
    api.terminate();
    // There is a line for each minute, and one at the end.
    let values = |lines: &[Value], name: &str| -> Vec<f64> {
        lines
            .iter()
            .filter_map(|line| line[name].as_f64())
            .collect()
    };
    let added = |lines: &[Value], name: &str| values(lines, name).iter().sum::<f64>();
    let lines: Vec<Value> = wait_for("the lines of metrics", async || {
        let lines: Vec<Value> = api
            .log()
            .into_iter()
            .filter(|line| line["_aws"].is_object())
            .collect();
        if added(&lines, "Requests") == 4.0 {
            Ok(lines)
        } else {
            Err(api.log())
        }
    })
    .await;
    assert!(api.ended().await.success());

    for line in &lines {
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        let named = (
            &line["Function"],
            &directive["Namespace"],
            &directive["Dimensions"],
        );
        assert_eq!(
            named,
            (
                &json!("api"),
                &json!("Pagemark/one"),
                &json!([["Function"]])
            )
        );
        let names = directive["Metrics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|metric| metric["Name"].as_str().unwrap());
        let known = Series::VARIANTS
            .iter()
            .map(<&str>::from)
            .filter(|name| line[name].is_number());
        assert!(names.eq(known), "{line}");
    }
    assert!(
        Series::VARIANTS
            .iter()
            .all(|series| !values(&lines, series.into()).is_empty()),
        "{lines:?}"
    );
    let counted =
        sum("pagemark_http_requests_total", "") - sum("pagemark_http_requests_total", "/metrics");
    assert_eq!(added(&lines, "Requests"), counted);
    for (name, mean) in [
        ("TableTime", mean_ms("table")),
        ("PageIndexTime", mean_ms("page_index")),
    ] {
        let (least, most) = values(&lines, name)
            .into_iter()
            .minmax()
            .into_option()
            .unwrap();
        assert!(
            least * (1.0 - 1e-6) < mean && mean < most * (1.0 + 1e-6),
            "{name}: {mean} in {lines:?}"
        );
    }
    let last = |name: &str| *values(&lines, name).last().unwrap();
    assert_eq!(
        ["RequestsInFlight", "AnswerBytes", "PageIndexAvailable"].map(last),
        [0.0, 0.0, 1.0],
        "{lines:?}"
    );
    let none = [
        "ServerErrors",
        "RequestsShed",
        "DriftSigns",
        "MalformedItems",
    ];
    assert_eq!(none.map(|name| added(&lines, name)), [0.0; 4], "{lines:?}");
    stores.index.clear().await.unwrap();
}
