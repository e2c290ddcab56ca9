//! People's texts, as a page shows them.

use hyper::Method;
use itertools::Itertools;
use model::CommentText;
use serde_json::json;
use table::NewComment;

use super::{
    comment,
    html::{Page, inside, text_of},
    site_settings, start,
};

fn with_body(number: i64, body: &str) -> NewComment {
    let mut comment = comment("p", "en", 5, number);
    comment.text.body = Some(body.to_owned());
    comment
}

/// What a page shows of a text: its parts, and how many of them can be unfolded.
struct ShownText {
    parts: Vec<String>,
    folded: usize,
}

fn shown_text(article: scraper::ElementRef<'_>) -> ShownText {
    let parts = inside(article, ".text");
    ShownText {
        parts: parts.iter().map(|part| part.text().collect()).collect(),
        folded: inside(article, ".text + details.rest:not([open]) > summary").len(),
    }
}

#[tokio::test]
async fn a_long_text_is_folded_and_completely_on_the_page() {
    let words = (0..1_600).map(|number| format!("w{number}")).join(" ");
    let comments = [
        with_body(1, &words),
        with_body(2, &"line\n".repeat(2_000)),
        with_body(3, &format!("a{}b", "\n".repeat(9_997))),
    ];
    let running = start(site_settings(), &comments).await;
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    // The newest comes first. The style sheet cuts a text before such a line off (`oddities` in
    // pages.mjs).
    let articles = page.all("article");
    let many_words = shown_text(articles[2]);
    assert_eq!(many_words.parts, [words], "nothing is lost");
    assert_eq!(many_words.folded, 1);
    let many_lines = shown_text(articles[1]);
    assert_eq!(many_lines.parts.len(), 1);
    assert_eq!(many_lines.parts[0].lines().count(), 2_000);
    assert_eq!(many_lines.folded, 1);
    let empty_lines = shown_text(articles[0]);
    assert_eq!(empty_lines.parts, ["a\n\n\nb"]);
    assert_eq!(empty_lines.folded, 0);
    running.finish().await;
}

#[tokio::test]
async fn a_stored_title_or_author_without_a_visible_character_is_not_shown() {
    let mut blank = comment("p", "en", 5, 1);
    // The form in which earlier versions stored it.
    blank.text = CommentText {
        title: Some("  ".to_owned()),
        body: Some("Body".to_owned()),
        author: Some("\u{200b}".to_owned()),
    };
    let running = start(site_settings(), std::slice::from_ref(&blank)).await;
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    // Every comment has a heading, for those who go from heading to heading by ear.
    assert_eq!(page.text("article h3.hidden"), "Comment of Anonymous");
    assert!(
        page.text(".byline").starts_with("Anonymous, "),
        "{}",
        page.text(".byline")
    );
    let shown = running
        .http
        .get(&format!("/api/v1/comments/{}", blank.id))
        .await
        .expect(200);
    assert!(shown["title"].is_null(), "{shown}");
    assert!(shown["author"].is_null(), "{shown}");
    // A change of a different field still succeeds.
    running
        .http
        .patch(blank.id.as_str(), &json!({ "rating": 1 }))
        .await
        .expect(200);
    running.finish().await;
}

#[tokio::test]
async fn a_rating_without_a_text_is_shown_without_one() {
    let mut rating = comment("p", "en", 4, 1);
    rating.text.title = None;
    rating.text.body = None;
    rating.text.author = Some("Ada".to_owned());
    let running = start(site_settings(), std::slice::from_ref(&rating)).await;
    let http = &running.http;
    let record = json!({ "name": "P" }).to_string();
    let put = http
        .write(Method::PUT, "/api/v1/products/p", &[], record.as_bytes())
        .await;
    assert_eq!(put.status, 201, "{put:?}");
    let page = Page::get(http, "/product/p/comments", 200).await;
    let [article] = page.all("article")[..] else {
        panic!("{}", page.answer.body)
    };
    assert!(inside(article, ".text").is_empty(), "{}", page.answer.body);
    assert!(
        text_of(article).contains("4 out of 5"),
        "{}",
        text_of(article)
    );
    let data = page.structured_data().unwrap();
    let review = &data["review"][0];
    assert_eq!(review["reviewRating"]["ratingValue"], 4, "{review}");
    assert!(review.get("reviewBody").is_none(), "{review}");
    let feed = http.get("/product/p/feed").await;
    assert!(feed.body.contains("<entry"), "{feed:?}");
    assert!(!feed.body.contains("<content"), "{feed:?}");
    let path = format!("/api/v1/comments/{}", rating.id);
    let shown = http.get(&path).await.expect(200);
    assert!(shown["body"].is_null(), "{shown}");
    assert!(shown.get("body").is_some(), "{shown}");
    // Earlier versions need a text: an empty one.
    let table = running.stack.table();
    let item = table.primary_item(&rating.id).await.unwrap().unwrap();
    let item = serde_json::to_value(item).unwrap();
    assert_eq!(item["comment_blob"]["M"]["body"]["S"], "", "{item}");
    let id = rating.id.as_str();
    let with_text = http
        .patch(id, &json!({ "body": "Fine." }))
        .await
        .expect(200);
    assert_eq!(with_text["body"], "Fine.");
    let without = http.patch(id, &json!({ "body": null })).await.expect(200);
    assert!(without["body"].is_null(), "{without}");
    running.finish().await;
}

#[tokio::test]
async fn the_front_page_shows_the_newest_positive_beside_the_newest_critical_comment() {
    let ratings = [5, 4, 2, 3, 4, 5];
    let comments: Vec<NewComment> = (1..)
        .zip(ratings)
        .map(|(number, rating)| comment("p", "en", rating, number))
        .collect();
    let running = start(site_settings(), &comments).await;
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    let shown: Vec<String> = page
        .all(".contrast blockquote")
        .into_iter()
        .map(text_of)
        .collect();
    assert_eq!(shown, ["Title 6 Body 6 of p", "Title 4 Body 4 of p"]);
    assert_eq!(
        page.links(".contrast a"),
        [
            format!("/comments/{}", comments[5].id),
            "/product/p/comments/~/4.5".to_owned(),
            format!("/comments/{}", comments[3].id),
            "/product/p/comments/~/1.2.3".to_owned(),
        ]
    );
    for without in [
        "/product/p/comments/en",
        "/product/p/comments?order=oldest",
        "/product/p/comments/~/4.5",
    ] {
        let page = Page::get(&running.http, without, 200).await;
        assert!(page.all(".contrast").is_empty(), "{without}");
    }
    running.finish().await;
    // Without a critical comment there is nothing to compare.
    let running = start(site_settings(), &comments[4..]).await;
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    assert!(page.all(".contrast").is_empty());
    running.finish().await;
}
