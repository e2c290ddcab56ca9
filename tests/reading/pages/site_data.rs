//! What pages show of a comment's attributes: that it was verified, and the shop's reply.

use hyper::Method;
use model::CommentAttributes;
use serde_json::json;
use table::NewComment;

use super::{
    comment,
    html::{Page, inside, text_of},
    site_settings, start,
    structured_data::shown_reviews,
};

fn with(number: i64, attributes: &serde_json::Value) -> NewComment {
    let mut comment = comment("p", "en", 5, number);
    comment.site.attributes = Some(CommentAttributes::parse(&attributes.to_string()).unwrap());
    comment
}

#[tokio::test]
async fn a_verified_comment_has_a_badge_and_a_reply_is_escaped_and_folded() {
    let long = "again and again ".repeat(220);
    let reply = json!({
        "text": "<script>alert(1)</script> & thanks",
        "author": "A & <b>",
        "at": "2024-02-29T12:00:00Z",
    });
    let comments = [
        with(1, &json!({ "verified": true, "reply": reply })),
        with(
            2,
            &json!({ "verified": "yes", "reply": "Thanks!", "other": "<b>secret</b>" }),
        ),
        with(3, &json!({ "reply": { "text": long } })),
    ];
    let running = start(site_settings(), &comments).await;
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    // The newest comes first.
    let [third, second, first] = page.all("article:not(.reply)")[..] else {
        panic!("{}", page.answer.body)
    };
    let badges = inside(first, ".verified");
    assert_eq!(badges.len(), 1);
    assert_eq!(text_of(badges[0]), "✓ Verified");
    assert_eq!(text_of(inside(first, ".reply h4")[0]), "Reply of A & <b>");
    assert_eq!(
        text_of(inside(first, ".reply .text")[0]),
        "<script>alert(1)</script> & thanks"
    );
    assert_eq!(
        inside(first, ".reply time")[0].attr("datetime"),
        Some("2024-02-29T12:00:00.000Z")
    );
    assert!(
        inside(second, ".verified, .reply").is_empty(),
        "values of another form show nothing"
    );
    assert_eq!(text_of(inside(third, ".reply h4")[0]), "Reply of the shop");
    assert_eq!(
        inside(third, ".reply .text + details.rest:not([open])").len(),
        1,
        "a long reply is folded"
    );
    let fragment = running.http.get("/fragment/product/p/comments").await;
    for html in [&page.answer.body, &fragment.body] {
        assert!(html.contains("Verified"), "{html}");
        assert!(html.contains("Reply of"), "{html}");
        assert!(!html.contains("<script>alert"), "{html}");
        assert!(!html.contains("secret"), "{html}");
    }
    // Without the shop's address, nothing links to it.
    assert!(page.all("[rel=author]").is_empty());

    let record = json!({ "name": "P", "url": "https://shop.example/p" }).to_string();
    let put = running
        .http
        .write(Method::PUT, "/api/v1/products/p", &[], record.as_bytes())
        .await;
    assert_eq!(put.status, 201, "{put:?}");
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    assert_eq!(
        page.links(".reply [rel=author]"),
        ["https://shop.example/p", "https://shop.example/p"]
    );
    // Structured data holds the reviews alone.
    assert_eq!(
        page.structured_data().unwrap()["review"],
        json!(shown_reviews(&page))
    );
    running.finish().await;
}
