//! The structured data (schema.org) of a page matches what the page shows.

use serde_json::{Value, json};

use super::{
    SITE, comment,
    html::{Page, inside, text_of, whole_text},
    names::put,
    site_settings, start, start_on_redis, three_pages, with_text,
};
use crate::fixture::{http::page_path, wait_for};

/// The reviews that the structured data of a page must have, from what the page shows.
pub(super) fn shown_reviews(page: &Page) -> Vec<Value> {
    let mut reviews = Vec::new();
    for article in page.all("article") {
        // Anonymous comments have no element for an author.
        let authors = inside(article, ".byline > bdi");
        let Some(author) = authors.first() else {
            continue;
        };
        let id = article.attr("id").unwrap();
        let id = id.strip_prefix("comment-").unwrap();
        let meta = text_of(inside(article, ".meta")[0]);
        let rating: u64 = meta.split(' ').nth(1).unwrap().parse().unwrap();
        let time = inside(article, "time")[0];
        let mut review = json!({
            "@type": "Review",
            "@id": format!("{SITE}/comments/{id}"),
            "author": { "@type": "Person", "name": whole_text(*author) },
            "datePublished": time.attr("datetime").unwrap(),
            "inLanguage": article.attr("lang").unwrap(),
            "reviewRating": {
                "@type": "Rating",
                "ratingValue": rating,
                "bestRating": 5,
                "worstRating": 1,
            },
            "reviewBody": whole_text(inside(article, ".text")[0]),
        });
        if let Some(title) = inside(article, "h3:not(.hidden)").first() {
            review["name"] = whole_text(*title).into();
        }
        reviews.push(review);
    }
    reviews
}

#[tokio::test]
async fn structured_data_equals_what_the_page_shows() {
    let running = start(site_settings(), &three_pages("a b/c")).await;
    put(&running, "a b/c", &json!({ "name": "Machine" })).await;
    let url = "/product/a%20b%2Fc/comments";
    for (target, count) in [
        ("", 17),
        ("?page=1", 13),
        ("/de", 0),
        ("/en/1.5", 12),
        ("/~/3", 6),
    ] {
        let page = Page::get(&running.http, &format!("{url}{target}"), 200).await;
        let mut data = page.structured_data().unwrap();
        let shown = shown_reviews(&page);
        assert_eq!(shown.len(), count, "{target}");
        let reviews = data
            .as_object_mut()
            .unwrap()
            .remove("review")
            .unwrap_or_else(|| json!([]));
        assert_eq!(reviews, json!(shown), "{target}");
        // Every page shows the average of the whole product, for any filter.
        let product = json!({
            "@context": "https://schema.org",
            "@type": "Product",
            "@id": format!("{SITE}{url}"),
            "url": format!("{SITE}{url}"),
            "name": "Machine",
            "aggregateRating": {
                "@type": "AggregateRating",
                "ratingValue": "3.00",
                "bestRating": 5,
                "worstRating": 1,
                "reviewCount": 45,
            },
        });
        assert_eq!(data, product);
        assert_eq!(
            page.text(".average"),
            "★ 3.00 out of 5, from 45 comments",
            "{target}"
        );
    }
    running.finish().await;
}

#[tokio::test]
async fn structured_data_has_no_average_without_the_index_and_needs_a_review() {
    // Every third comment has no author.
    let anonymous = comment("q", "en", 5, 3);
    let (redis, running) = start_on_redis(&[comment("p", "en", 5, 1), anonymous]).await;
    let nameless = Page::get(&running.http, "/product/p/comments", 200).await;
    assert!(nameless.structured_data().is_none(), "it has no name");
    put(&running, "p", &json!({ "name": "P" })).await;
    put(&running, "q", &json!({ "name": "Q" })).await;
    let with_average = Page::get(&running.http, "/product/q/comments", 200).await;
    assert!(with_average.structured_data().is_some());
    redis.server.kill().await;
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    let data = page.structured_data().unwrap();
    assert_eq!(data.get("aggregateRating"), None);
    assert_eq!(data["review"], json!(shown_reviews(&page)));
    assert!(page.text(".notice").contains("away for a moment"));
    let without_review = Page::get(&running.http, "/product/q/comments", 200).await;
    assert!(without_review.structured_data().is_none());
    redis.server.restart().await;
    wait_for("the average", async || {
        let page = running.http.get("/product/p/comments").await;
        if page.body.contains("aggregateRating") {
            Ok(())
        } else {
            Err(page)
        }
    })
    .await;
    running.finish().await;
}

/// Texts that try to become markup or script.
pub(super) const HOSTILE: [&str; 6] = [
    "</script><script>document.title='owned'</script>",
    "\"><img src=x onerror=\"document.title='owned'\">",
    "'; </style></title></textarea><svg onload=alert(1)> {{ body }} {% raw %} ${7*7}",
    "<!-- <b>bold</b> ]]> &lt;i&gt; &amp;amp; \u{2028}\u{2029}",
    "\u{202e}right to left\u{202c} \u{2066}isolated\u{200f}",
    "javascript:alert(1)//\u{feff}\u{fffd}",
];

#[tokio::test]
async fn hostile_texts_never_become_markup() {
    let mut comments = Vec::new();
    for (number, hostile) in (0..).zip(HOSTILE) {
        let comment = comment(&format!("«{hostile}»"), "en", 5, number);
        comments.push(with_text(comment, hostile, hostile, hostile));
    }
    let running = start(site_settings(), &comments).await;
    for hostile in HOSTILE {
        let product = format!("«{hostile}»");
        let path = page_path(&product);
        let page = Page::get(&running.http, &path, 200).await;
        assert_eq!(whole_text(page.one("h1 bdi")), product);
        let record = json!({ "name": hostile, "brand": hostile, "sku": hostile });
        put(&running, &product, &record).await;
        let page = Page::get(&running.http, &path, 200).await;
        for selector in [
            "h1 bdi",
            "article h3",
            "article .text",
            "article .byline bdi",
        ] {
            assert_eq!(whole_text(page.one(selector)), hostile, "{selector}");
        }
        let title = whole_text(page.one("title"));
        assert_eq!(title, format!("Comments on {hostile}"));
        let data = page.structured_data().unwrap();
        let review = &data["review"][0];
        for shown in [
            &review["reviewBody"],
            &review["name"],
            &review["author"]["name"],
            &data["name"],
            &data["brand"]["name"],
            &data["sku"],
        ] {
            assert_eq!(shown, hostile);
        }
        // No text became an element or an attribute.
        assert!(
            page.all("img, style, textarea, h1 b, h1 i, article b, article i, [onload], [onerror]")
                .is_empty()
        );
    }
    running.finish().await;
}
