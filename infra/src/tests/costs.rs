//! Checks that the bill in docs/deploy.md counts what the template makes, and is added up correctly.

use serde_json::Value;

use super::{alarms::hourly_run, deployed, file};

/// Metrics of a mapping of a stream: those of `EventCount`, without `DeletedEventCount`, which is of queues.
const OF_MAPPING: usize = 6;

/// The rows of a table of the document: those after its head, up to an empty line.
fn rows(head: &str) -> Vec<Vec<String>> {
    let document = file("docs/deploy.md");
    let (_, table) = document.split_once(head).unwrap_or_else(|| panic!("there is no table {head}"));
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// The sum of money in a cell, such as `$1,250` or `at most $5`, in cents.
fn cents(cell: &str) -> usize {
    let amount = cell.split_once('$').unwrap_or_else(|| panic!("{cell}")).1.replace(['*', ','], "");
    let (dollars, cents) = amount.split_once('.').unwrap_or((&amount, "00"));
    let number = |digits: &str| digits.parse::<usize>().unwrap_or_else(|_| panic!("{cell}"));
    number(dollars) * 100 + number(cents)
}

#[test]
fn the_bill_counts_the_metrics_alarms_and_secrets_that_the_template_makes() {
    let stack = deployed(&[]);
    let count = |kind: &str| stack.values().filter(|resource| resource["Type"] == kind).count();
    let alarms = stack.values().filter(|resource| resource["Type"] == "AWS::CloudWatch::Alarm");
    // An expression is charged for each of its metrics.
    let watched: usize = alarms
        .map(|alarm| match alarm["Properties"]["Metrics"].as_array() {
            Some(metrics) => metrics.iter().filter(|metric| metric.get("MetricStat").is_some()).count(),
            None => 1,
        })
        .sum();
    let namespace = "Pagemark/pagemark";
    let of_repair: Value = serde_json::from_str(&repair_job::metrics_line(&hourly_run(), namespace)).unwrap();
    let of_repair = of_repair["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap().len();
    let metrics = 2 * functions::metrics::Metric::ALL.len()
        + of_repair
        + api::Series::ALL.len()
        + count("AWS::Logs::MetricFilter")
        + OF_MAPPING * count("AWS::Lambda::EventSourceMapping");
    let bill = rows("\n| a month | price |");
    let row = |start: &str| {
        bill.iter().find(|row| row[0].starts_with(start)).unwrap_or_else(|| panic!("no row begins {start:?}"))
    };
    assert_eq!(cents(&row(&format!("{metrics} metrics of "))[2]), metrics * 30);
    let (alarms, dashboards) = (count("AWS::CloudWatch::Alarm"), count("AWS::CloudWatch::Dashboard"));
    let secrets = count("AWS::SecretsManager::Secret");
    let start = format!("{alarms} alarms on {watched} metrics, {dashboards} dashboard, {secrets} secret");
    assert_eq!(cents(&row(&start)[2]), watched * 10 + dashboards * 300 + secrets * 40);
}

#[test]
fn the_columns_of_the_bill_are_added_up() {
    for (head, columns, rounded) in [("\n| a month | price |", 2..4, 1_000), ("\n| a month, with the CDN", 2..3, 1)] {
        let mut bill = rows(head);
        let together = bill.pop().unwrap();
        assert!(together[0].starts_with("**together"), "{together:?}");
        for column in columns {
            let sum: usize = bill.iter().map(|row| cents(&row[column])).sum();
            let said = cents(&together[column]);
            assert!(sum.abs_diff(said) < rounded, "{head}: {sum} cents are said to be {said}");
        }
    }
}
