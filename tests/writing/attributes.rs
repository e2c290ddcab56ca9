//! What a site stores with a comment beside its text: attributes are kept to the letter, and only
//! the primary item names the author.

use hyper::Method;
use serde_dynamo::Item;
use serde_json::{Value, json};

use crate::fixture::{
    data::{self, PRODUCT},
    http::{Answer, good_comment, listing, product_path},
    invariants::{collection, text},
    stack::Running,
};

/// Attributes whose letters a JSON library would change: the order of keys, numbers, escapes.
const ODD: &str = r#"{"z":1.0,"a":[12345678901234567890,1e2],"é":"\u00e9\/","verified":true,"nested":{"b":null,"a":{}}}"#;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_are_kept_to_the_letter_and_only_a_token_shows_the_author() {
    let mut running = Running::start().await;
    let sent = format!(
        r#"{{"language":"en","rating":4,"body":"Fine.","author_id":"user 7/é","attributes": {} }}"#,
        ODD.replace(",\"", " ,\n\t\"")
    );
    let path = format!("{}/comments", product_path(PRODUCT));
    let created = running
        .http
        .write(Method::POST, &path, &[], sent.as_bytes())
        .await;
    assert_eq!((created.status, raw(&created)), (201, ODD), "{created:?}");
    let id = created.json()["id"].as_str().unwrap().to_owned();
    let of_comment = format!("/api/v1/comments/{id}");
    running.settle().await;

    // Everybody reads the attributes, from the primary item and from duplicates. Only a token shows
    // the author.
    for target in [
        of_comment.clone(),
        listing(""),
        listing("language=en&rating=4&rating=5"),
    ] {
        let answer = running.http.get(&target).await;
        assert!(
            raw(&answer) == ODD && !answer.body.contains("author_id"),
            "{answer:?}"
        );
    }
    let shown = running.http.get_with_token(&of_comment).await;
    let author = shown.json()["author_id"].take();
    assert_eq!(
        (author, shown.header("cache-control")),
        (json!("user 7/é"), Some("private, no-cache"))
    );
    assert!(
        shown
            .headers
            .get_all("vary")
            .iter()
            .any(|name| name == "Authorization"),
        "{shown:?}"
    );
    let wrong = running
        .http
        .with_token("another")
        .get_with_token(&of_comment)
        .await;
    assert!(
        wrong.status == 200 && wrong.json()["author_id"].is_null(),
        "{wrong:?}"
    );

    // Other changes keep both. A change of one replaces it as a whole, and null removes it.
    let changed = running.http.patch(&id, &json!({ "rating": 5 })).await;
    assert_eq!(
        (raw(&changed), &changed.json()["author_id"]),
        (ODD, &json!("user 7/é"))
    );
    let changed = running
        .http
        .patch(
            &id,
            &json!({ "attributes": { "only": 1 }, "author_id": "8" }),
        )
        .await;
    assert_eq!(
        (raw(&changed), &changed.json()["author_id"]),
        (r#"{"only":1}"#, &json!("8"))
    );
    let (primary, duplicates) = settled(&mut running, &id).await;
    assert_eq!(
        (
            text(&primary, "attributes").as_str(),
            text(&primary, "author_id").as_str()
        ),
        (r#"{"only":1}"#, "8")
    );
    assert!(
        duplicates
            .iter()
            .all(|item| text(item, "attributes") == r#"{"only":1}"#
                && !item.contains_key("author_id"))
    );
    let removed = running
        .http
        .patch(&id, &json!({ "attributes": null, "author_id": null }))
        .await
        .expect(200);
    assert_eq!(
        (&removed["attributes"], removed.get("author_id")),
        (&Value::Null, None)
    );
    let (primary, _) = settled(&mut running, &id).await;
    assert!(
        !primary.contains_key("attributes") && !primary.contains_key("author_id"),
        "{primary:?}"
    );
    running.finish().await;
}

async fn settled(running: &mut Running, id: &str) -> (Item, Vec<Item>) {
    running.assert_invariants().await;
    let (mut primary, duplicates) = collection(running.stack.table(), &data::comment_id(id)).await;
    (primary.pop().unwrap(), duplicates)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_lists_all_comments_of_an_author_by_cursor() {
    const OF_AUTHOR: &str = "/api/v1/authors/user%207%2F%C3%A9/comments";
    let running = Running::start().await;
    let http = &running.http;
    let (mut expected, mut last) = (Vec::new(), String::new());
    for number in 0..5 {
        let mut comment = good_comment("en", 1 + number % 5, &format!("Number {number}."));
        comment["author_id"] = json!(if number == 2 { "user 7" } else { "user 7/é" });
        let created = http
            .post(["p", "q"][usize::try_from(number % 2).unwrap()], &comment)
            .await
            .expect(201);
        last = created["id"].as_str().unwrap().to_owned();
        expected.extend((number != 2).then_some(created));
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
    // What was deleted, or given to another author, is not listed.
    http.delete(&last).await.expect(204);
    http.patch(
        expected[0]["id"].as_str().unwrap(),
        &json!({ "author_id": "8" }),
    )
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
        assert_eq!(
            http.get_with_token(&format!("{OF_AUTHOR}{wrong}"))
                .await
                .status,
            400,
            "{wrong}"
        );
    }
    running.finish().await;
}
