//! Pages that no number leads to: they are reached by cursor, and search engines may not index
//! them.

use table::NewComment;

use super::{html::Page, site_settings, stable::shown, start, start_on_redis, three_pages};
use crate::fixture::http::Http;

fn turn(page: &Page, direction: &str) -> Option<String> {
    let link = page.attribute(&format!("#pages a[rel~={direction}]"), "href")?;
    Some(link.strip_suffix("#comments").unwrap().to_owned())
}

/// Follows the links in one direction. Each must lead by cursor to a page that says so. Returns the
/// ids of the comments on these pages, and the address of the last one.
async fn follow(http: &Http, from: &Page, direction: &str) -> (Vec<String>, Option<String>) {
    let mut ids = Vec::new();
    let mut last = None;
    let mut next = turn(from, direction);
    while let Some(target) = next {
        assert!(target.contains("cursor="), "{target}");
        let page = Page::get(http, &target, 200).await;
        assert_eq!(page.robots(), "noindex,follow", "{target}");
        assert!(page.text("title").contains("continued"));
        assert!(page.text("main h2").starts_with("Comments"));
        assert_eq!(
            page.all("#pages li a").len(),
            1,
            "one link to the first page"
        );
        ids.extend(shown(&page));
        next = turn(&page, direction);
        last = Some(target);
    }
    (ids, last)
}

/// Ids of the comments of `three_pages` in the order of a listing.
fn expected_ids(comments: &[NewComment], listing: &str) -> Vec<String> {
    let mut expected = Vec::new();
    for comment in comments {
        if listing != "/en" || comment.language.as_str() == "en" {
            expected.push(comment.id.to_string());
        }
    }
    if listing != "?order=oldest" {
        expected.reverse();
    }
    expected
}

#[tokio::test]
async fn without_the_index_cursors_lead_from_the_first_page_to_every_comment_and_back() {
    let comments = three_pages("p");
    let (redis, running) = start_on_redis(&comments).await;
    let http = &running.http;
    redis.server.kill().await;
    let mut kept = None;
    for listing in ["", "/en", "?order=oldest"] {
        let first = Page::get(http, &format!("/product/p/comments{listing}"), 200).await;
        assert_eq!(first.answer.header("cache-control"), Some("no-store"));
        let expected = expected_ids(&comments, listing);
        let (ids, last) = follow(http, &first, "next").await;
        assert_eq!([shown(&first), ids].concat(), expected, "{listing}");
        let last = Page::get(http, &last.unwrap(), 200).await;
        let (back, _) = follow(http, &last, "prev").await;
        assert_eq!(back.len() + shown(&last).len(), expected.len(), "{listing}");
        kept = turn(&first, "next");
    }
    // The address still answers when numbers are back, and shows the numbered pages the way.
    redis.server.restart().await;
    http.wait_for_200("/product/p/comments?order=oldest&page=2")
        .await;
    let page = Page::get(http, &kept.unwrap(), 200).await;
    assert_eq!(page.robots(), "noindex,follow");
    assert_eq!(shown(&page).len(), 20);
    assert_eq!(
        page.links("#pages li a"),
        ["/product/p/comments?order=oldest#comments"]
    );
    let first = Page::get(http, "/product/p/comments", 200).await;
    assert!(!turn(&first, "next").unwrap().contains("cursor"));
    running.finish().await;
}

#[tokio::test]
async fn a_cursor_of_another_listing_is_refused_with_a_way_to_the_first_page() {
    let running = start(site_settings(), &three_pages("p")).await;
    let page = Page::get(&running.http, "/product/p/comments/en?cursor=AbC-_", 400).await;
    assert!(
        page.text("main").contains("cursor: "),
        "{}",
        page.answer.body
    );
    assert_eq!(
        page.links("main a"),
        ["/product/p/comments/en", "/product/p/comments", "/"]
    );
    running.finish().await;
}
