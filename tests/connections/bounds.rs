//! The resources of a request are bounded. Its work counts as long as it runs. Every wait for a
//! body, a store or a reader has a limit.

use std::{
    io::Read,
    time::{Duration, Instant},
};

use api::ApiSettings;
use flate2::read::GzDecoder;
use futures_util::future::join_all;
use hyper::http::response::Parts;
use serde_json::Value;

use crate::fixture::{
    api::{ApiProcess, Served, api_variables, metric},
    data::{self, PRODUCT},
    faults::stalled_table,
    http::{Answer, Http, WRITE_TOKEN, ids, listing, page_path, product_path},
    redis_server::OwnRedis,
    stores::Stores,
    wait_for,
};

const _: crate::Engines =
    crate::Engines::Embedded("about the API's connections; what they read is no matter");

fn decoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

fn header<'head>(head: &'head Parts, name: &str) -> Option<&'head str> {
    head.headers.get(name).map(|value| value.to_str().unwrap())
}

/// The answer to a client that accepts this has the same text and headers as the plain one, and says
/// how long it is.
async fn assert_coded(http: &Http, target: &str, accepted: &str, plain: &Answer) {
    let (head, bytes) = http.get_coded(target, accepted).await;
    assert_eq!(head.status.as_u16(), 200, "{target}: {head:?}");
    assert_eq!(
        header(&head, "content-encoding"),
        Some("gzip"),
        "{target}, {accepted}: {head:?}"
    );
    let length = bytes.len();
    assert!(length < plain.body.len(), "{target}: {length} bytes");
    assert_eq!(decoded(&bytes), plain.body, "{target}");
    assert_eq!(header(&head, "etag"), plain.header("etag"));
    assert_eq!(header(&head, "content-type"), plain.header("content-type"));
    assert_eq!(header(&head, "vary"), Some("accept-encoding"), "{target}");
    // A server that compresses while sending cannot know this length.
    assert_eq!(
        header(&head, "content-length"),
        Some(length.to_string().as_str()),
        "{target}: {head:?}"
    );
    assert_eq!(
        header(&head, "transfer-encoding"),
        None,
        "{target}: {head:?}"
    );
}

#[tokio::test]
async fn a_compressed_answer_is_sent_whole_and_unknown_codings_get_a_plain_one() {
    let (stores, api, _) = Served::filled(45).await;
    let page = api.http.get(&listing("page=1")).await.expect(200);
    let as_of = page["as_of"].as_str().unwrap();
    let listing = listing(&format!("page_size=40&as_of={as_of}"));
    for target in [
        listing.as_str(),
        "/product/a%2Fb/comments",
        "/static/style.css",
        "/openapi.json",
    ] {
        let plain = api.http.get(target).await;
        assert_eq!(plain.status, 200, "{plain:?}");
        assert_eq!(plain.header("content-encoding"), None, "{plain:?}");
        assert!(
            plain.body.len() > 2 * 1024,
            "{target}, compressed while it is sent, is made in several parts"
        );
        for accepted in ["gzip", "gzip, deflate, br, zstd", "br, gzip;q=0.5"] {
            assert_coded(&api.http, target, accepted, &plain).await;
        }
        for accepted in [
            "identity;q=0",
            "*;q=0",
            "identity;q=0, zstd",
            "compress",
            "br;q=0, *;q=0",
            "no such thing",
        ] {
            let (head, bytes) = api.http.get_coded(target, accepted).await;
            assert_eq!(head.status.as_u16(), 200, "{accepted}: {head:?}");
            assert!(
                !head.headers.contains_key("content-encoding"),
                "{accepted}: {head:?}"
            );
            assert_eq!(
                std::str::from_utf8(&bytes).unwrap(),
                plain.body,
                "{accepted}"
            );
        }
    }
    api.finish_with(stores).await;
}

/// How many scripts a server has been asked to run. Every question of a page is one.
async fn scripts_run(redis: &OwnRedis) -> u64 {
    let stats: String = redis.ask("INFO commandstats").await;
    let mut calls = 0;
    for line in stats.lines() {
        // Such as `cmdstat_evalsha_ro:calls=12,usec=…`.
        if line.starts_with("cmdstat_evalsha")
            && let Some((_, rest)) = line.split_once("calls=")
        {
            let count = rest.split(',').next().unwrap();
            calls += count.parse::<u64>().unwrap();
        }
    }
    calls
}

#[tokio::test]
async fn a_page_index_that_hangs_holds_up_one_reader_at_a_time() {
    const READERS: usize = 40;
    const READS: usize = 10;
    let (redis, stores) = Stores::start_on_own_redis().await;
    stores.fill(45).await;
    let api = ApiProcess::start(api_variables(&stores)).await;
    let ready = api.http.get(&listing("page=1")).await.expect(200);
    let before = scripts_run(&redis).await;
    redis.server.signal("STOP");
    let began = Instant::now();
    let first = api.http.get(&listing("page=1")).await;
    assert_eq!(first.header("cache-control"), Some("no-store"), "{first:?}");
    let first = first.expect(200);
    assert_eq!(first["total"], Value::Null, "the first reader waits");
    assert_eq!(first["index"], "unavailable", "the first reader waits");
    assert_eq!(ids(&first), ids(&ready));
    for target in [
        listing("page=2"),
        listing("page=1000"),
        format!("{}?page=2", page_path(PRODUCT)),
    ] {
        api.http.get(&target).await.assert_later();
    }
    assert_eq!(api.metric("pagemark_page_index_available").await, 0.0);
    let unreachable = r#"pagemark_page_index_partitions{answer="unreachable"}"#;
    assert_eq!(api.metric(unreachable).await, 1.0);
    let unanswered = r#"pagemark_page_index_answers_total{answer="unreachable"}"#;
    assert!(api.metric(unanswered).await >= 4.0);
    let health = api.operations.get("/readyz").await.expect(200);
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["page_index"]["state"], "unreachable");

    let first_page = listing("page=1");
    let http = &api.http;
    let readers = (0..READERS).map(async |_| {
        for _ in 0..READS {
            let page = http.get(&first_page).await.expect(200);
            assert_eq!(page["total"], Value::Null);
            assert_eq!(ids(&page), ids(&ready));
        }
    });
    join_all(readers).await;
    let seconds = began.elapsed().as_secs();
    let failed = r#"pagemark_store_call_duration_seconds_count{store="page_index",call="ranks",outcome="error"}"#;
    assert!(api.metric(failed).await >= (READERS * READS) as f64);
    assert_eq!(api.metric("pagemark_http_requests_shed_total").await, 0.0);

    // Redis runs now what it was asked meanwhile: by the first reader, and by one in each second
    // after that.
    redis.server.signal("CONT");
    let asked = scripts_run(&redis).await - before;
    println!(
        "{asked} questions of {} readers in {seconds} s",
        READERS * READS
    );
    assert!(
        (1..=seconds + 2).contains(&asked),
        "{asked} questions in {seconds} s"
    );

    // The service notices that it answers again, and other users of Redis were not affected.
    stores.create_numbered(1_000, data::product(PRODUCT)).await;
    stores.deliver_all().await;
    let again = wait_for("totals again", async || {
        let page = api.http.get(&listing("page=1")).await.expect(200);
        if page["total"].is_null() {
            Err(page)
        } else {
            Ok(page)
        }
    })
    .await;
    assert_eq!(again["total"], 46);
    stores.finish().await;
}

#[tokio::test]
async fn a_body_sent_too_slowly_is_answered_408_and_the_connection_ends() {
    let stores = Stores::start().await;
    let settings = ApiSettings {
        body_timeout: Duration::from_millis(300),
        ..ApiSettings::default()
    };
    let api = Served::with(&stores, settings);
    let path = format!("{}/comments", product_path(PRODUCT));
    let host = api.http.authority();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {WRITE_TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: 60\r\n\r\n"
    );
    for begun in ["", "{\"language\": \"en\", "] {
        let answer = api.http.answer_to_bytes(&format!("{head}{begun}")).await;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{answer:?}"));
        assert!(head.starts_with("HTTP/1.1 408 "), "{answer}");
        let head = head.to_ascii_lowercase();
        for header in [
            "content-type: application/problem+json",
            "connection: close",
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "x-request-id: ",
        ] {
            assert!(head.contains(header), "{header}: {answer}");
        }
        assert!(
            body.contains("urn:pagemark:problem:body-too-slow"),
            "{answer}"
        );
    }
    api.finish_with(stores).await;
}

fn is_notice(answer: &Answer) -> bool {
    answer.body.starts_with("<div class=\"notice\"")
        && answer.header("x-robots-tag") == Some("noindex")
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_503_with_the_usual_headers() {
    let stores = Stores::start().await;
    stores.fill(45).await;
    let stalled = stalled_table(&stores.table, &stores.engine_url()).await;
    let settings = ApiSettings {
        request_timeout: Duration::from_millis(300),
        ..ApiSettings::default()
    };
    let api = Served::start(stalled, stores.index.clone(), settings);
    let full = Served::with(
        &stores,
        ApiSettings {
            in_flight_max: 0,
            ..ApiSettings::default()
        },
    );
    let by_the_load = full.http.get(&listing("page=1")).await;
    let fragment = format!("/fragment{}", page_path(PRODUCT));
    let refused = full.http.get(&fragment).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(is_notice(&refused), "{refused:?}");
    full.finish().await;
    for target in [
        "/api/v1/comments/c0001",
        listing("page=1").as_str(),
        "/comments/c0001",
        &fragment,
    ] {
        let answer = api.http.get(target).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        if target.starts_with("/api") {
            assert_eq!(answer.problem()["type"], "urn:pagemark:problem:timed-out");
        } else {
            let content_type = answer.header("content-type").unwrap();
            assert!(content_type.starts_with("text/html"), "{answer:?}");
        }
        assert_eq!(is_notice(&answer), target == fragment, "{answer:?}");
        // Scripts of other sites may read some answers.
        let is_for_scripts = target.starts_with("/api") || target == fragment;
        let only_for_scripts = [
            "access-control-allow-origin",
            "access-control-expose-headers",
        ];
        for name in by_the_load.headers.keys() {
            if only_for_scripts.contains(&name.as_str()) && !is_for_scripts {
                continue;
            }
            assert!(
                answer.headers.contains_key(name),
                "{name} is missing: {answer:?}"
            );
        }
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let in_flight = metric(&api.http, "pagemark_http_requests_in_flight").await;
    assert_eq!(in_flight, 0.0, "a request that timed out is not in flight");
    api.finish_with(stores).await;
}
