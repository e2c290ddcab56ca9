//! `If-Match`, `If-None-Match` and `Idempotency-Key` over HTTP. A change applies to the revision
//! that the client has seen, or not at all. A repeated request has no further effect and gets its
//! first answer again.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use api::{ApiSettings, WritingSettings};
use hyper::Method;
use itertools::Itertools;
use serde_json::{Value, json};
use table::{Table, TableConfig};

use crate::fixture::{
    api::{Served, named_token},
    data::PRODUCT,
    faults::{TableFault, chosen_faults_table},
    http::{Answer, Http, good_comment, product_path},
    invariants::Contents,
    stores::Stores,
};

async fn post(http: &Http, key: Option<&str>, comment: &Value) -> Answer {
    let headers: Vec<(&str, &str)> = key
        .map(|key| ("idempotency-key", key))
        .into_iter()
        .collect();
    let target = format!("{}/comments", product_path(PRODUCT));
    http.write(
        Method::POST,
        &target,
        &headers,
        comment.to_string().as_bytes(),
    )
    .await
}

async fn post_one(http: &Http) -> (String, String) {
    let created = post(http, None, &good_comment("en", 5, "Body")).await;
    let tag = created.header("etag").unwrap().to_owned();
    (created.expect(201)["id"].as_str().unwrap().to_owned(), tag)
}

async fn change(http: &Http, id: &str, if_match: &str, change: &Value) -> Answer {
    let (target, headers) = (format!("/api/v1/comments/{id}"), [("if-match", if_match)]);
    http.write(
        Method::PATCH,
        &target,
        &headers,
        change.to_string().as_bytes(),
    )
    .await
}

async fn delete(http: &Http, id: &str, if_match: &str) -> Answer {
    http.write(
        Method::DELETE,
        &format!("/api/v1/comments/{id}"),
        &[("if-match", if_match)],
        b"",
    )
    .await
}

fn assert_changed(answer: &Answer, current: &str) {
    assert_eq!(
        (answer.status, answer.header("etag")),
        (412, Some(current)),
        "{answer:?}"
    );
    assert_eq!(
        answer.problem()["type"],
        "urn:pagemark:problem:revision-mismatch"
    );
}

#[tokio::test]
async fn a_change_applies_to_a_revision_in_if_match_or_not_at_all() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    let http = &api.http;
    let (id, first) = post_one(http).await;

    let changed = change(http, &id, &first, &json!({ "rating": 4 })).await;
    let second = changed.header("etag").unwrap().to_owned();
    assert_eq!(changed.expect(200)["rating"], 4);
    assert_ne!(first, second);
    assert_changed(
        &change(http, &id, &first, &json!({ "rating": 3 })).await,
        &second,
    );
    assert_changed(&delete(http, &id, &first).await, &second);
    // One of several tags matches.
    let third = change(
        http,
        &id,
        &format!("{first},{second}"),
        &json!({ "rating": 2 }),
    )
    .await;
    assert_eq!(third.expect(200)["rating"], 2);
    let fourth = change(http, &id, "*", &json!({ "rating": 5 })).await;
    let current = fourth.header("etag").unwrap().to_owned();
    assert_eq!(fourth.expect(200)["rating"], 5);

    assert_eq!(
        delete(http, &id, &format!("\"other\", {current}"))
            .await
            .status,
        204
    );
    // A comment that does not exist has no revision to compare.
    for if_match in [current.as_str(), "*", "\"other\"", "\"a\", \"b\""] {
        assert_eq!(
            delete(http, &id, if_match).await.problem()["type"],
            "urn:pagemark:problem:no-such-comment"
        );
        assert_eq!(
            change(http, &id, if_match, &json!({ "rating": 1 }))
                .await
                .status,
            404
        );
    }
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_change_does_not_apply_to_a_revision_in_if_none_match() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    let http = &api.http;
    let (id, first) = post_one(http).await;
    let target = format!("/api/v1/comments/{id}");
    let send = async |method: Method, headers: &[(&str, &str)]| {
        let body: &[u8] = if method == Method::PATCH {
            b"{\"rating\": 4}"
        } else {
            b""
        };
        http.write(method, &target, headers, body).await
    };
    for method in [Method::PATCH, Method::DELETE] {
        // The API checks If-Match first, and it holds.
        for headers in [
            &[("if-none-match", first.as_str())][..],
            &[("if-match", &first), ("if-none-match", "*")],
        ] {
            let answer = send(method.clone(), headers).await;
            assert_eq!(
                (answer.status, answer.header("etag")),
                (412, Some(first.as_str())),
                "{answer:?}"
            );
            assert_eq!(
                answer.problem()["type"],
                "urn:pagemark:problem:revision-excluded"
            );
        }
    }
    let stale = [
        ("if-match", "\"01ARZ3NDEKTSV4RRFFQ69G5FAV\""),
        ("if-none-match", "*"),
    ];
    assert_changed(&send(Method::PATCH, &stale).await, &first);

    assert_eq!(
        send(Method::PATCH, &[("if-none-match", "\"other\"")])
            .await
            .expect(200)["rating"],
        4
    );
    let deleted = send(Method::DELETE, &[("if-none-match", &first)]).await;
    assert_eq!(deleted.status, 204, "it is no longer at that revision");
    assert_eq!(
        send(Method::PATCH, &[("if-none-match", "*")]).await.status,
        404,
        "what is not there is not excluded"
    );
    api.finish_with(stores).await;
}

/// A client of the table whose first `conflicts` transactions meet a transaction conflict. It tries
/// each change for at most `tried_within`.
async fn conflicting_table(stores: &Stores, conflicts: usize, tried_within: Duration) -> Table {
    let config = TableConfig {
        started_within: tried_within,
        ..TableConfig::new(stores.table.name(), Some(stores.engine_url()))
    };
    let met = AtomicUsize::new(0);
    chosen_faults_table(&config, move |body| {
        let conflict =
            body.contains("TransactItems") && met.fetch_add(1, Ordering::Relaxed) < conflicts;
        conflict.then_some(TableFault::Conflict)
    })
    .await
}

#[tokio::test]
async fn a_change_outlasts_temporary_conflicts_and_is_503_after_lasting_ones() {
    let stores = Stores::start().await;
    let table = conflicting_table(&stores, 5, Duration::from_secs(20)).await;
    let api = Served::start(table, stores.index.clone(), ApiSettings::default());
    let (id, _) = post_one(&api.http).await;
    api.http
        .patch(&id, &json!({ "rating": 4 }))
        .await
        .expect(200);
    api.finish().await;

    let table = conflicting_table(&stores, usize::MAX, Duration::from_millis(300)).await;
    let api = Served::start(table, stores.index.clone(), ApiSettings::default());
    for answer in [
        api.http.patch(&id, &json!({ "rating": 1 })).await,
        api.http.delete(&id).await,
        post(&api.http, Some("k1"), &good_comment("en", 5, "Body")).await,
    ] {
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (503, Some("5")),
            "{answer:?}"
        );
        let problem = answer.problem();
        assert_eq!(problem["type"], "urn:pagemark:problem:contended");
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("Nothing was written"),
            "{problem}"
        );
    }
    assert_eq!(
        api.http
            .get(&format!("/api/v1/comments/{id}"))
            .await
            .expect(200)["rating"],
        4
    );
    api.finish_with(stores).await;
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_its_token_s_name_and_its_product() {
    let stores = Stores::start().await;
    let serve = |tokens: &[(&str, &str)]| {
        let named = tokens
            .iter()
            .map(|(name, token)| named_token(name, "comments:write", token));
        let writing = WritingSettings {
            tokens: named.collect(),
            ..WritingSettings::default()
        };
        Served::with(
            &stores,
            ApiSettings {
                writing,
                ..ApiSettings::default()
            },
        )
    };
    let comment = good_comment("en", 5, "Body").to_string();
    let send = async |api: &Served, product: &str, token: &str| {
        let (http, target) = (
            api.http.with_token(token),
            format!("{}/comments", product_path(product)),
        );
        http.write(
            Method::POST,
            &target,
            &[("idempotency-key", "k1")],
            comment.as_bytes(),
        )
        .await
        .expect(201)
    };
    let api = serve(&[
        ("shop", "token-of-the-shop-1"),
        ("app", "token-of-the-app-1"),
    ]);
    let mut created = Vec::new();
    for (product, token) in [
        ("p1", "token-of-the-shop-1"),
        ("p2", "token-of-the-shop-1"),
        ("p1", "token-of-the-app-1"),
    ] {
        let first = send(&api, product, token).await;
        assert_eq!(send(&api, product, token).await, first);
        created.push(first);
    }
    assert!(
        created.iter().map(|comment| &comment["id"]).all_unique(),
        "{created:?}"
    );
    api.finish().await;

    // The token of the shop is replaced: at first both are good, then only the new one.
    for tokens in [
        &[
            ("shop", "token-of-the-shop-1"),
            ("shop", "token-of-the-shop-2"),
        ][..],
        &[
            ("shop", "token-of-the-shop-2"),
            ("app", "token-of-the-app-1"),
        ],
    ] {
        let api = serve(tokens);
        assert_eq!(send(&api, "p1", "token-of-the-shop-2").await, created[0]);
        api.finish().await;
    }
    assert_eq!(Contents::read(&stores.table).await.primary.len(), 3);
    stores.finish().await;
}

#[tokio::test]
async fn a_repeated_request_gets_its_first_answer_whatever_has_happened_since() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    let http = &api.http;
    let comment = good_comment("EN", 5, "Body");
    let first = post(http, Some("key-1"), &comment).await;
    assert_eq!(first.status, 201, "{first:?}");
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(
        first.header("location"),
        Some(format!("/api/v1/comments/{id}").as_str())
    );
    let as_the_first_time = async |comment: &Value| {
        let again = post(http, Some("key-1"), comment).await;
        assert_eq!((again.status, &again.body), (201, &first.body));
        for name in ["location", "etag", "content-type"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
    };
    as_the_first_time(&comment).await;
    // An equivalent body in a different spelling.
    as_the_first_time(&json!({ "author": "Ann", "rating": 5.0, "body": "Body", "language": "en" }))
        .await;
    for other in [
        good_comment("EN", 4, "Body"),
        good_comment("ko", 5, "Body"),
        good_comment("EN", 5, "body"),
    ] {
        let refused = post(http, Some("key-1"), &other).await;
        assert_eq!(
            refused.problem()["type"],
            "urn:pagemark:problem:idempotency-mismatch",
            "{refused:?}"
        );
        assert_eq!(refused.status, 422);
    }

    http.patch(&id, &json!({ "rating": 1, "body": "Changed" }))
        .await
        .expect(200);
    as_the_first_time(&comment).await;
    http.delete(&id).await.expect(204);
    as_the_first_time(&comment).await;
    assert_eq!(
        http.get(&format!("/api/v1/comments/{id}")).await.status,
        404,
        "it stays deleted"
    );
    api.finish_with(stores).await;
}
