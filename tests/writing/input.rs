//! The API refuses bad input by naming the wrong part, or handles it correctly. It never answers
//! 500 and never writes a part of a change.

use hyper::Method;
use model::CommentText;
use serde_json::json;

use crate::fixture::{
    http::{Answer, Http, encoded, good_comment, ids, page_path, product_path},
    invariants::Contents,
    stack::Running,
};

const _: crate::Engines = crate::Engines::Both;

async fn start() -> (Running, Contents) {
    let mut running = Running::start().await;
    for rating in [1, 5] {
        running
            .http
            .post("p", &good_comment("en", rating, "Fine."))
            .await
            .expect(201);
    }
    let before = running.assert_invariants().await;
    (running, before)
}

const COMMENTS_OF_P: &str = "/api/v1/products/p/comments";

/// The address and the id of a comment.
fn a_comment(before: &Contents) -> (String, String) {
    let id = before.comments()[0].id.to_string();
    (format!("/api/v1/comments/{id}"), id)
}

async fn finish_unchanged(mut running: Running, before: &Contents) {
    let after = running.assert_invariants().await;
    assert_eq!(after.comments(), before.comments());
    assert_eq!(after.count(), before.count(), "something was half-written");
    running.finish().await;
}

fn assert_names(answer: &Answer, field: &str) {
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(answer.problem()["field"], field, "{answer:?}");
}

async fn get_by_cursor(http: &Http, query: &str, cursor: &str) -> Answer {
    let cursor = encoded(cursor);
    http.get(&format!("{COMMENTS_OF_P}?{query}&cursor={cursor}"))
        .await
}

#[tokio::test]
async fn a_cursor_that_is_altered_or_of_another_listing_is_refused() {
    let (running, before) = start().await;
    let http = &running.http;
    let first = format!("{COMMENTS_OF_P}?page_size=1");
    let first = http.get(&first).await.expect(200);
    let cursor = first["cursor"]["next"].as_str().unwrap();
    let second = get_by_cursor(http, "page_size=1", cursor).await.expect(200);
    assert_ne!(ids(&second), ids(&first));

    for query in [
        "page_size=2",
        "page_size=1&rating=1",
        "page_size=1&language=en",
        "page_size=1&order=oldest",
        "",
    ] {
        assert_names(&get_by_cursor(http, query, cursor).await, "cursor");
    }
    let elsewhere = format!(
        "{}/comments?page_size=1&cursor={}",
        product_path("q"),
        encoded(cursor)
    );
    assert_names(&http.get(&elsewhere).await, "cursor");
    let mut altered = vec![
        format!("{cursor}A"),
        format!("{cursor}="),
        format!(" {cursor}"),
        cursor.repeat(2),
    ];
    for (position, letter) in cursor.char_indices() {
        let mut other_letter = cursor.to_owned();
        let other = if letter == 'A' { "B" } else { "A" };
        other_letter.replace_range(position..=position, other);
        altered.push(other_letter);
        altered.push(cursor[..position].to_owned());
    }
    for cursor in altered {
        let answer = get_by_cursor(http, "page_size=1", &cursor).await;
        assert_names(&answer, "cursor");
    }
    let with_page = get_by_cursor(http, "page_size=1&page=1", cursor).await;
    assert_names(&with_page, "page");
    finish_unchanged(running, &before).await;
}

#[tokio::test]
async fn a_body_that_is_not_json_or_too_large_is_refused() {
    let (running, before) = start().await;
    let http = &running.http;
    let (of_comment, id) = a_comment(&before);
    let twice = r#"{"language":"en","rating":5,"rating":1,"body":"b"}"#;
    let deep = "[".repeat(50_000);
    let surrogate = r#"{"language":"en","rating":5,"body":"\ud800"}"#;
    for broken in [
        "",
        "{",
        "{\"body\":",
        "[]",
        "null",
        "\"text\"",
        "{}x",
        "\u{feff}{}",
        twice,
        &deep,
        surrogate,
    ] {
        for (method, target) in [(Method::POST, COMMENTS_OF_P), (Method::PATCH, &of_comment)] {
            let answer = http.write(method, target, &[], broken.as_bytes()).await;
            assert_eq!(answer.status, 400, "{broken:.60}: {answer:?}");
            answer.problem();
        }
    }
    let not_utf8 = b"{\"language\":\"en\",\"rating\":5,\"body\":\"\xff\xfe\"}";
    let refused = http.write(Method::POST, COMMENTS_OF_P, &[], not_utf8).await;
    assert_eq!(refused.status, 400);

    let large = "x".repeat(200_000);
    let answer = http.post("p", &good_comment("en", 5, &large)).await;
    let problem = answer.problem();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("150 KiB"), "{answer:?}");
    answer.expect(413);
    http.patch(&id, &json!({ "body": large })).await.expect(413);

    for (name, value, status) in [
        ("content-type", "text/plain", 415),
        ("content-encoding", "gzip", 415),
        ("idempotency-key", "two words", 400),
        ("idempotency-key", "", 400),
    ] {
        let mut headers = vec![
            ("authorization", "Bearer the-tests-own-token"),
            (name, value),
        ];
        if name != "content-type" {
            headers.push(("content-type", "application/json"));
        }
        let body = good_comment("en", 5, "Fine.").to_string();
        let answer = http
            .send(Method::POST, COMMENTS_OF_P, &headers, body.as_bytes())
            .await;
        assert_eq!(answer.status, status, "{name}: {value:?}: {answer:?}");
        answer.problem();
    }
    finish_unchanged(running, &before).await;
}

#[tokio::test]
async fn a_text_at_its_limits_is_kept_with_line_feeds() {
    let (mut running, _) = start().await;
    let http = &running.http;
    let body = "\u{202e}😀é\u{301}\r\n\t<script>&\"' "
        .chars()
        .cycle()
        .take(CommentText::BODY_MAX_CHARS - 1);
    let comment = json!({
        "language": "EN-us",
        "rating": 3,
        "title": "😀".repeat(CommentText::TITLE_MAX_CHARS),
        "body": format!("{}.", body.collect::<String>()),
        "author": "א".repeat(CommentText::AUTHOR_MAX_CHARS),
    });
    let created = http.post("p", &comment).await.expect(201);
    let id = created["id"].as_str().unwrap();
    running.settle().await;
    let http = &running.http;
    let shown = http
        .get(&format!("/api/v1/comments/{id}"))
        .await
        .expect(200);
    let listed = http
        .get(&format!("{COMMENTS_OF_P}?language=en-US&rating=3"))
        .await
        .expect(200);
    assert_eq!(listed["comments"][0], shown);
    assert_eq!(shown, created);
    assert_eq!(shown["language"], "en-US");
    for field in ["title", "author", "rating"] {
        assert_eq!(shown[field], comment[field], "{field}");
    }
    // Line ends are one content in every form.
    let body = comment["body"].as_str().unwrap();
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    assert_eq!(shown["body"], body);
    let page = http.get("/product/p/comments/en-US/3").await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(
        page.body.contains("&#60;script&#62;") || page.body.contains("&lt;script&gt;"),
        "{page:?}"
    );
    assert!(!page.body.contains("<script>&"), "{page:?}");
    running.finish().await;
}

/// Ids that are accepted to the letter.
const PRODUCTS: [&str; 23] = [
    // Paths, queries and escapes.
    "a/b/c",
    "/",
    "a/../b",
    "...",
    "a\\b",
    "a?b=c&d",
    "a#b",
    "a+b",
    "100%",
    "%2F",
    ";,:@$!*()[]<>^`|",
    // The separators and forms of keys in the stores.
    "~",
    "a~/~/~",
    "PRODUCT#p/~/~",
    "{x}",
    "a{0}b",
    "\"quoted\" 'twice'",
    "a b",
    // Characters of several bytes, and one character in two forms.
    "☕😀",
    "שולחן",
    "a\u{202e}rtl",
    "e\u{301}",
    "é",
];

/// A product has this comment, rated 4, and no other.
async fn assert_has_one_comment(http: &Http, product: &str, id: &str) {
    let path = product_path(product);
    let page = http
        .get(&format!("{path}/comments?rating=4&rating=5"))
        .await;
    let page = page.expect(200);
    assert_eq!(page["product"], product);
    assert_eq!(page["total"], 1);
    assert_eq!(ids(&page), [id], "each product has its own comment only");
    let stats = http.get(&format!("{path}/stats")).await.expect(200);
    assert_eq!(stats["total"], 1, "{stats}");
    let shown = http.get(&format!("{}/~/4", page_path(product))).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(
        shown.body.contains(&format!("id=\"comment-{id}\"")),
        "{shown:?}"
    );
}

#[tokio::test]
async fn every_product_id_is_accepted_exactly_and_a_hidden_character_refused() {
    let (mut running, _) = start().await;
    let long = "😀".repeat(200);
    let mut ids_by_product = Vec::new();
    for product in PRODUCTS.into_iter().chain([long.as_str()]) {
        let created = running
            .http
            .post(product, &good_comment("en", 4, "Fine."))
            .await
            .expect(201);
        assert_eq!(created["product"], product);
        ids_by_product.push((product, created["id"].as_str().unwrap().to_owned()));
    }
    running.settle().await;
    for (product, id) in &ids_by_product {
        assert_has_one_comment(&running.http, product, id).await;
    }
    let before = running.assert_invariants().await;
    let http = &running.http;
    for hidden in ["%E2%80%8B", "%EF%BB%BFp", "p%20"] {
        let comment = good_comment("en", 5, "Fine.").to_string();
        let url = format!("/api/v1/products/{hidden}/comments");
        let refused = http
            .write(Method::POST, &url, &[], comment.as_bytes())
            .await;
        assert_names(&refused, "product");
        let listed = http.get(&url).await.expect(200);
        assert_eq!(listed["total"], 0, "one may be stored");
    }
    finish_unchanged(running, &before).await;
}

#[tokio::test]
async fn a_missing_comment_is_404_and_an_id_that_is_none_is_named() {
    let (running, before) = start().await;
    let http = &running.http;
    for unknown in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "-", "a.b_c"] {
        let address = format!("/api/v1/comments/{unknown}");
        for answer in [
            http.get(&address).await,
            http.get(&format!("{address}/position")).await,
            http.patch(unknown, &json!({ "rating": 1 })).await,
            http.delete(unknown).await,
        ] {
            assert_eq!(answer.status, 404, "{answer:?}");
        }
    }
    for bad in ["a%20b", "a%2Fb", "%C3%A9", "%FF", &"x".repeat(65)] {
        assert_names(&http.get(&format!("/api/v1/comments/{bad}")).await, "id");
        assert_names(&http.patch(bad, &json!({ "rating": 1 })).await, "id");
        assert_names(&http.delete(bad).await, "id");
    }
    finish_unchanged(running, &before).await;
}
