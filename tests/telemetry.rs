//! Operators see what a deployed process does: CloudWatch by lines of the log, a collector by traces. Neither can fail a
//! request or an invocation.

use ::api::Series;
use futures_util::future::join_all;
use hyper::Method;
use itertools::Itertools;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fixture::{
    api::{ApiProcess, api_variables},
    collector::Collector,
    data::PRODUCT,
    function::{
        Function, SECRET, TIMEOUT, Variables, page_indexer_variables, repair_job_variables, stream_writer_variables,
        with,
    },
    http::{good_comment, listing},
    stores::Stores,
    wait_for,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn below<'a>(spans: &'a [Span], above: &Span) -> Vec<&'a str> {
    let below = spans.iter().filter(|span| span.parent_span_id == above.span_id && span.trace_id == above.trace_id);
    below.map(|span| span.name.as_str()).sorted().dedup().collect()
}

/// The variables of a process that sends its traces. Only an explicit flush sends them before an hour has passed.
fn traced(variables: Variables, url: &str) -> Variables {
    with(variables, &[("PAGEMARK_OTLP_ENDPOINT", url), ("OTEL_BSP_SCHEDULE_DELAY", "3600000")])
}

#[tokio::test]
async fn a_page_is_a_span_of_the_caller_s_trace_above_the_calls_of_both_stores() {
    let stores = Stores::start_with_redis().await;
    stores.fill(45).await;
    let collector = Collector::start().await;
    let api = ApiProcess::start(traced(api_variables(&stores), &collector.url)).await;
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    for flags in ["01", "00"] {
        let traceparent = format!("00-{TRACE}-{PARENT}-{flags}");
        let page = api.http.send(Method::GET, &listing("page=2"), &[("traceparent", &traceparent)], b"").await;
        page.expect(200);
    }
    api.http.post(PRODUCT, &good_comment("en", 5, SECRET)).await.expect(201);
    let own = api.http.get(&listing("page=1")).await;
    let logged = api.logged(own.header("x-request-id").unwrap()).await.pop().unwrap();
    api.terminate();
    assert!(api.ended().await.success());

    let sent = collector.spans();
    assert!(sent.iter().all(|(service, _)| service.contains("\"api\"")), "{sent:?}");
    assert!(!format!("{sent:?}").contains(SECRET), "no span has a comment's text");
    let spans: Vec<Span> = sent.into_iter().map(|(_, span)| span).collect();
    let of_trace =
        |id: &str| spans.iter().filter(|span| hex(&span.trace_id) == id && span.name == "request").collect_vec();
    let [page] = of_trace(TRACE)[..] else { panic!("one of the two callers records {traceparent}: {spans:?}") };
    assert_eq!(hex(&page.parent_span_id), PARENT);
    assert_eq!(below(&spans, page), ["DynamoDB.Query", "redis"]);
    let attributes = format!("{:?}", page.attributes);
    assert!(attributes.contains("/api/v1/products/{product}/comments") && attributes.contains("200"), "{attributes}");
    let [page] = of_trace(logged["span"]["trace_id"].as_str().unwrap())[..] else { panic!("the log names the trace") };
    assert_eq!(hex(&page.parent_span_id), "");
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn an_invocation_of_each_function_is_a_trace_that_is_sent_before_its_end() {
    let stores = Stores::start_ready_with_redis().await;
    stores.fill(3).await;
    let records = stores.lambda_records().await;
    let batch = json!({ "Records": records }).to_string();
    for (name, variables, event, calls) in [
        ("stream-writer", stream_writer_variables(&stores), batch.clone(), &["DynamoDB.BatchWriteItem"][..]),
        ("page-indexer", page_indexer_variables(&stores), batch, &["redis"]),
        ("repair-job", repair_job_variables(&stores), json!({"command": "recent"}).to_string(), &["redis"]),
    ] {
        let collector = Collector::start().await;
        let function = Function::start(name, traced(variables, &collector.url)).await;
        function.respond(event, TIMEOUT).await;
        let spans = wait_for("the trace of an invocation", async || {
            let spans = collector.spans();
            if spans.iter().any(|(_, span)| span.name == "invocation") { Ok(spans) } else { Err(spans) }
        })
        .await;
        assert!(spans.iter().all(|(service, _)| service.contains(name)), "{spans:?}");
        let spans: Vec<Span> = spans.into_iter().map(|(_, span)| span).collect();
        let invocation = spans.iter().find(|span| span.name == "invocation").unwrap();
        let below = below(&spans, invocation);
        assert!(calls.iter().all(|call| below.contains(call)), "{name}: {below:?}");
        function.finish().await;
    }
    stores.finish().await;
}

#[tokio::test]
async fn a_collector_that_hangs_or_is_away_costs_no_request_and_no_invocation() {
    let stores = Stores::start_ready_with_redis().await;
    stores.fill(3).await;
    let records = stores.lambda_records().await;
    // It takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hanging = format!("http://{}", listener.local_addr().unwrap());
    for (url, hangs) in [(hanging, true), ("http://127.0.0.1:1".to_owned(), false)] {
        let traced =
            |variables| with(variables, &[("PAGEMARK_OTLP_ENDPOINT", &url), ("OTEL_BSP_MAX_QUEUE_SIZE", "16")]);
        let (target, api) = (listing("page=1"), ApiProcess::start(traced(api_variables(&stores))).await);
        let writer = Function::start("stream-writer", traced(stream_writer_variables(&stores))).await;
        for _ in 0..20 {
            api.http.get(&target).await.expect(200);
            assert_eq!(writer.deliver(&records).await, Vec::<String>::new());
        }
        // Spans that nobody takes do not fill the memory: the queue has a bound.
        if hangs {
            wait_for("dropped spans", async || {
                let pages = join_all((0..40).map(|_| api.http.get(&target))).await;
                assert!(pages.iter().all(|page| page.status == 200), "{pages:?}");
                let log = api.log();
                let message = |line: &Value| line["fields"]["message"].as_str().unwrap_or_default().to_owned();
                let is_dropping = log.iter().any(|line| message(line).starts_with("Beginning to drop span"));
                if is_dropping { Ok(()) } else { Err(log) }
            })
            .await;
        }
        writer.finish().await;
        api.terminate();
        assert!(api.ended().await.success(), "{url}");
    }
    stores.finish().await;
}

#[tokio::test]
async fn the_log_has_the_series_of_cloudwatch_and_they_add_up_to_the_metrics() {
    let stores = Stores::start_with_redis().await;
    stores.fill(45).await;
    let api = ApiProcess::start(with(api_variables(&stores), &[("PAGEMARK_METRICS_NAMESPACE", "Pagemark/one")])).await;
    for target in [listing("page=1"), listing("page=2"), listing("page=99"), "/products".to_owned()] {
        api.http.get(&target).await;
    }
    let metrics = api.operations.get("/metrics").await.body;
    let sum = |name: &str, label: &str| {
        let samples = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
        samples.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum::<f64>()
    };
    let mean_ms = |store: &str| {
        let of =
            |part: &str| sum(&format!("pagemark_store_call_duration_seconds_{part}"), &format!("store=\"{store}\""));
        1e3 * of("sum") / of("count")
    };
    api.terminate();
    // There is a line for each minute, and one at the end.
    let values =
        |lines: &[Value], name: &str| -> Vec<f64> { lines.iter().filter_map(|line| line[name].as_f64()).collect() };
    let added = |lines: &[Value], name: &str| values(lines, name).iter().sum::<f64>();
    let lines: Vec<Value> = wait_for("the lines of metrics", async || {
        let lines: Vec<Value> = api.log().into_iter().filter(|line| line["_aws"].is_object()).collect();
        if added(&lines, "Requests") == 4.0 { Ok(lines) } else { Err(api.log()) }
    })
    .await;
    assert!(api.ended().await.success());

    for line in &lines {
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        let named = (&line["Function"], &directive["Namespace"], &directive["Dimensions"]);
        assert_eq!(named, (&json!("api"), &json!("Pagemark/one"), &json!([["Function"]])));
        let names = directive["Metrics"].as_array().unwrap().iter().map(|metric| metric["Name"].as_str().unwrap());
        let known = Series::ALL.iter().map(|series| series.name()).filter(|name| line[name].is_number());
        assert!(names.eq(known), "{line}");
    }
    assert!(Series::ALL.iter().all(|series| !values(&lines, series.name()).is_empty()), "{lines:?}");
    let counted = sum("pagemark_http_requests_total", "") - sum("pagemark_http_requests_total", "/metrics");
    assert_eq!(added(&lines, "Requests"), counted);
    for (name, mean) in [("TableTime", mean_ms("table")), ("PageIndexTime", mean_ms("page_index"))] {
        let (least, most) = values(&lines, name).into_iter().minmax().into_option().unwrap();
        assert!(least * (1.0 - 1e-6) < mean && mean < most * (1.0 + 1e-6), "{name}: {mean} in {lines:?}");
    }
    let last = |name: &str| *values(&lines, name).last().unwrap();
    assert_eq!(["RequestsInFlight", "AnswerBytes", "PageIndexAvailable"].map(last), [0.0, 0.0, 1.0], "{lines:?}");
    let none = ["ServerErrors", "RequestsShed", "DriftSigns", "MalformedItems"];
    assert_eq!(none.map(|name| added(&lines, name)), [0.0; 4], "{lines:?}");
    stores.index.clear().await.unwrap();
}
