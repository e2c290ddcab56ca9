//! The bill in docs/deploy.md counts what the template makes, and is added up correctly.

use strum::VariantArray;

use super::{alarms::metrics_of_repair, of_type, project_file};

/// Metrics of a mapping of a stream: those of `EventCount`, without `DeletedEventCount`, which is
/// of queues.
const OF_MAPPING: usize = 6;

/// The rows of the bill: those after its head, up to an empty line.
fn bill() -> Vec<Vec<String>> {
    let document = project_file("docs/deploy.md");
    let (_, table) = document.split_once("\n| a month | price |").unwrap();
    let lines = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    lines
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

/// The sum of money in a cell, such as `$1,250` or `at most $5`, in cents.
fn cents(cell: &str) -> usize {
    let amount = cell
        .split_once('$')
        .unwrap_or_else(|| panic!("{cell}"))
        .1
        .replace(['*', ','], "");
    let (dollars, cents) = amount.split_once('.').unwrap_or((&amount, "00"));
    let number = |digits: &str| digits.parse::<usize>().unwrap_or_else(|_| panic!("{cell}"));
    number(dollars) * 100 + number(cents)
}

#[test]
fn the_bill_counts_the_metrics_alarms_and_secrets_that_the_template_makes() {
    let count = |kind: &str| of_type(kind).len();
    // An expression is charged for each of its metrics.
    let alarms = of_type("AWS::CloudWatch::Alarm");
    let watched: usize = alarms
        .iter()
        .map(|(_, alarm)| alarm.to_string().matches("MetricStat").count().max(1))
        .sum();
    let metrics = 2 * functions::metrics::Metric::ALL.len()
        + metrics_of_repair().len()
        + api::Series::VARIANTS.len()
        + count("AWS::Logs::MetricFilter")
        + OF_MAPPING * count("AWS::Lambda::EventSourceMapping");
    let bill = bill();
    let row = |start: &str| {
        bill.iter()
            .find(|row| row[0].starts_with(start))
            .unwrap_or_else(|| panic!("no row begins {start:?}"))
    };
    assert_eq!(
        cents(&row(&format!("{metrics} metrics of "))[2]),
        metrics * 30
    );
    let (alarms, dashboards) = (alarms.len(), count("AWS::CloudWatch::Dashboard"));
    let secrets = count("AWS::SecretsManager::Secret");
    let start =
        format!("{alarms} alarms on {watched} metrics, {dashboards} dashboard, {secrets} secret");
    assert_eq!(
        cents(&row(&start)[2]),
        watched * 10 + dashboards * 300 + secrets * 40
    );
}

#[test]
fn the_columns_of_the_bill_are_added_up_to_the_dollar() {
    let mut bill = bill();
    let together = bill.pop().unwrap();
    assert!(together[0].starts_with("**together"), "{together:?}");
    for column in 2..4 {
        let sum: usize = bill.iter().map(|row| cents(&row[column])).sum();
        assert_eq!(
            cents(&together[column]),
            (sum + 50) / 100 * 100,
            "column {column} adds up to {sum} cents"
        );
    }
}
