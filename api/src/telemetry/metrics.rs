//! Counters and histograms.
//!
//! **Invariant:** no label holds text that a client sends: routes are labelled by their patterns,
//! and unknown methods as `other`. So the number of time series is bounded.

use std::{hash::Hash, sync::atomic::AtomicU64, time::Duration};

use actix_web::http::{Method, StatusCode};
use prometheus_client::{
    encoding::{
        EncodeLabelSet,
        text::{encode, encode_registry},
    },
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
        info::Info,
    },
    registry::{Metric, Registry, Unit},
};
use strum::{IntoStaticStr, VariantArray};
use table::{AnsweredQuery, EndedCall, Observer};

use super::{
    cost,
    index_watch::IndexAnswerKind,
    is_operational,
    series::{Reading, Series, Snapshot},
};

const PREFIX: &str = "pagemark";

/// Upper bounds of durations, in seconds: from an immediate answer to a request's time-out.
const DURATION_BUCKETS: [f64; 14] = [
    0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.125, 0.25, 0.5, 1.0, 2.5, 8.0, 25.0,
];

#[derive(Debug, Clone, Copy, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum CalledStore {
    Table,
    PageIndex,
}

/// How table and page index differed when a page was read. A write that is still on its way looks
/// the same, so a few differences are normal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum DriftSign {
    /// A comment that a rank names exists, but its duplicate under the filter does not, or is
    /// malformed.
    MissingDuplicate,
    /// A rank names a comment that does not exist, or that the table has elsewhere.
    RankWithoutComment,
    /// The table has a duplicate whose comment has no rank.
    RowWithoutRank,
}

type Durations<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

/// Labels whose values are names of this service.
type NameLabels<const N: usize> = [(&'static str, &'static str); N];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StoreCallLabels {
    store: &'static str,
    call: String,
    outcome: &'static str,
}

#[derive(Debug)]
pub(crate) struct ApiMetrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Durations<[(&'static str, String); 1]>,
    pub(crate) shed: Counter,
    pub(crate) malformed_requests: Counter,
    store_calls: Durations<StoreCallLabels>,
    index_answers: Family<NameLabels<1>, Counter>,
    drift_signs: Family<NameLabels<1>, Counter>,
    malformed_items: Counter,
    sums: Sums,
}

/// Sums over labels, for snapshots.
#[derive(Debug, Default)]
struct Sums {
    requests: Counter,
    server_errors: Counter,
    drift_signs: Counter,
    table: CallSums,
    page_index: CallSums,
}

#[derive(Debug, Default)]
struct CallSums {
    count: Counter,
    seconds: Counter<f64, AtomicU64>,
}

impl CallSums {
    fn get(&self) -> Reading {
        Reading::Calls {
            count: self.count.get(),
            seconds: self.seconds.get(),
        }
    }
}

impl ApiMetrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version that runs", build);
        let metrics = Self {
            requests: registered(&mut registry, "http_requests", "Requests answered"),
            durations: durations(
                &mut registry,
                "http_request_duration",
                "Time from a request's head to its answer",
            ),
            shed: registered(
                &mut registry,
                "http_requests_shed",
                "Requests turned away, too many were under way",
            ),
            malformed_requests: registered(
                &mut registry,
                "http_requests_malformed",
                "Requests refused before a route was known: they are not HTTP, or came too slowly",
            ),
            store_calls: durations(
                &mut registry,
                "store_call_duration",
                "Time of a call of a store with its retries",
            ),
            index_answers: registered(
                &mut registry,
                "page_index_answers",
                "What the page index answered",
            ),
            drift_signs: registered(
                &mut registry,
                "drift_signs",
                "Pages where the table and the page index did not agree; a write on its way looks the same",
            ),
            malformed_items: registered(
                &mut registry,
                "malformed_items",
                "Items that pages were shown without, because they are no comments as they must be",
            ),
            sums: Sums::default(),
            registry,
        };
        // Rates need a first value: a counter of events that have not happened yet is 0, not
        // absent.
        for sign in DriftSign::VARIANTS {
            drop(
                metrics
                    .drift_signs
                    .get_or_create_owned(&[("sign", sign.into())]),
            );
        }
        metrics
    }

    /// Counts an answered request. `route` is the pattern that its path matched.
    pub(crate) fn count_request(
        &self,
        route: Option<String>,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let route = route.unwrap_or_else(|| "none".to_owned());
        if !is_operational(&route) {
            self.sums.requests.inc();
            self.sums
                .server_errors
                .inc_by(status.is_server_error().into());
        }
        self.durations
            .get_or_create(&[("route", route.clone())])
            .observe(took.as_secs_f64());
        let labels = RequestLabels {
            route,
            method: method_name(method),
            status: status.as_u16(),
        };
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn count_index_answer(&self, answer: IndexAnswerKind) {
        self.index_answers
            .get_or_create(&[("answer", answer.into())])
            .inc();
    }

    pub(crate) fn count_drift_sign(&self, sign: DriftSign) {
        self.drift_signs
            .get_or_create(&[("sign", sign.into())])
            .inc();
        self.sums.drift_signs.inc();
    }

    pub(crate) fn count_malformed_items(&self, count: usize) {
        self.malformed_items
            .inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Counts a call of a store that has ended, and adds it to the cost of the request.
    pub(crate) fn count_store_call(
        &self,
        store: CalledStore,
        call: &str,
        took: Duration,
        is_ok: bool,
    ) {
        let sums = match store {
            CalledStore::Table => &self.sums.table,
            CalledStore::PageIndex => &self.sums.page_index,
        };
        let labels = StoreCallLabels {
            store: store.into(),
            call: call.to_owned(),
            outcome: if is_ok { "ok" } else { "error" },
        };
        self.store_calls
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        sums.count.inc();
        sums.seconds.inc_by(took.as_secs_f64());
        cost::note_call(store.into(), took);
    }

    /// The arguments are those of [`ApiMetrics::text`].
    pub(crate) fn snapshot(
        &self,
        in_flight: usize,
        answer_bytes: usize,
        partitions: &[(IndexAnswerKind, usize)],
    ) -> Snapshot {
        let is_available =
            is_available(partitions).map(|is_available| u8::from(is_available).into());
        vec![
            (Series::Requests, "Count", total(&self.sums.requests)),
            (
                Series::ServerErrors,
                "Count",
                total(&self.sums.server_errors),
            ),
            (Series::RequestsShed, "Count", total(&self.shed)),
            (
                Series::RequestsInFlight,
                "Count",
                Reading::Level(Some(in_flight.into())),
            ),
            (
                Series::AnswerBytes,
                "Bytes",
                Reading::Level(Some(answer_bytes.into())),
            ),
            (Series::TableTime, "Milliseconds", self.sums.table.get()),
            (
                Series::PageIndexTime,
                "Milliseconds",
                self.sums.page_index.get(),
            ),
            (
                Series::PageIndexAvailable,
                "None",
                Reading::Level(is_available),
            ),
            (Series::DriftSigns, "Count", total(&self.sums.drift_signs)),
            (
                Series::MalformedItems,
                "Count",
                total(&self.malformed_items),
            ),
        ]
    }

    /// All metrics, in the OpenMetrics text format. `in_flight` is the number of requests under
    /// way; `answer_bytes` is the memory held by answers; `partitions` are the partitions of the
    /// page index by their last answer, which are left out until one is known.
    pub(crate) fn text(
        &self,
        in_flight: usize,
        answer_bytes: usize,
        partitions: &[(IndexAnswerKind, usize)],
    ) -> Result<String, std::fmt::Error> {
        let mut present = Registry::with_prefix(PREFIX);
        present.register(
            "http_requests_in_flight",
            "Requests under way",
            ConstGauge::new(gauge_value(in_flight)),
        );
        let help = "Memory held for answers that are being made or have not been taken";
        present.register_with_unit(
            "http_answer",
            help,
            Unit::Bytes,
            ConstGauge::new(gauge_value(answer_bytes)),
        );
        if let Some(is_available) = is_available(partitions) {
            let help = "Partitions of the page index by what they answered the last time";
            let by_answer: Family<NameLabels<1>, Gauge> =
                registered(&mut present, "page_index_partitions", help);
            for (kind, count) in partitions {
                by_answer
                    .get_or_create(&[("answer", kind.into())])
                    .set(gauge_value(*count));
            }
            let help = "Whether every partition of the page index that was asked had an answer to believe the last time";
            present.register(
                "page_index_available",
                help,
                ConstGauge::new(i64::from(is_available)),
            );
        }
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode(&mut text, &present)?;
        Ok(text)
    }
}

impl Observer for ApiMetrics {
    fn call_ended(&self, call: &EndedCall<'_>) {
        self.count_store_call(CalledStore::Table, call.operation, call.took, call.is_ok);
    }

    fn page_query_answered(&self, query: &AnsweredQuery<'_>) {
        cost::note_query(query);
    }
}

/// Whether every partition that was asked had an answer to believe the last time. `None` until one
/// was asked.
fn is_available(partitions: &[(IndexAnswerKind, usize)]) -> Option<bool> {
    let mut asked = partitions.iter().filter(|(_, count)| *count > 0).peekable();
    asked.peek()?;
    Some(asked.all(|(kind, _)| *kind == IndexAnswerKind::Ready))
}

fn total(counter: &Counter) -> Reading {
    Reading::Total(counter.get())
}

fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// New durations in the registry, in seconds.
fn durations<L>(registry: &mut Registry, name: &str, help: &str) -> Durations<L>
where
    Durations<L>: Metric + Clone,
    L: Clone + Hash + Eq,
{
    let new: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
    let durations = Family::new_with_constructor(new);
    registry.register_with_unit(name, help, Unit::Seconds, durations.clone());
    durations
}

fn method_name(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
    known
        .into_iter()
        .find(|name| *name == method.as_str())
        .unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn labels_hold_nothing_that_a_client_sends() {
        let metrics = ApiMetrics::new();
        let strange = Method::from_bytes(b"BREW").unwrap();
        metrics.count_request(
            None,
            &strange,
            StatusCode::NOT_FOUND,
            Duration::from_millis(3),
        );
        let text = metrics
            .text(
                1,
                7,
                &[(IndexAnswerKind::Ready, 0), (IndexAnswerKind::Broken, 0)],
            )
            .unwrap();
        assert!(
            text.contains(
                r#"pagemark_http_requests_total{route="none",method="other",status="404"} 1"#
            ),
            "{text}"
        );
        assert!(
            text.contains("pagemark_http_requests_in_flight 1"),
            "{text}"
        );
        assert!(text.contains("pagemark_http_answer_bytes 7"), "{text}");
        assert!(
            text.contains(r#"pagemark_drift_signs_total{sign="row_without_rank"} 0"#),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"));
    }

    /// The lines about the page index after so many answers of both kinds.
    fn lines_of_the_index(metrics: &ApiMetrics, ready: usize, broken: usize) -> BTreeSet<String> {
        let answers = [
            (IndexAnswerKind::Ready, ready),
            (IndexAnswerKind::Broken, broken),
        ];
        let text = metrics.text(0, 0, &answers).unwrap();
        let mut lines = BTreeSet::new();
        for line in text.lines() {
            if line.starts_with("pagemark_page_index_") && !line.contains("_answers") {
                lines.insert(line.to_owned());
            }
        }
        lines
    }

    fn expected_lines(available: u8, ready: u8, broken: u8) -> BTreeSet<String> {
        BTreeSet::from([
            format!("pagemark_page_index_available {available}"),
            format!("pagemark_page_index_partitions{{answer=\"broken\"}} {broken}"),
            format!("pagemark_page_index_partitions{{answer=\"ready\"}} {ready}"),
        ])
    }

    #[test]
    fn the_state_of_the_page_index_is_absent_until_it_is_known() {
        let metrics = ApiMetrics::new();
        assert_eq!(lines_of_the_index(&metrics, 0, 0), BTreeSet::new());
        assert_eq!(lines_of_the_index(&metrics, 2, 1), expected_lines(0, 2, 1));
        assert_eq!(lines_of_the_index(&metrics, 3, 0), expected_lines(1, 3, 0));
    }

    #[test]
    fn a_call_is_measured_whatever_its_outcome() {
        let metrics = ApiMetrics::new();
        for (milliseconds, is_ok) in [(3, true), (5, false)] {
            let took = Duration::from_millis(milliseconds);
            metrics.count_store_call(CalledStore::Table, "Query", took, is_ok);
        }
        let text = metrics.text(0, 0, &[]).unwrap();
        for outcome in ["ok", "error"] {
            let labels = format!(r#"store="table",call="Query",outcome="{outcome}""#);
            assert!(
                text.contains(&format!(
                    "pagemark_store_call_duration_seconds_count{{{labels}}} 1"
                )),
                "{text}"
            );
        }
        let [table, page_index] = [&metrics.sums.table, &metrics.sums.page_index];
        assert_eq!((table.count.get(), page_index.count.get()), (2, 0));
        assert!(
            (table.seconds.get() - 0.008).abs() < 1e-9,
            "{}",
            table.seconds.get()
        );
    }
}
