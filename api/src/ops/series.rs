//! The series that CloudWatch shows of the API, which nothing scrapes in a deployed stack. The log has a line with them
//! every minute, in the embedded metric format, and a last one at the end of the process.

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

impl Series {
    pub const ALL: &[Self] = Self::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Its unit in CloudWatch (Amazon CloudWatch API reference: `MetricDatum`).
    fn unit(self) -> &'static str {
        match self {
            Self::AnswerBytes => "Bytes",
            Self::TableTime | Self::PageIndexTime => "Milliseconds",
            Self::PageIndexAvailable => "None",
            Self::Requests | Self::ServerErrors | Self::RequestsShed | Self::RequestsInFlight => "Count",
            Self::DriftSigns | Self::MalformedItems => "Count",
        }
    }

    /// The value of the time between two snapshots. `None` without any.
    fn value(self, now: &Snapshot, before: &Snapshot) -> Option<Value> {
        let rose = |of: fn(&Snapshot) -> u64| Some(Value::from(of(now) - of(before)));
        match self {
            Self::Requests => rose(|at| at.requests),
            Self::ServerErrors => rose(|at| at.server_errors),
            Self::RequestsShed => rose(|at| at.shed),
            Self::RequestsInFlight => Some(now.in_flight.into()),
            Self::AnswerBytes => Some(now.answer_bytes.into()),
            Self::TableTime => now.table.mean_ms_since(before.table),
            Self::PageIndexTime => now.page_index.mean_ms_since(before.page_index),
            Self::PageIndexAvailable => now.page_index_available.map(|is_available| u8::from(is_available).into()),
            Self::DriftSigns => rose(|at| at.drift_signs),
            Self::MalformedItems => rose(|at| at.malformed_items),
        }
    }
}

/// What the metrics say at an instant. Counters count from the start of the process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Snapshot {
    /// Without those of health checks, as are the server errors among them.
    pub(crate) requests: u64,
    pub(crate) server_errors: u64,
    pub(crate) shed: u64,
    pub(crate) in_flight: usize,
    pub(crate) answer_bytes: usize,
    pub(crate) table: Calls,
    pub(crate) page_index: Calls,
    /// `None` until the page index has been asked.
    pub(crate) page_index_available: Option<bool>,
    pub(crate) drift_signs: u64,
    pub(crate) malformed_items: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calls {
    pub(crate) count: u64,
    /// How long they took together.
    pub(crate) seconds: f64,
}

impl Calls {
    fn mean_ms_since(self, before: Self) -> Option<Value> {
        let count = u32::try_from(self.count - before.count).ok().filter(|count| *count > 0)?;
        Some((1e3 * (self.seconds - before.seconds) / f64::from(count)).into())
    }
}

fn line(namespace: &str, at_epoch_ms: i64, now: &Snapshot, before: &Snapshot) -> String {
    let values =
        Series::ALL.iter().filter_map(|series| Some((series.name(), series.unit(), series.value(now, before)?)));
    emf::line(namespace, PROCESS, at_epoch_ms, &values.collect::<Vec<_>>())
}

/// Prints a line every minute, and the last one when `end` completes.
pub(crate) async fn print_until(end: impl Future<Output = ()>, namespace: String, snapshot: impl Fn() -> Snapshot) {
    let mut end = pin!(end);
    let mut minutes = tokio::time::interval_at(tokio::time::Instant::now() + PERIOD, PERIOD);
    let mut before = Snapshot::default();
    let mut is_last = false;
    while !is_last {
        is_last = tokio::select! {
            _ = minutes.tick() => false,
            () = &mut end => true,
        };
        let now = snapshot();
        println!("{}", line(&namespace, process::now().epoch_ms(), &now, &before));
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_what_was_added_since_the_one_before() {
        let values = |now: &Snapshot, before: &Snapshot| {
            let line: Value = serde_json::from_str(&line("Pagemark/one", 1_700_000_000_123, now, before)).unwrap();
            let directive = &line["_aws"]["CloudWatchMetrics"][0];
            assert_eq!((&line["Function"], &directive["Namespace"]), (&"api".into(), &"Pagemark/one".into()));
            for metric in directive["Metrics"].as_array().unwrap() {
                assert!(line[metric["Name"].as_str().unwrap()].is_number(), "{line}");
            }
            ["Requests", "ServerErrors", "RequestsInFlight", "TableTime", "PageIndexAvailable"]
                .map(|name| line[name].as_f64())
        };
        let first = Snapshot {
            requests: 5,
            server_errors: 1,
            in_flight: 2,
            table: Calls { count: 4, seconds: 0.5 },
            ..Snapshot::default()
        };
        assert_eq!(values(&first, &Snapshot::default()), [Some(5.0), Some(1.0), Some(2.0), Some(125.0), None]);
        let table = Calls { count: 6, seconds: 0.75 };
        let second = Snapshot { requests: 7, table, page_index_available: Some(false), ..first };
        assert_eq!(values(&second, &first), [Some(2.0), Some(0.0), Some(2.0), Some(125.0), Some(0.0)]);
        assert_eq!(values(&second, &second), [Some(0.0), Some(0.0), Some(2.0), None, Some(0.0)]);
    }
}
