//! The form of the local stack creates comments like the JSON API, and refuses forms from other sites.

use hyper::Method;
use model::Status;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::{html::Page, site_settings};
use crate::fixture::{
    http::{Answer, Http, WRITE_TOKEN},
    stack::{Running, settings},
};

const FORM: &str = "/local/product/a%2Fb/comments";

fn fields(others: &[(&str, &str)]) -> String {
    let mut fields = vec![
        ("key", "a-key-of-its-own"),
        ("rating", "4"),
        ("language", "en"),
        ("title", "Title & <more>"),
        ("body", "One\r\ntwo"),
        ("author", ""),
        ("token", WRITE_TOKEN),
    ];
    for (name, value) in others {
        match fields.iter_mut().find(|(known, _)| known == name) {
            Some(field) => field.1 = value,
            None => fields.push((name, value)),
        }
    }
    let pair = |(name, value): (&str, &str)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    fields.into_iter().map(pair).collect::<Vec<_>>().join("&")
}

async fn send_from(http: &Http, origin: &[(&str, &str)], body: &str) -> Answer {
    let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
    headers.extend_from_slice(origin);
    http.send(Method::POST, FORM, &headers, body.as_bytes()).await
}

async fn send(http: &Http, body: &str) -> Answer {
    send_from(http, &[("sec-fetch-site", "same-origin")], body).await
}

async fn total(running: &mut Running) -> u64 {
    running.settle().await;
    running.http.get("/api/v1/products/a%2Fb/stats").await.expect(200)["total"].as_u64().unwrap()
}

#[tokio::test]
async fn a_comment_from_the_form_equals_one_from_the_api() {
    let mut running = Running::start().await;
    let http = running.http.clone();
    let form = Page::get(&http, FORM, 200).await;
    assert_eq!((form.robots().as_str(), form.answer.header("cache-control")), ("noindex,follow", Some("no-store")));
    assert!(form.answer.header("content-security-policy").unwrap().contains("form-action 'self'"));
    let shown = Page::get(&http, "/product/a%2Fb/comments", 404).await;
    assert!(shown.answer.header("content-security-policy").unwrap().contains("form-action 'self'"));
    let start = Page::get(&http, "/", 200).await;
    assert!(start.answer.header("content-security-policy").unwrap().contains("form-action 'none'"));
    assert_eq!(shown.attribute("header a", "href").as_deref(), Some(FORM));

    let sent = send(&http, &fields(&[])).await;
    assert_eq!(sent.status, 303, "{sent:?}");
    let (page, id) = sent.header("location").unwrap().split_once("#comment-").unwrap();
    assert_eq!(page, "/product/a%2Fb/comments");
    let created = http.get(&format!("/api/v1/comments/{id}")).await.expect(200);
    let expected = json!(["a/b", "en", 4, "Title & <more>", "One\ntwo", null]);
    let fields_of = ["product", "language", "rating", "title", "body", "author"].map(|field| created[field].clone());
    assert_eq!(json!(fields_of), expected);
    // A form sent twice, as by an impatient click, creates one comment. A different text under the same key is refused
    // with the reason.
    assert_eq!(send(&http, &fields(&[])).await.header("location"), sent.header("location"));
    let other = send(&http, &fields(&[("body", "Other")])).await;
    assert!(other.status == 422 && other.body.contains("was sent before") && !other.body.contains("a-key-of-its-own"));
    assert_eq!(total(&mut running).await, 1);
    running.finish().await;
}

#[tokio::test]
async fn the_writer_of_a_pending_comment_reads_that_a_moderator_comes_first() {
    let mut settings = settings();
    settings.writing.new_comments = Status::Pending;
    let mut running = Running::start_with(settings).await;
    let http = running.http.clone();
    // Sent twice, it is still one comment.
    for _ in 0..2 {
        let page = Page::of(send(&http, &fields(&[])).await, 202);
        let note = "Thank you. A moderator reads your comment before it is published.";
        assert_eq!(page.text("main [role=status]"), note);
        assert_eq!((page.robots().as_str(), page.answer.header("cache-control")), ("noindex,follow", Some("no-store")));
        assert_eq!(page.attribute("main a", "href").as_deref(), Some("/product/a%2Fb/comments"));
    }
    assert_eq!(total(&mut running).await, 0);
    let waiting = running.stack.table().moderation_part(Status::Pending, None, 10).await.unwrap().comments;
    let [Ok(comment)] = waiting.as_slice() else { panic!("{waiting:?}") };
    http.patch(comment.id.as_str(), &json!({"status": "published"})).await.expect(200);
    assert_eq!(total(&mut running).await, 1);
    running.finish().await;
}

#[tokio::test]
async fn an_invalid_form_is_shown_again_with_the_input_and_the_reason() {
    let mut running = Running::start().await;
    let http = running.http.clone();
    let long = "x".repeat(10_001);
    for (field, value, status, reason) in [
        ("rating", "", 400, "Rating is missing"),
        ("rating", "6", 400, "6 is not a rating"),
        ("language", "e_n", 400, "not a language tag"),
        ("title", "two\nlines", 400, "Title holds the control character"),
        ("body", " \r\n ", 400, "Body is empty"),
        ("body", long.as_str(), 400, "at most 10000 are allowed"),
        ("token", "guessed", 401, "This is not the write token"),
    ] {
        let typed = [("author", "\"><b>Ann</b>"), (field, value)];
        let page = Page::of(send(&http, &fields(&typed)).await, status);
        assert_eq!(page.answer.header("cache-control"), Some("no-store"));
        assert!(!page.answer.body.contains(WRITE_TOKEN), "the token is not repeated");
        let problem = page.text("[role=alert]");
        assert!(problem.contains(reason), "{field}: {problem}");
        assert_eq!(page.one("[name=author]").attr("value"), Some("\"><b>Ann</b>"));
        if field != "rating" {
            assert_eq!(page.one("[aria-invalid]").attr("name"), Some(field));
            assert!(page.one("[name=rating][value='4']").attr("checked").is_some());
        }
        if field != "body" {
            assert_eq!(page.one("textarea").text().collect::<String>(), "One\ntwo");
        }
    }
    assert_eq!(total(&mut running).await, 0);
    running.finish().await;
}

#[tokio::test]
async fn the_longest_text_is_accepted_and_one_that_is_too_long_is_kept_in_the_form() {
    let mut running = Running::start().await;
    let http = running.http.clone();
    let longest = "の".repeat(10_000);
    assert_eq!(send(&http, &fields(&[("body", &longest)])).await.status, 303);
    let emoji = "😀".repeat(10_000);
    assert_eq!(send(&http, &fields(&[("body", &emoji), ("key", "another-key")])).await.status, 303);
    assert_eq!(total(&mut running).await, 2);

    let shown = async |body: &str, status: u16| {
        let page = Page::of(send(&http, &fields(&[("body", body)])).await, status);
        (page.text("[role=alert]"), page.one("textarea").text().collect::<String>())
    };
    for long in ["の".repeat(10_001), "の".repeat(40_000), "😀".repeat(60_000)] {
        let (reason, typed) = shown(&long, 400).await;
        assert!(reason.contains("at most 10000 are allowed"), "{reason}");
        assert!(typed == long, "{} characters are kept", typed.chars().count());
    }
    let (reason, typed) = shown(&"😀".repeat(100_000), 413).await;
    assert!(reason.contains("1,040 KiB") && typed.is_empty(), "{reason}");
    running.finish().await;
}

#[tokio::test]
async fn a_form_from_another_site_is_refused() {
    let mut running = Running::start().await;
    let http = running.http.clone();
    let own = running.stack.api_url().unwrap();
    let host = own.strip_prefix("http://").unwrap().to_owned();
    for origin in [
        &[][..],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none")],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[("origin", &format!("http://{host}.evil.example"))],
        &[("origin", &own), ("sec-fetch-site", "cross-site")],
        &[("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")],
    ] {
        let answer = send_from(&http, origin, &fields(&[])).await;
        assert_eq!(answer.status, 403, "{origin:?}: {answer:?}");
    }
    let json = http.send(Method::POST, FORM, &[("content-type", "text/plain"), ("origin", &own)], b"x").await;
    assert_eq!(json.status, 415);
    assert_eq!(total(&mut running).await, 0);
    let answer = send_from(&http, &[("origin", &own)], &fields(&[])).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    running.finish().await;
}

#[tokio::test]
async fn a_public_site_has_no_form() {
    let mut settings = site_settings();
    settings.site.comment_form = false;
    let running = Running::start_with(settings).await;
    assert_eq!(running.http.get(FORM).await.status, 404);
    assert_eq!(send(&running.http, &fields(&[])).await.status, 404);
    let page = Page::get(&running.http, "/product/a%2Fb/comments", 404).await;
    assert!(!page.answer.body.contains("/local/"));
    running.finish().await;
    assert!(self::settings().site.comment_form);
}
