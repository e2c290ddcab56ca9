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

const _: crate::Engines = crate::Engines::Both;

async fn post(http: &Http, key: Option<&str>, comment: &Value) -> Answer {
    let mut headers = Vec::new();
    if let Some(key) = key {
        headers.push(("idempotency-key", key));
    }
    let target = format!("{}/comments", product_path(PRODUCT));
    let body = comment.to_string();
    http.write(Method::POST, &target, &headers, body.as_bytes())
        .await
}

/// Posts a comment, and returns its id and its tag.
async fn post_one(http: &Http) -> (String, String) {
    let created = post(http, None, &good_comment("en", 5, "Body")).await;
    let tag = created.header("etag").unwrap().to_owned();
    (created.expect(201)["id"].as_str().unwrap().to_owned(), tag)
}

async fn change(http: &Http, id: &str, if_match: &str, change: &Value) -> Answer {
    let target = format!("/api/v1/comments/{id}");
    let headers = [("if-match", if_match)];
    let body = change.to_string();
    http.write(Method::PATCH, &target, &headers, body.as_bytes())
        .await
}

async fn delete(http: &Http, id: &str, if_match: &str) -> Answer {
    let target = format!("/api/v1/comments/{id}");
    let headers = [("if-match", if_match)];
    http.write(Method::DELETE, &target, &headers, b"").await
}

fn assert_changed(answer: &Answer, current: &str) {
    assert_eq!(answer.status, 412, "{answer:?}");
    assert_eq!(answer.header("etag"), Some(current), "{answer:?}");
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
    let late_change = change(http, &id, &first, &json!({ "rating": 3 })).await;
    assert_changed(&late_change, &second);
    let late_delete = delete(http, &id, &first).await;
    assert_changed(&late_delete, &second);
    // One of several tags matches.
    let tags = format!("{first},{second}");
    let third = change(http, &id, &tags, &json!({ "rating": 2 })).await;
    assert_eq!(third.expect(200)["rating"], 2);
    let fourth = change(http, &id, "*", &json!({ "rating": 5 })).await;
    let current = fourth.header("etag").unwrap().to_owned();
    assert_eq!(fourth.expect(200)["rating"], 5);

    let deleted = delete(http, &id, &format!("\"other\", {current}")).await;
    assert_eq!(deleted.status, 204);
    // A comment that does not exist has no revision to compare.
    for if_match in [current.as_str(), "*", "\"other\"", "\"a\", \"b\""] {
        let refused = delete(http, &id, if_match).await;
        assert_eq!(
            refused.problem()["type"],
            "urn:pagemark:problem:no-such-comment"
        );
        let refused = change(http, &id, if_match, &json!({ "rating": 1 })).await;
        assert_eq!(refused.status, 404);
    }
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_comment_has_a_tag_with_its_authors_id_and_another_without() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    let http = &api.http;
    let mut comment = good_comment("en", 5, "Body");
    comment["author_id"] = "u-7".into();
    let created = post(http, None, &comment).await;
    let tag_of_writer = created.header("etag").unwrap().to_owned();
    let id = created.expect(201)["id"].as_str().unwrap().to_owned();
    let address = format!("/api/v1/comments/{id}");
    let read = http.get(&address).await;
    let tag_of_reader = read.header("etag").unwrap().to_owned();
    assert!(read.expect(200)["author_id"].is_null());
    assert_ne!(tag_of_reader, tag_of_writer);

    // Who has one of both does not have the other.
    for (known, status_with_token, status_without) in
        [(&tag_of_reader, 200, 304), (&tag_of_writer, 304, 200)]
    {
        let known = [("if-none-match", known.as_str())];
        let with_token = http.write(Method::GET, &address, &known, b"").await;
        assert_eq!(with_token.status, status_with_token, "{with_token:?}");
        let without = http.send(Method::GET, &address, &known, b"").await;
        assert_eq!(without.status, status_without, "{without:?}");
    }
    // Each names the revision.
    let changed = change(http, &id, &tag_of_reader, &json!({ "rating": 4 })).await;
    let tag_of_writer = changed.header("etag").unwrap().to_owned();
    assert_eq!(changed.expect(200)["author_id"], "u-7");
    assert_eq!(delete(http, &id, &tag_of_reader).await.status, 412);
    assert_eq!(delete(http, &id, &tag_of_writer).await.status, 204);
    api.finish_with(stores).await;
}

/// Gives a comment the rating 4 under these conditions.
async fn rate_4(http: &Http, id: &str, headers: &[(&str, &str)]) -> Answer {
    let target = format!("/api/v1/comments/{id}");
    http.write(Method::PATCH, &target, headers, b"{\"rating\": 4}")
        .await
}

/// Deletes a comment under these conditions.
async fn delete_if(http: &Http, id: &str, headers: &[(&str, &str)]) -> Answer {
    let target = format!("/api/v1/comments/{id}");
    http.write(Method::DELETE, &target, headers, b"").await
}

#[tokio::test]
async fn a_change_does_not_apply_to_a_revision_in_if_none_match() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    let http = &api.http;
    let (id, first) = post_one(http).await;
    // The API checks If-Match first, and it holds.
    for headers in [
        &[("if-none-match", first.as_str())][..],
        &[("if-match", &first), ("if-none-match", "*")],
    ] {
        for answer in [
            rate_4(http, &id, headers).await,
            delete_if(http, &id, headers).await,
        ] {
            assert_eq!(answer.status, 412, "{answer:?}");
            assert_eq!(answer.header("etag"), Some(first.as_str()), "{answer:?}");
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
    assert_changed(&rate_4(http, &id, &stale).await, &first);

    let rated = rate_4(http, &id, &[("if-none-match", "\"other\"")]).await;
    assert_eq!(rated.expect(200)["rating"], 4);
    let deleted = delete_if(http, &id, &[("if-none-match", &first)]).await;
    assert_eq!(deleted.status, 204, "it is no longer at that revision");
    let missing = rate_4(http, &id, &[("if-none-match", "*")]).await;
    assert_eq!(missing.status, 404, "what is not there is not excluded");
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
        if body.contains("TransactItems") && met.fetch_add(1, Ordering::Relaxed) < conflicts {
            Some(TableFault::Conflict)
        } else {
            None
        }
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
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some("5"), "{answer:?}");
        let problem = answer.problem();
        assert_eq!(problem["type"], "urn:pagemark:problem:contended");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("Nothing was written"), "{problem}");
    }
    let comment = api.http.get(&format!("/api/v1/comments/{id}")).await;
    assert_eq!(comment.expect(200)["rating"], 4);
    api.finish_with(stores).await;
}

/// An API whose tokens of these names may write comments.
fn serve(stores: &Stores, tokens: &[(&str, &str)]) -> Served {
    let named = tokens
        .iter()
        .map(|(name, token)| named_token(name, "comments:write", token));
    let writing = WritingSettings {
        tokens: named.collect(),
        ..WritingSettings::default()
    };
    let settings = ApiSettings {
        writing,
        ..ApiSettings::default()
    };
    Served::with(stores, settings)
}

/// Posts the same comment as always under the key `k1`.
async fn post_under_k1(api: &Served, product: &str, token: &str) -> Value {
    let target = format!("{}/comments", product_path(product));
    let key = [("idempotency-key", "k1")];
    let comment = good_comment("en", 5, "Body").to_string();
    let http = api.http.with_token(token);
    http.write(Method::POST, &target, &key, comment.as_bytes())
        .await
        .expect(201)
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_its_token_s_name_and_its_product() {
    let stores = Stores::start().await;
    let tokens = [
        ("shop", "token-of-the-shop-1"),
        ("app", "token-of-the-app-1"),
    ];
    let api = serve(&stores, &tokens);
    let mut created = Vec::new();
    for (product, token) in [
        ("p1", "token-of-the-shop-1"),
        ("p2", "token-of-the-shop-1"),
        ("p1", "token-of-the-app-1"),
    ] {
        let first = post_under_k1(&api, product, token).await;
        assert_eq!(post_under_k1(&api, product, token).await, first);
        created.push(first);
    }
    let mut ids = created.iter().map(|comment| &comment["id"]);
    assert!(ids.all_unique(), "{created:?}");
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
        let api = serve(&stores, tokens);
        let again = post_under_k1(&api, "p1", "token-of-the-shop-2").await;
        assert_eq!(again, created[0]);
        api.finish().await;
    }
    assert_eq!(Contents::read(&stores.table).await.primary.len(), 3);
    stores.finish().await;
}

/// A post under `key-1` gets the first answer again.
async fn assert_answered_as_first(http: &Http, comment: &Value, first: &Answer) {
    let again = post(http, Some("key-1"), comment).await;
    assert_eq!(again.status, 201);
    assert_eq!(again.body, first.body);
    for name in ["location", "etag", "content-type"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
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
    assert_answered_as_first(http, &comment, &first).await;
    let other_spelling =
        json!({ "author": "Ann", "rating": 5.0, "body": "Body", "language": "en" });
    assert_answered_as_first(http, &other_spelling, &first).await;
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
    assert_answered_as_first(http, &comment, &first).await;
    http.delete(&id).await.expect(204);
    assert_answered_as_first(http, &comment, &first).await;
    let deleted = http.get(&format!("/api/v1/comments/{id}")).await;
    assert_eq!(deleted.status, 404, "it stays deleted");
    api.finish_with(stores).await;
}
