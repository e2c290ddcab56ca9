//! The bill in docs/deploy.md counts what the template makes. `libs/cost` adds it up.

use strum::VariantArray;

use super::{alarms::metrics_of_repair, of_type, project_file};

/// Metrics of a mapping of a stream: those of `EventCount`, without `DeletedEventCount`, which is
/// of queues.
const OF_MAPPING: usize = 6;

/// The rows of the bill: those after its head, up to an empty line.
fn bill() -> Vec<Vec<String>> {
    let document = project_file("docs/deploy.md");
    let (_, table) = document.split_once("\n| a month | price |").unwrap();
    let mut rows = Vec::new();
    for line in table.lines().skip(2) {
        if !line.starts_with('|') {
            break;
        }
        let cells = line.trim_matches('|').split('|');
        rows.push(cells.map(|cell| cell.trim().to_owned()).collect());
    }
    rows
}

/// The row of the bill that begins with this text.
fn row<'bill>(bill: &'bill [Vec<String>], start: &str) -> &'bill [String] {
    bill.iter()
        .find(|row| row[0].starts_with(start))
        .unwrap_or_else(|| panic!("no row begins {start:?}"))
}

/// The sum of money in a cell, such as `$1,250`, in cents.
fn cents(cell: &str) -> usize {
    let Some((_, amount)) = cell.split_once('$') else {
        panic!("{cell}");
    };
    let amount = amount.replace(['*', ','], "");
    let (dollars, cents) = amount.split_once('.').unwrap_or((&amount, "00"));
    let dollars: usize = dollars.parse().unwrap_or_else(|_| panic!("{cell}"));
    let cents: usize = cents.parse().unwrap_or_else(|_| panic!("{cell}"));
    dollars * 100 + cents
}

fn count(kind: &str) -> usize {
    of_type(kind).len()
}

#[test]
#[ignore = "needs Python packages"]
fn the_bill_counts_the_metrics_alarms_and_secrets_that_the_template_makes() {
    let alarms = of_type("AWS::CloudWatch::Alarm");
    let mut watched = 0;
    for (_, alarm) in &alarms {
        // An expression is charged for each of its metrics.
        watched += alarm.to_string().matches("MetricStat").count().max(1);
    }
    let metrics = 2 * functions::metrics::Metric::ALL.len()
        + metrics_of_repair().len()
        + api::Series::VARIANTS.len()
        + count("AWS::Logs::MetricFilter")
        + OF_MAPPING * count("AWS::Lambda::EventSourceMapping");
    let bill = bill();
    let of_metrics = row(&bill, &format!("{metrics} metrics of "));
    assert_eq!(cents(&of_metrics[2]), metrics * 30);
    let alarms = alarms.len();
    let dashboards = count("AWS::CloudWatch::Dashboard");
    let secrets = count("AWS::SecretsManager::Secret");
    let of_alarms = row(&bill, &format!("{alarms} alarms on {watched} metrics; "));
    assert_eq!(cents(&of_alarms[2]), watched * 10);
    let of_both = row(&bill, &format!("{dashboards} dashboard, {secrets} secret"));
    assert_eq!(cents(&of_both[2]), dashboards * 300 + secrets * 40);
}
