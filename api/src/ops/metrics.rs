//! What is counted.
//!
//! **Invariant:** no label holds text that a client sends: routes are labelled by their patterns, and unknown methods
//! as `other`. So the number of time series is bounded.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use actix_web::http::{Method, StatusCode};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, text::encode},
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

use super::index_watch::IndexAnswerKind;

/// Upper bounds of durations, in seconds: from an immediate answer to a request's time-out.
const DURATION_BUCKETS: [f64; 14] =
    [0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.125, 0.25, 0.5, 1.0, 2.5, 8.0, 25.0];

/// A call of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StoreCall {
    Comment,
    Page,
    Create,
    Patch,
    Delete,
    PageStart,
    Position,
    Stats,
    Catalog,
    Readiness,
}

impl StoreCall {
    /// The store, and the name of the call.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Comment => ("table", "comment"),
            Self::Page => ("table", "page"),
            Self::Create => ("table", "create"),
            Self::Patch => ("table", "patch"),
            Self::Delete => ("table", "delete"),
            Self::PageStart => ("page_index", "page_start"),
            Self::Position => ("page_index", "position"),
            Self::Stats => ("page_index", "stats"),
            Self::Catalog => ("page_index", "catalog"),
            Self::Readiness => ("page_index", "readiness"),
        }
    }
}

/// How table and page index differed when a page was read. A write that is still on its way looks the same, so a few
/// differences are normal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DriftSign {
    /// The table has fewer comments for the page than the ranks promise.
    ShortPage,
    /// The page shows comments that the ranks do not count, or the table has comments beyond all ranks.
    Unranked,
    /// The page index promises comments, and the table has none of them.
    EmptyPage,
}

impl DriftSign {
    fn name(self) -> &'static str {
        match self {
            Self::ShortPage => "short_page",
            Self::Unranked => "unranked",
            Self::EmptyPage => "empty_page",
        }
    }
}

/// Durations by their labels.
type Durations<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

/// Labels whose values are names of this service.
type Names<const N: usize> = [(&'static str, &'static str); N];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: &'static str,
    status: u16,
}

/// A gauge of 0 or 1, which is absent until it is known.
#[derive(Debug, Clone, Default)]
struct KnownFlag(Arc<Mutex<Option<bool>>>);

impl KnownFlag {
    fn set(&self, flag: bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(flag);
    }
}

impl EncodeMetric for KnownFlag {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let flag = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flag.map_or(Ok(()), |flag| encoder.encode_gauge(&i64::from(flag)))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// All counters of the service.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Durations<[(&'static str, String); 1]>,
    /// Requests under way.
    pub(crate) in_flight: Gauge,
    answer_bytes: Gauge,
    /// Refused requests.
    pub(crate) shed: Counter,
    store_calls: Durations<Names<3>>,
    index_answers: Family<Names<1>, Counter>,
    index_available: KnownFlag,
    index_partitions: Family<Names<1>, Gauge>,
    drift_signs: Family<Names<1>, Counter>,
    malformed_items: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("pagemark");
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
            in_flight: Gauge::default(),
            answer_bytes: Gauge::default(),
            shed: Counter::default(),
            store_calls: Family::new_with_constructor(durations),
            index_answers: Family::default(),
            index_available: KnownFlag::default(),
            index_partitions: Family::default(),
            drift_signs: Family::default(),
            malformed_items: Counter::default(),
            registry: Registry::default(),
        };
        registry.register("http_requests", "Requests answered", metrics.requests.clone());
        let help = "Time from a request's head to its answer";
        registry.register_with_unit("http_request_duration", help, Unit::Seconds, metrics.durations.clone());
        registry.register("http_requests_in_flight", "Requests under way", metrics.in_flight.clone());
        let help = "Memory held for answers that are being made or have not been taken";
        registry.register_with_unit("http_answer", help, Unit::Bytes, metrics.answer_bytes.clone());
        registry.register("http_requests_shed", "Requests turned away, too many were under way", metrics.shed.clone());
        let help = "Time of a call of a store with its retries";
        registry.register_with_unit("store_call_duration", help, Unit::Seconds, metrics.store_calls.clone());
        registry.register("page_index_answers", "What the page index answered", metrics.index_answers.clone());
        let help = "Whether every partition of the page index that was asked had an answer to believe the last time";
        registry.register("page_index_available", help, metrics.index_available.clone());
        let help = "Partitions of the page index by what they answered the last time";
        registry.register("page_index_partitions", help, metrics.index_partitions.clone());
        let help = "Pages where the table and the page index did not agree; a write on its way looks the same";
        registry.register("drift_signs", help, metrics.drift_signs.clone());
        let help = "Items that pages were shown without, because they are no comments as they must be";
        registry.register("malformed_items", help, metrics.malformed_items.clone());
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version that runs", build);
        // Rates need a first value: a counter of events that have not happened yet is 0, not absent.
        for sign in [DriftSign::ShortPage, DriftSign::Unranked, DriftSign::EmptyPage] {
            drop(metrics.drift_signs.get_or_create_owned(&[("sign", sign.name())]));
        }
        Self { registry, ..metrics }
    }

    /// Counts an answered request. `route` is the pattern that its path matched.
    pub(crate) fn count_request(&self, route: Option<String>, method: &Method, status: StatusCode, took: Duration) {
        let route = route.unwrap_or_else(|| "none".to_owned());
        self.durations.get_or_create(&[("route", route.clone())]).observe(took.as_secs_f64());
        let labels = RequestLabels { route, method: method_name(method), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts an answer of the page index.
    pub(crate) fn count_index_answer(&self, answer: IndexAnswerKind) {
        self.index_answers.get_or_create(&[("answer", answer.name())]).inc();
    }

    /// Counts a sign of drift.
    pub(crate) fn count_drift_sign(&self, sign: DriftSign) {
        self.drift_signs.get_or_create(&[("sign", sign.name())]).inc();
    }

    /// Counts the items that a page leaves out.
    pub(crate) fn count_malformed_items(&self, count: usize) {
        self.malformed_items.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Makes a call of a store and measures it.
    pub(crate) async fn timed<T, E>(
        &self,
        call: StoreCall,
        calling: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let began = Instant::now();
        let result = calling.await;
        let (store, call) = call.names();
        let outcome = if result.is_ok() { "ok" } else { "error" };
        let labels = [("store", store), ("call", call), ("outcome", outcome)];
        self.store_calls.get_or_create(&labels).observe(began.elapsed().as_secs_f64());
        result
    }

    /// All metrics, in the OpenMetrics text format. This sets two gauges: memory held by answers, and partitions of the
    /// page index by their last answer.
    pub(super) fn text(
        &self,
        answer_bytes: usize,
        partitions: &[(IndexAnswerKind, usize)],
    ) -> Result<String, std::fmt::Error> {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.answer_bytes.set(gauge(answer_bytes));
        let known: usize = partitions.iter().map(|(_, count)| count).sum();
        for (kind, count) in partitions.iter().filter(|_| known > 0) {
            self.index_partitions.get_or_create(&[("answer", kind.name())]).set(gauge(*count));
            if *kind == IndexAnswerKind::Ready {
                self.index_available.set(*count == known);
            }
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn durations() -> Histogram {
    Histogram::new(DURATION_BUCKETS)
}

fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn labels_hold_nothing_that_a_client_sends() {
        let metrics = Metrics::new();
        let strange = Method::from_bytes(b"BREW").unwrap();
        metrics.count_request(None, &strange, StatusCode::NOT_FOUND, Duration::from_millis(3));
        metrics.in_flight.inc();
        let text = metrics.text(7, &[(IndexAnswerKind::Ready, 0), (IndexAnswerKind::Broken, 0)]).unwrap();
        assert!(text.contains(r#"pagemark_http_requests_total{route="none",method="other",status="404"} 1"#), "{text}");
        assert!(text.contains("pagemark_http_requests_in_flight 1"), "{text}");
        assert!(text.contains("pagemark_http_answer_bytes 7"), "{text}");
        assert!(text.contains(r#"pagemark_drift_signs_total{sign="short_page"} 0"#), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_state_of_the_page_index_is_absent_until_it_is_known() {
        let metrics = Metrics::new();
        let text = |ready, broken| {
            let answers = [(IndexAnswerKind::Ready, ready), (IndexAnswerKind::Broken, broken)];
            let text = metrics.text(0, &answers).unwrap();
            let of_the_index = |line: &&str| line.starts_with("pagemark_page_index_") && !line.contains("_answers");
            text.lines().filter(of_the_index).map(str::to_owned).collect::<BTreeSet<_>>()
        };
        assert_eq!(text(0, 0), BTreeSet::new());
        let lines = |available: u8, ready: u8, broken: u8| {
            BTreeSet::from([
                format!("pagemark_page_index_available {available}"),
                format!("pagemark_page_index_partitions{{answer=\"broken\"}} {broken}"),
                format!("pagemark_page_index_partitions{{answer=\"ready\"}} {ready}"),
            ])
        };
        assert_eq!(text(2, 1), lines(0, 2, 1));
        assert_eq!(text(3, 0), lines(1, 3, 0));
    }

    #[tokio::test]
    async fn a_call_is_measured_whatever_its_outcome() {
        let metrics = Metrics::new();
        assert_eq!(metrics.timed(StoreCall::Page, async { Ok::<_, ()>(5) }).await, Ok(5));
        assert_eq!(metrics.timed(StoreCall::Page, async { Err::<(), _>(7) }).await, Err(7));
        let text = metrics.text(0, &[]).unwrap();
        for outcome in ["ok", "error"] {
            let labels = format!(r#"store="table",call="page",outcome="{outcome}""#);
            assert!(text.contains(&format!("pagemark_store_call_duration_seconds_count{{{labels}}} 1")), "{text}");
        }
    }
}
