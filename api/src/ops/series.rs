//! The series that CloudWatch shows of the API, which nothing scrapes in a deployed stack. The log has a line with them
//! every minute, in the embedded metric format, and a last one at the end of the process.
//!
//! **Invariant:** each value comes from the text of `/metrics`. A counter's values add up to what `/metrics` says.

use std::{fmt, pin::pin, time::Duration};

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
    /// Requests turned away because too many were under way.
    RequestsShed,
    /// Requests under way at the end of the minute.
    RequestsInFlight,
    /// Memory held by answers at the end of the minute.
    AnswerBytes,
    /// Mean time of a call of the table, with its retries.
    TableTime,
    /// Mean time of a call of the page index, with its retries.
    PageIndexTime,
    /// 1 if every partition of the page index had an answer to believe the last time, 0 otherwise.
    PageIndexAvailable,
    /// Pages where the table and the page index did not agree.
    DriftSigns,
    /// Items that pages were shown without.
    MalformedItems,
}

impl Series {
    /// Every series.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Its name in CloudWatch.
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

    /// The value since an earlier text of `/metrics`, which is empty for the first one. `None` without any.
    fn value(self, now: &str, before: &str) -> Option<Value> {
        let rose = |name, labels| sum(now, name, labels) - sum(before, name, labels);
        let mean_ms = |store| {
            let count = rose("pagemark_store_call_duration_seconds_count", store);
            (count > 0.0).then(|| (1e3 * rose("pagemark_store_call_duration_seconds_sum", store) / count).into())
        };
        let whole = |number: f64| Value::from(number.round());
        match self {
            Self::Requests => Some(whole(rose("pagemark_http_requests_total", ""))),
            Self::ServerErrors => Some(whole(rose("pagemark_http_requests_total", "status=\"5"))),
            Self::RequestsShed => Some(whole(rose("pagemark_http_requests_shed_total", ""))),
            Self::RequestsInFlight => Some(whole(sum(now, "pagemark_http_requests_in_flight", ""))),
            Self::AnswerBytes => Some(whole(sum(now, "pagemark_http_answer_bytes", ""))),
            Self::TableTime => mean_ms("store=\"table\""),
            Self::PageIndexTime => mean_ms("store=\"page_index\""),
            // It is absent until the page index has been asked.
            Self::PageIndexAvailable => now
                .contains("\npagemark_page_index_available ")
                .then(|| whole(sum(now, "pagemark_page_index_available", ""))),
            Self::DriftSigns => Some(whole(rose("pagemark_drift_signs_total", ""))),
            Self::MalformedItems => Some(whole(rose("pagemark_malformed_items_total", ""))),
        }
    }
}

/// The sum of a metric's samples whose labels contain a text, without those of health checks.
fn sum(text: &str, name: &str, labels: &str) -> f64 {
    let samples = text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    let samples = samples.filter(|(found, _)| found.is_empty() || found.starts_with('{'));
    let is_check = |found: &str| super::PATHS.iter().any(|path| found.contains(&format!("route=\"{path}\"")));
    let counted = samples.filter(|(found, _)| found.contains(labels) && !is_check(found));
    counted.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
}

/// The line of a minute: `now` and `before` are the texts of `/metrics` at its end and at its beginning.
fn line(namespace: &str, at_epoch_ms: i64, now: &str, before: &str) -> String {
    let values =
        Series::ALL.iter().filter_map(|series| Some((series.name(), series.unit(), series.value(now, before)?)));
    emf::line(namespace, PROCESS, at_epoch_ms, &values.collect::<Vec<_>>())
}

/// Prints a line every minute, and the last one when `end` completes.
pub(crate) async fn print_until(
    end: impl Future<Output = ()>,
    namespace: String,
    metrics_text: impl Fn() -> Result<String, fmt::Error>,
) {
    let mut end = pin!(end);
    let mut minutes = tokio::time::interval_at(tokio::time::Instant::now() + PERIOD, PERIOD);
    let mut before = String::new();
    let mut is_last = false;
    while !is_last {
        is_last = tokio::select! {
            _ = minutes.tick() => false,
            () = &mut end => true,
        };
        match metrics_text() {
            Ok(now) => {
                println!("{}", line(&namespace, process::now().epoch_ms(), &now, &before));
                before = now;
            }
            Err(error) => tracing::error!(%error, "the metrics of this minute are lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_what_was_added_since_the_one_before() {
        let text = |read: u32, failed: u32, seconds: f64, more: &str| {
            format!(
                "# TYPE pagemark_http_requests counter\n\
                 pagemark_http_requests_total{{route=\"/livez\",method=\"GET\",status=\"200\"}} 70\n\
                 pagemark_http_requests_total{{route=\"/products\",method=\"GET\",status=\"200\"}} {read}\n\
                 pagemark_http_requests_total{{route=\"none\",method=\"GET\",status=\"503\"}} {failed}\n\
                 pagemark_http_requests_in_flight 2\n\
                 pagemark_store_call_duration_seconds_sum{{store=\"table\",call=\"page\",outcome=\"ok\"}} {seconds}\n\
                 pagemark_store_call_duration_seconds_count{{store=\"table\",call=\"page\",outcome=\"ok\"}} {read}\n\
                 {more}# EOF\n"
            )
        };
        let values = |now: &str, before: &str| {
            let line: Value = serde_json::from_str(&line("Pagemark/one", 1_700_000_000_123, now, before)).unwrap();
            let directive = &line["_aws"]["CloudWatchMetrics"][0];
            assert_eq!((&line["Function"], &directive["Namespace"]), (&"api".into(), &"Pagemark/one".into()));
            for metric in directive["Metrics"].as_array().unwrap() {
                assert!(line[metric["Name"].as_str().unwrap()].is_number(), "{line}");
            }
            ["Requests", "ServerErrors", "RequestsInFlight", "TableTime", "PageIndexAvailable"]
                .map(|name| line[name].as_f64())
        };
        let first = text(4, 1, 0.5, "");
        assert_eq!(values(&first, ""), [Some(5.0), Some(1.0), Some(2.0), Some(125.0), None]);
        let second = text(6, 1, 0.75, "pagemark_page_index_available 0\n");
        assert_eq!(values(&second, &first), [Some(2.0), Some(0.0), Some(2.0), Some(125.0), Some(0.0)]);
        assert_eq!(values(&second, &second), [Some(0.0), Some(0.0), Some(2.0), None, Some(0.0)]);
    }
}
