//! The API in deployment. Readers get correct answers while a store is slow, throttled or down,
//! under too many readers, while the service stops, and where ranks and table differ. A part that
//! is down never causes a 404 (I5), and no request waits without bound.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use api::ApiSettings;
use futures_util::future::join_all;
use hyper::Method;
use model::{Cd, Timestamp};
use serde_json::{Value, json};
use table::{NewComment, Table};

use crate::fixture::{
    api::{ApiProcess, Served, api_variables, metric},
    data::{self, PRODUCT},
    engine::patient_config,
    faults::chosen_faults_table,
    function::{SECRET, with},
    gate::{self, Gate},
    http::{Answer, Http, good_comment, ids, listing, product_path},
    stores::Stores,
    wait_for,
};

const _: crate::Engines = crate::Engines::Both;

/// Stores with 45 comments on one product, and their index in Redis: the process of the API reaches
/// no other.
async fn filled() -> Stores {
    let stores = Stores::start_with_redis().await;
    stores.fill(45).await;
    stores
}

/// Sends every kind of read and write. The client fails when an answer takes longer than the
/// service allows.
async fn everything(http: &Http) -> Vec<Answer> {
    let reads = [
        listing("page=1"),
        listing("page=2"),
        format!("{}/comments", product_path("nobody/commented/this")),
        "/api/v1/comments/c0001".to_owned(),
        "/api/v1/comments/no-such-comment".to_owned(),
        "/api/v1/comments/c0001/position".to_owned(),
        "/product/a%2Fb/comments".to_owned(),
        "/product/a%2Fb/comments?page=1".to_owned(),
        "/comments/c0001".to_owned(),
    ];
    let mut answers = join_all(reads.iter().map(|target| http.get(target))).await;
    answers.push(http.post(PRODUCT, &good_comment("en", 5, SECRET)).await);
    answers.push(http.patch("c0001", &json!({ "rating": 4 })).await);
    answers.push(http.delete("c0002").await);
    answers
}

#[tokio::test]
async fn a_table_that_does_not_answer_is_503_for_all_and_costs_no_memory() {
    let stores = filled().await;
    let gate = Gate::start(&stores.engine_url(), gate::CALLS).await;
    let variables = with(
        api_variables(&stores),
        &[
            ("PAGEMARK_DYNAMODB_URL", gate.url.trim_end_matches('/')),
            ("PAGEMARK_MAX_IN_FLIGHT", "16"),
        ],
    );
    let api = ApiProcess::start(variables).await;
    api.http.get(&listing("page=2")).await.expect(200);

    gate.hold_after(0);
    for answer in everything(&api.http).await {
        answer.assert_later();
    }
    let ready = api.operations.get("/readyz").await.expect(503);
    assert_eq!(ready["status"], "unavailable");
    assert_eq!(ready["table"]["state"], "error");
    api.operations.get("/livez").await.expect(200);

    let before = api.resident_bytes();
    let target = listing("page_size=100");
    let crowd = join_all((0..400).map(|_| api.http.get(&target))).await;
    let overloaded = crowd
        .iter()
        .filter(|answer| answer.problem()["type"] == "urn:pagemark:problem:overloaded")
        .count();
    crowd.iter().for_each(Answer::assert_later);
    assert!(
        crowd
            .iter()
            .all(|answer| answer.header("x-request-id").is_some())
    );
    let route = r#"route="/api/v1/products/{product}/comments",method="GET",status="503""#;
    assert!(
        api.metric(&format!("pagemark_http_requests_total{{{route}}}"))
            .await
            >= 400.0
    );
    assert!(
        overloaded >= 400 - 16 * 3,
        "{overloaded} of 400 were turned away"
    );
    let shed = api.metric("pagemark_http_requests_shed_total").await;
    assert!(
        shed >= overloaded as f64,
        "{shed} of {overloaded} were counted"
    );
    let grown = api.resident_bytes().saturating_sub(before);
    assert!(
        grown < 64 << 20,
        "400 readers of a table that does not answer took {grown} bytes"
    );

    gate.open();
    api.http.wait_for_200(&listing("page=2")).await;
    api.operations.get("/readyz").await.expect(200);
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn a_table_that_refuses_is_503_and_an_error_in_the_log() {
    let stores = filled().await;
    // The table does not exist. Readers get the same answer as for a missing permission.
    let variables = with(
        api_variables(&stores),
        &[("PAGEMARK_TABLE", "no-such-table")],
    );
    let api = ApiProcess::start(variables).await;
    for answer in everything(&api.http).await {
        answer.assert_later();
    }
    let answer = api.http.get("/api/v1/comments/c0001").await;
    assert_eq!(
        answer.problem()["type"],
        "urn:pagemark:problem:table-unavailable"
    );
    assert!(!answer.body.contains("no-such-table"), "{answer:?}");
    assert!(!answer.body.contains("ResourceNotFound"), "{answer:?}");
    let logged = api.logged(answer.header("x-request-id").unwrap()).await;
    let has_error = logged.iter().any(|line| {
        line["level"] == "ERROR" && line.to_string().contains("ResourceNotFoundException")
    });
    assert!(has_error, "{logged:?}");
    api.operations.get("/readyz").await.expect(503);
    stores.finish().await;
}

#[tokio::test]
async fn a_service_that_gets_sigterm_finishes_its_requests() {
    let stores = filled().await;
    let gate = Gate::start(&stores.engine_url(), gate::CALLS).await;
    let variables = with(
        api_variables(&stores),
        &[("PAGEMARK_DYNAMODB_URL", gate.url.trim_end_matches('/'))],
    );
    let api = ApiProcess::start(variables).await;
    api.http.get(&listing("page=1")).await.expect(200);
    gate.hold_after(0);
    let http = api.http.clone();
    let begun = tokio::spawn(async move { http.get(&listing("page=2")).await });
    gate.wait_until_holding("a request under way").await;
    api.terminate();
    wait_for("the log of the end", async || {
        let log = api.log();
        let mut messages = log.iter().map(|line| &line["fields"]["message"]);
        if messages.any(|message| message == "stopping") {
            Ok(())
        } else {
            Err(log)
        }
    })
    .await;
    gate.open();
    let answer = begun.await.unwrap();
    assert_eq!(
        answer.header("connection"),
        Some("close"),
        "a connection that is kept would hold up the end"
    );
    let page = answer.expect(200);
    assert_eq!(ids(&page).len(), 20);
    assert!(api.ended().await.success());
    stores.index.clear().await.unwrap();
}

/// Which of the template's metric filters count a log line: the filter for all answers, and the one
/// for unavailable ones.
fn counted(log_line: &Value) -> Vec<bool> {
    let mut counted = Vec::new();
    for line in include_str!("../../infra/template.yaml").lines() {
        if let Some(quoted) = line.trim().strip_prefix("FilterPattern: ") {
            let pattern: String = serde_json::from_str(quoted).unwrap();
            counted.push(matches(&pattern, log_line));
        }
    }
    counted
}

/// Whether a metric filter counts a log line. The syntax: Amazon CloudWatch Logs, "Filter pattern
/// syntax for metric filters", JSON; here fields that equal a value.
fn matches(pattern: &str, log_line: &Value) -> bool {
    let conditions = pattern.strip_prefix("{ ").unwrap();
    let conditions = conditions.strip_suffix(" }").unwrap();
    conditions.split(" && ").all(|condition| {
        let (field, value) = condition.split_once(" = ").unwrap();
        let pointer = field.strip_prefix('$').unwrap().replace('.', "/");
        let value: Value = serde_json::from_str(value).unwrap();
        log_line.pointer(&pointer) == Some(&value)
    })
}

/// Asks for page 2 under this request id. Returns what the metric filters make of each line of the
/// log about it that one of them counts.
async fn counted_of_request(api: &ApiProcess, request_id: &str, status: u16) -> Vec<Vec<bool>> {
    let answer = api
        .http
        .send(
            Method::GET,
            &listing("page=2"),
            &[("x-request-id", request_id)],
            b"",
        )
        .await;
    assert_eq!(answer.status, status, "{answer:?}");
    let mut counted_lines = Vec::new();
    for line in api.logged(request_id).await {
        let counted = counted(&line);
        if counted.contains(&true) {
            counted_lines.push(counted);
        }
    }
    counted_lines
}

#[tokio::test]
async fn the_alarm_on_unavailable_answers_counts_real_log_lines() {
    let stores = filled().await;
    let api = ApiProcess::start(api_variables(&stores)).await;
    let available = counted_of_request(&api, "available", 200).await;
    assert_eq!(available, [[true, false]]);
    stores.index.clear().await.unwrap();
    let unavailable = counted_of_request(&api, "unavailable", 503).await;
    assert_eq!(unavailable, [[true, true]]);
    let listening = api
        .log()
        .into_iter()
        .find(|line| line["fields"]["message"] == "listening")
        .unwrap();
    assert_eq!(counted(&listening), [false, false]);
}

#[tokio::test]
async fn the_log_names_requests_and_no_text_of_a_comment() {
    let stores = filled().await;
    let api = ApiProcess::start(api_variables(&stores)).await;
    let headers = [
        ("user-agent", "a reader/1.0"),
        // No proxy is configured, so the header is not trusted.
        ("x-forwarded-for", "203.0.113.7"),
        ("x-request-id", "the-readers-own"),
    ];
    let answer = api
        .http
        .send(Method::GET, &listing("page=2"), &headers, b"")
        .await;
    assert_eq!(
        answer.header("x-request-id"),
        None,
        "caches keep the answer"
    );
    let access = api.logged("the-readers-own").await.pop().unwrap();
    let fields = &access["fields"];
    assert_eq!(fields["method"], "GET");
    assert_eq!(fields["status"], 200);
    assert_eq!(fields["target"], listing("page=2"));
    assert_eq!(fields["route"], "/api/v1/products/{product}/comments");
    assert_eq!(fields["peer"], "127.0.0.1");
    assert_eq!(fields["user_agent"], "a reader/1.0");
    assert_eq!(fields["client"], Value::Null);
    assert_eq!(fields["bytes"], answer.body.len());
    assert!(fields["took_ms"].as_f64().unwrap() > 0.0, "{access}");

    let of_author = "/api/v1/authors/ann%40example.org/comments";
    let answer = api.http.get_with_token(of_author).await;
    let id = answer.header("x-request-id").unwrap().to_owned();
    let access = api.logged(&id).await.pop().unwrap();
    assert_eq!(access["fields"]["target"], access["fields"]["route"]);
    assert!(!access.to_string().contains("example.org"), "{access}");

    let posted = api.http.post(PRODUCT, &good_comment("en", 5, SECRET)).await;
    let id = posted.header("x-request-id").unwrap().to_owned();
    let access = api.logged(&id).await.pop().unwrap();
    assert_eq!(access["fields"]["status"], 201);
    assert_eq!(access["fields"]["token"], "tests");
    for line in api.log() {
        let line = line.to_string();
        assert!(!line.contains(SECRET), "{line}");
        assert!(!line.contains("the-tests-own-token"), "{line}");
    }
    for target in ["/metrics", "/readyz", "/livez"] {
        assert_eq!(api.http.get(target).await.status, 404, "{target} is public");
        assert_eq!(api.operations.get(target).await.status, 200, "{target}");
    }
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn an_unchanged_page_is_304_and_a_deleted_text_is_never_served_again() {
    let (stores, api, _) = Served::filled(45).await;
    let newest = ids(&api.http.get(&listing("page=1")).await.expect(200))[0].clone();
    let mut tags = Vec::new();
    let targets = [
        listing("page=1"),
        format!("{}/stats", product_path(PRODUCT)),
        "/product/a%2Fb/comments".to_owned(),
    ];
    for target in &targets {
        let first = api.http.get(target).await;
        assert_eq!(
            first.header("cache-control"),
            Some("public, max-age=30, stale-while-revalidate=0, stale-if-error=0"),
            "{first:?}"
        );
        let tag = first.header("etag").unwrap().to_owned();
        for method in [Method::GET, Method::HEAD] {
            let known = [("if-none-match", tag.as_str()), ("accept-encoding", "gzip")];
            let again = api.http.send(method, target, &known, b"").await;
            assert_eq!(again.status, 304, "{again:?}");
            assert_eq!(again.body, "", "{again:?}");
            assert_eq!(again.header("etag"), Some(tag.as_str()));
            for same in ["cache-control", "vary"] {
                assert!(again.header(same).is_some(), "{again:?}");
                assert!(again.header(same) == first.header(same), "{again:?}");
            }
            assert_eq!(again.header("content-encoding"), None, "{again:?}");
        }
        let packed = api
            .http
            .send(Method::HEAD, target, &[("accept-encoding", "gzip")], b"")
            .await;
        assert_eq!(
            packed.header("content-encoding"),
            Some("gzip"),
            "{packed:?}"
        );
        assert_eq!(
            packed.header("etag"),
            Some(tag.as_str()),
            "compression changes the bytes, not what they say"
        );
        tags.push(tag);
    }
    let address = format!("/api/v1/comments/{newest}");
    let comment = api.http.get(&address).await;
    let revision = comment.header("etag").unwrap().to_owned();
    assert_eq!(comment.header("cache-control"), Some("no-cache"));
    let known = [
        ("if-none-match", revision.as_str()),
        ("accept-encoding", "gzip"),
    ];
    let again = api.http.send(Method::GET, &address, &known, b"").await;
    again.expect(304);

    api.http.delete(&newest).await.expect(204);
    assert_eq!(api.http.get(&address).await.status, 404);
    stores.deliver_all().await;
    for (target, tag) in targets.iter().zip(&tags) {
        let after = api
            .http
            .send(Method::GET, target, &[("if-none-match", tag)], b"")
            .await;
        assert_eq!(after.status, 200, "{after:?}");
        assert!(!after.body.contains(&newest), "{after:?}");
    }
    api.finish_with(stores).await;
}

#[tokio::test]
async fn where_ranks_and_table_differ_a_page_is_what_its_ranks_say() {
    let (stores, api, comments) = Served::filled(45).await;
    let third = ids(&api.http.get(&listing("page=3")).await.expect(200));
    let placement = comments[0].placement();

    // Ranks of comments that do not exist and would be older than all others: ranks without a
    // comment.
    let mut ghosts = Vec::new();
    let mut ranks_of_ghosts = Vec::new();
    for number in 0..18 {
        let ghost = data::comment_id(&format!("ghost-{number}"));
        ranks_of_ghosts.extend(data::index_comment(&ghost, &placement, data::at_ms(5)));
        ghosts.push(ghost);
    }
    stores.index.apply(&ranks_of_ghosts).await.unwrap();
    let with_gaps = api.http.get(&listing("page=3")).await;
    assert_eq!(
        with_gaps.header("cache-control"),
        Some("no-store"),
        "{with_gaps:?}"
    );
    assert_eq!(ids(&with_gaps.json()), third);
    assert_eq!(with_gaps.json()["total"], 63);
    let only_gaps = api.http.get(&listing("page=4")).await;
    assert_eq!(
        only_gaps.problem()["type"],
        "urn:pagemark:problem:not-yet-listed",
        "{only_gaps:?}"
    );

    // A comment with a rank and without duplicates is shown under every filter, beside a rank too
    // many. One call looks them up.
    let late = stores.create_numbered(1001, data::product("late")).await;
    let placement = late.placement();
    let mut edits = data::index_comment(&late.id, &placement, late.created_at);
    edits.extend(data::index_comment(&ghosts[0], &placement, Timestamp::MAX));
    stores.index.apply(&edits).await.unwrap();
    for query in [
        "",
        "language=ko",
        "rating=2&rating=5",
        "language=ko&rating=2&page_size=1&page=2",
    ] {
        let target = format!("{}/comments?{query}", product_path("late"));
        let page = api.http.get(&target).await.expect(200);
        assert_eq!(ids(&page), [late.id.as_str()], "{query}");
    }
    let labels = r#"store="table",call="BatchGetItem",outcome="ok""#;
    let calls = metric(
        &api.http,
        &format!("pagemark_store_call_duration_seconds_count{{{labels}}}"),
    )
    .await;
    assert_eq!(calls, 2.0 + 4.0);
    for (sign, count) in [
        ("missing_duplicate", 3.0),
        ("rank_without_comment", 15.0 + 3.0 + 3.0),
        ("row_without_rank", 0.0),
    ] {
        let name = format!("pagemark_drift_signs_total{{sign=\"{sign}\"}}");
        assert_eq!(metric(&api.http, &name).await, count, "{sign}");
    }
    api.finish().await;
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn an_answer_explains_its_one_query_and_every_answer_times_its_stores() {
    let (stores, api, _) = Served::filled(45).await;
    let http = &api.http;
    let all = http.get(&listing("page_size=100")).await.expect(200);
    assert!(all.get("explain").is_none(), "{all}");
    let answer = http.get(&listing("page=3&page_size=5&explain=true")).await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let explained = answer.json();
    let first_shown = &all["comments"][10];
    let cd = format!(
        "{}#{}",
        first_shown["created_at"].as_str().unwrap(),
        first_shown["id"].as_str().unwrap()
    );
    let start_key = Cd::parse(&cd).unwrap().just_after().unwrap().to_string();
    let explain = &explained["explain"];
    assert_eq!(explain["table_calls"], 1);
    assert_eq!(explain["page_index_calls"], 1);
    let query = &explain["queries"][0];
    assert_eq!(query["key"], json!("PRODUCT#a%2Fb/~/~"));
    assert_eq!(query["start_key"], start_key);
    assert_eq!(query["order"], "newest");
    assert_eq!(query["limit"], 6);
    assert_eq!(query["items"], 6);
    // Six small items, eventually consistent: half a unit for 4 KiB.
    assert!(
        (0.5..=6.0).contains(&query["read_units"].as_f64().unwrap()),
        "{query}"
    );
    let first = http.get(&listing("explain=true")).await.expect(200);
    assert_eq!(first["explain"]["queries"][0]["start_key"], Value::Null);
    for answer in [
        answer,
        http.get("/product/a%2Fb/comments").await,
        http.get(&listing("page=99")).await,
    ] {
        let timing = answer
            .header("server-timing")
            .unwrap_or_else(|| panic!("{answer:?}"));
        for store in ["page_index;dur=", "table;dur="] {
            assert!(timing.contains(store), "{}: {timing}", answer.request);
        }
    }
    api.finish_with(stores).await;
}

/// The table, and the number of Queries for pages that it is sent.
async fn counted_table(stores: &Stores) -> (Table, Arc<AtomicUsize>) {
    let queries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&queries);
    let config = patient_config(&stores.table, &stores.engine_url());
    let table = chosen_faults_table(&config, move |request| {
        if request.contains(r#""IndexName":"gsi""#) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        None
    })
    .await;
    (table, queries)
}

#[tokio::test]
async fn an_answer_explains_each_request_to_the_table() {
    let stores = Stores::start().await;
    let mut comments = Vec::new();
    for number in 0..45 {
        comments.push(NewComment {
            text: data::body(&"☕".repeat(10_000)),
            ..data::new_comment(&format!("c{number}"), &data::product(PRODUCT), "en", 5)
        });
    }
    stores.put_primary_items(comments).await;
    stores.rebuild().await;
    let (table, queries) = counted_table(&stores).await;
    let api = Served::start(table, stores.index.clone(), ApiSettings::default());
    // An answer of DynamoDB ends at a megabyte, the comments have 1.3.
    let target = listing("page=1&page_size=100&explain=true");
    let page = api.http.get(&target).await.expect(200);
    assert_eq!(ids(&page).len(), 45);
    let explain = &page["explain"];
    assert_eq!(queries.load(Ordering::Relaxed), 2);
    assert_eq!(explain["table_calls"], 2);
    let explained = explain["queries"].as_array().unwrap();
    let items: Vec<u64> = explained
        .iter()
        .map(|query| query["items"].as_u64().unwrap())
        .collect();
    assert_eq!((items.len(), items.iter().sum()), (2, 45));
    let last_of_first = &page["comments"][usize::try_from(items[0]).unwrap() - 1];
    assert_eq!(explained[0]["start_key"], Value::Null);
    let start_key = explained[1]["start_key"].as_str().unwrap();
    assert!(start_key.ends_with(last_of_first["id"].as_str().unwrap()));
    api.finish().await;
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn a_change_without_room_in_its_item_is_413_and_changes_nothing() {
    let stores = Stores::start().await;
    let comment = stores.create_numbered(1, data::product(PRODUCT)).await;
    stores
        .break_primary_item(
            &comment.id,
            "padding",
            data::text_value("x".repeat(405_000)),
        )
        .await;
    let api = Served::of(&stores);
    let answer = api
        .http
        .patch(comment.id.as_str(), &json!({ "body": "x".repeat(9_000) }))
        .await;
    assert_eq!(answer.status, 413);
    assert_eq!(
        answer.problem()["type"],
        "urn:pagemark:problem:no-room-in-item"
    );
    assert_eq!(
        stores.table.comment(&comment.id).await.unwrap(),
        Some(comment)
    );
    api.finish().await;
    stores.stop().await;
}

#[tokio::test]
async fn a_full_disk_is_not_ready_while_pages_are_served() {
    let stores = Stores::start_ready().await;
    let settings = ApiSettings {
        disk_is_full: std::sync::Arc::new(true.into()),
        ..ApiSettings::default()
    };
    let api = Served::with(&stores, settings);
    let health = api.http.get("/readyz").await.expect(503);
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["table"]["state"], "full");
    api.http
        .get("/api/v1/products/a%2Fb/comments")
        .await
        .expect(200);
    api.finish_with(stores).await;
}
