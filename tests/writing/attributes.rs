//! What a site stores with a comment beside its text: attributes are kept in one spelling, and only
//! the primary item names the author.

use hyper::Method;
use serde_dynamo::Item;
use serde_json::{Value, json};

use crate::fixture::{
    data::{self, PRODUCT},
    http::{Answer, Http, good_comment, listing, product_path},
    invariants::{collection, text},
    stack::Running,
};

const _: crate::Engines = crate::Engines::Both;

/// Attributes in another spelling than the one that is kept: in the order of keys, in numbers and
/// escapes.
const SENT: &str = r#"{"z":1.0,"a":[12345678901234567890,1e2],"é":"\u00e9\/","verified":true,"nested":{"b":null,"a":{}}}"#;
const ODD: &str =
    r#"{"a":[12345678901234567890,100],"nested":{"a":{},"b":null},"verified":true,"z":1,"é":"é/"}"#;

/// The attributes in an answer, to the letter.
fn raw(answer: &Answer) -> &str {
    let (_, after) = answer
        .body
        .split_once(r#""attributes":"#)
        .unwrap_or_else(|| panic!("{answer:?}"));
    let end = after
        .find(r#","author_id""#)
        .or_else(|| after.find(r#","revision""#));
    &after[..end.unwrap()]
}

/// Readers get the attributes, from the primary item and from duplicates. Only a token shows
/// the author.
async fn assert_reads(http: &Http, id: &str) {
    let of_comment = format!("/api/v1/comments/{id}");
    for target in [
        of_comment.clone(),
        listing(""),
        listing("language=en&rating=4&rating=5"),
    ] {
        let answer = http.get(&target).await;
        assert_eq!(raw(&answer), ODD, "{answer:?}");
        assert!(!answer.body.contains("author_id"), "{answer:?}");
    }
    let shown = http.get_with_token(&of_comment).await;
    assert_eq!(shown.json()["author_id"], "user 7/é");
    assert_eq!(shown.header("cache-control"), Some("private, no-cache"));
    let mut vary = shown.headers.get_all("vary").iter();
    assert!(vary.any(|name| name == "Authorization"), "{shown:?}");
    let with_another = http.with_token("another");
    let wrong = with_another.get_with_token(&of_comment).await;
    assert_eq!(wrong.status, 200, "{wrong:?}");
    assert!(wrong.json()["author_id"].is_null(), "{wrong:?}");
}

/// The primary item of a comment and its duplicates, when all is fanned out.
async fn items_of(running: &mut Running, id: &str) -> (Item, Vec<Item>) {
    running.assert_invariants().await;
    let (mut primary, duplicates) = collection(running.stack.table(), &data::comment_id(id)).await;
    (primary.pop().unwrap(), duplicates)
}

/// Other changes keep both. A change of one replaces it as a whole, and null removes it.
async fn assert_changes(running: &mut Running, id: &str) {
    let changed = running.http.patch(id, &json!({ "rating": 5 })).await;
    assert_eq!(raw(&changed), ODD);
    assert_eq!(changed.json()["author_id"], "user 7/é");

    let change = json!({ "attributes": { "only": 1 }, "author_id": "8" });
    let changed = running.http.patch(id, &change).await;
    assert_eq!(raw(&changed), r#"{"only":1}"#);
    assert_eq!(changed.json()["author_id"], "8");
    let (primary, duplicates) = items_of(running, id).await;
    assert_eq!(text(&primary, "attributes"), r#"{"only":1}"#);
    assert_eq!(text(&primary, "author_id"), "8");
    for duplicate in duplicates {
        assert_eq!(text(&duplicate, "attributes"), r#"{"only":1}"#);
        assert!(!duplicate.contains_key("author_id"));
    }

    let removal = json!({ "attributes": null, "author_id": null });
    let removed = running.http.patch(id, &removal).await.expect(200);
    assert_eq!(removed["attributes"], Value::Null);
    assert_eq!(removed.get("author_id"), None);
    let (primary, _) = items_of(running, id).await;
    assert!(!primary.contains_key("attributes"), "{primary:?}");
    assert!(!primary.contains_key("author_id"), "{primary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_are_kept_in_one_spelling_and_only_a_token_shows_the_author() {
    let mut running = Running::start().await;
    let with_white_space = SENT.replace(",\"", " ,\n\t\"");
    let sent = format!(
        r#"{{"language":"en","rating":4,"body":"Fine.","author_id":"user 7/é","attributes": {with_white_space} }}"#
    );
    let path = format!("{}/comments", product_path(PRODUCT));
    let created = running
        .http
        .write(Method::POST, &path, &[], sent.as_bytes())
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(raw(&created), ODD, "{created:?}");
    let id = created.json()["id"].as_str().unwrap().to_owned();
    running.settle().await;
    assert_reads(&running.http, &id).await;
    assert_changes(&mut running, &id).await;
    running.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_lists_all_comments_of_an_author_by_cursor() {
    const OF_AUTHOR: &str = "/api/v1/authors/user%207%2F%C3%A9/comments";
    let running = Running::start().await;
    let http = &running.http;
    let mut expected = Vec::new();
    let mut last = String::new();
    for number in 0..5 {
        let product = if number % 2 == 0 { "p" } else { "q" };
        let is_of_another = number == 2;
        let mut comment = good_comment("en", 1 + number % 5, &format!("Number {number}."));
        comment["author_id"] = json!(if is_of_another { "user 7" } else { "user 7/é" });
        let created = http.post(product, &comment).await.expect(201);
        last = created["id"].as_str().unwrap().to_owned();
        if !is_of_another {
            expected.push(created);
        }
    }
    expected.sort_by_key(|comment| comment["id"].as_str().unwrap().to_owned());
    assert_eq!(http.get(OF_AUTHOR).await.status, 401);
    for page_size in [1, 2, 4, 100] {
        let mut next = Some(format!("{OF_AUTHOR}?page_size={page_size}"));
        let mut listed = Vec::new();
        while let Some(target) = next {
            let answer = http.get_with_token(&target).await;
            assert_eq!(
                answer.header("cache-control"),
                Some("no-store"),
                "{answer:?}"
            );
            let page = answer.expect(200);
            listed.extend(page["comments"].as_array().unwrap().clone());
            next = page["links"]["next"].as_str().map(str::to_owned);
            assert_eq!(next.is_some(), page["cursor"]["next"].is_string());
        }
        assert_eq!(listed, expected, "{page_size}");
    }
    // A comment that was deleted, or given to another author, is not listed.
    http.delete(&last).await.expect(204);
    let first = expected[0]["id"].as_str().unwrap();
    http.patch(first, &json!({ "author_id": "8" }))
        .await
        .expect(200);
    let page = http.get_with_token(OF_AUTHOR).await.expect(200);
    assert_eq!(page["comments"].as_array().unwrap()[..], expected[1..3]);
    let nobody = http
        .get_with_token("/api/v1/authors/nobody/comments")
        .await
        .expect(200);
    assert_eq!(nobody["comments"], json!([]));
    for wrong in ["?cursor=a%20b", "?page=2", "?page_size=0"] {
        let refused = http.get_with_token(&format!("{OF_AUTHOR}{wrong}")).await;
        assert_eq!(refused.status, 400, "{wrong}");
    }
    running.finish().await;
}
