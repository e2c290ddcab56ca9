//! What pages show of a comment's attributes: that it was verified, the shop's reply, and photos.

use hyper::Method;
use model::CommentAttributes;
use serde_json::{Value, json};
use table::NewComment;

use super::{
    comment,
    html::{Page, inside, text_of},
    names::put,
    site_settings, start,
    structured_data::shown_reviews,
};

fn with(number: i64, attributes: &Value) -> NewComment {
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

fn photo(url: &str, alt: Option<&str>) -> Value {
    json!({ "url": url, "width": 1600, "height": 1200, "alt": alt })
}

#[tokio::test]
async fn photos_on_the_hosts_that_the_site_names_are_shown_and_no_others() {
    let ours = "https://photos.example.com/a%22b.jpg?x=1&y=2";
    let others = [
        "https://photos.example.com.evil.example/1.jpg",
        "https://photos.example.com:444/1.jpg",
        "https://evil.example/photos.example.com/1.jpg",
        "http://photos.example.com/1.jpg",
    ];
    let mut photos = vec![
        photo(ours, Some("A \"cup\"")),
        photo("https://CDN.example/2.jpg", None),
    ];
    photos.extend(others.map(|url| photo(url, None)));
    let mut settings = site_settings();
    let hosts = ["photos.example.com", "cdn.example"];
    settings.api.site.photo_hosts = hosts.map(|host| host.parse().unwrap()).to_vec();
    let mut comment = with(0, &json!({ "photos": photos }));
    comment.text.author = Some("Ada".to_owned());
    let running = start(settings, &[comment]).await;
    put(&running, "p", &json!({ "name": "P" })).await;

    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    let shown = [ours, "https://CDN.example/2.jpg"];
    assert_eq!(page.links(".photos a"), shown);
    let mut alts = Vec::new();
    for image in page.all(".photos img[width='1600'][height='1200'][loading=lazy]") {
        alts.push(image.attr("alt").unwrap().to_owned());
    }
    assert_eq!(alts, ["A \"cup\"", "Photo 2"]);
    let policy = page.answer.header("content-security-policy").unwrap();
    let pictures = "img-src 'self' https://photos.example.com https://cdn.example;";
    assert!(policy.contains(pictures), "{policy}");
    let data = page.structured_data().unwrap();
    assert_eq!(data["review"][0]["image"], json!(shown));
    let fragment = running.http.get("/fragment/product/p/comments").await;
    assert!(fragment.body.contains("class=\"photos\""), "{fragment:?}");
    assert!(!fragment.body.contains("evil"), "{fragment:?}");
    running.finish().await;

    // Without the setting there are none.
    let running = start(
        site_settings(),
        &[with(0, &json!({ "photos": [photo(ours, None)] }))],
    )
    .await;
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    assert!(page.all(".photos").is_empty());
    running.finish().await;
}
