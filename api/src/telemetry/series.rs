//! The series that CloudWatch shows of the API, which nothing scrapes in a deployed stack. The log
//! has a line with them every minute, in the embedded metric format, and a last one at the end of
//! the process.

use std::{pin::pin, time::Duration};

use process::emf;
use serde_json::Value;
use strum::{IntoStaticStr, VariantArray};

/// The value of the dimension: the name of this process among those of a stack.
pub const PROCESS: &str = "api";

/// Pause between two lines: the resolution of CloudWatch's metrics.
const PERIOD: Duration = Duration::from_secs(60);

/// A series. All tasks of a stack share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray, IntoStaticStr)]
pub enum Series {
    /// Requests answered, without those of health checks.
    Requests,
    /// Answers 500 to 599 among them.
    ServerErrors,
    RequestsShed,
    RequestsInFlight,
    AnswerBytes,
    /// Mean time of a call of the table, with its retries.
    TableTime,
    /// Mean time of a call of the page index, with its retries.
    PageIndexTime,
    /// 1 if every partition of the page index had an answer to believe the last time, 0 otherwise.
    PageIndexAvailable,
    DriftSigns,
    MalformedItems,
}

/// What the metrics say at an instant: the series in their order, each with its unit in CloudWatch
/// (Amazon CloudWatch API reference: `MetricDatum`).
pub(crate) type Snapshot = Vec<(Series, &'static str, Reading)>;

#[derive(Debug, Clone)]
pub(crate) enum Reading {
    /// Shown as it is; `None` while it is unknown.
    Level(Option<Value>),
    /// A counter since the start of the process: what was added is shown.
    Total(u64),
    /// Calls since the start of the process, and how long they took together: their mean time is
    /// shown, in milliseconds.
    Calls { count: u64, seconds: f64 },
}

impl Reading {
    fn value_since(&self, before: &Self) -> Option<Value> {
        match (self, before) {
            (Self::Total(now), Self::Total(before)) => Some((now - before).into()),
            (
                Self::Calls { count, seconds },
                Self::Calls {
                    count: count_before,
                    seconds: seconds_before,
                },
            ) => {
                let count = u32::try_from(count - count_before)
                    .ok()
                    .filter(|count| *count > 0)?;
                Some((1e3 * (seconds - seconds_before) / f64::from(count)).into())
            }
            (Self::Level(now), _) => now.clone(),
            (Self::Total(_) | Self::Calls { .. }, _) => None,
        }
    }
}

fn line(namespace: &str, at_epoch_ms: i64, now: &Snapshot, before: &Snapshot) -> String {
    let values = now
        .iter()
        .zip(before)
        .filter_map(|((series, unit, now), (_, _, before))| {
            Some((series.into(), *unit, now.value_since(before)?))
        });
    emf::line(namespace, PROCESS, at_epoch_ms, &values.collect::<Vec<_>>())
}

/// Serves, and prints a line every minute and a last one at the end.
pub(crate) async fn print_during<Ended>(
    serving: impl Future<Output = Ended>,
    namespace: &str,
    snapshot: impl Fn() -> Snapshot,
) -> Ended {
    let mut serving = pin!(serving);
    let mut minutes = tokio::time::interval_at(tokio::time::Instant::now() + PERIOD, PERIOD);
    let mut before = snapshot();
    loop {
        let ended = tokio::select! {
            _ = minutes.tick() => None,
            ended = &mut serving => Some(ended),
        };
        let now = snapshot();
        println!(
            "{}",
            line(namespace, process::now().epoch_ms(), &now, &before)
        );
        before = now;
        if let Some(ended) = ended {
            return ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values in a line: of requests, requests in flight, the table's time, and whether the
    /// page index is available.
    fn values(now: &Snapshot, before: &Snapshot) -> [Option<f64>; 4] {
        let line = line("Pagemark/one", 1_700_000_000_123, now, before);
        let line: Value = serde_json::from_str(&line).unwrap();
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(
            (&line["Function"], &directive["Namespace"]),
            (&"api".into(), &"Pagemark/one".into())
        );
        for metric in directive["Metrics"].as_array().unwrap() {
            assert!(line[metric["Name"].as_str().unwrap()].is_number(), "{line}");
        }
        [
            "Requests",
            "RequestsInFlight",
            "TableTime",
            "PageIndexAvailable",
        ]
        .map(|name| line[name].as_f64())
    }

    fn calls(count: u64, seconds: f64) -> Reading {
        Reading::Calls { count, seconds }
    }

    fn snapshot(requests: u64, table: Reading, is_available: Option<u8>) -> Snapshot {
        let requests = Reading::Total(requests);
        let in_flight = Reading::Level(Some(2.into()));
        let is_available = Reading::Level(is_available.map(Value::from));
        vec![
            (Series::Requests, "Count", requests),
            (Series::RequestsInFlight, "Count", in_flight),
            (Series::TableTime, "Milliseconds", table),
            (Series::PageIndexAvailable, "None", is_available),
        ]
    }

    #[test]
    fn each_line_has_what_was_added_since_the_one_before() {
        let none = snapshot(0, calls(0, 0.0), None);
        let first = snapshot(5, calls(4, 0.5), None);
        assert_eq!(
            values(&first, &none),
            [Some(5.0), Some(2.0), Some(125.0), None]
        );
        let second = snapshot(7, calls(6, 0.75), Some(0));
        assert_eq!(
            values(&second, &first),
            [Some(2.0), Some(2.0), Some(125.0), Some(0.0)]
        );
        assert_eq!(
            values(&second, &second),
            [Some(0.0), Some(2.0), None, Some(0.0)]
        );
    }
}
