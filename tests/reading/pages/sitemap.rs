//! The sitemap answers nothing when the pages are unknown. `crawl` checks its content.

use std::collections::BTreeMap;

use api::Indexable;
use table::NewComment;

use super::{SITE, comment, site_settings, start, start_on_redis, three_pages};
use crate::fixture::{
    data,
    http::{Http, page_path},
    wait_for,
};

/// An entry of a sitemap or sitemap index: the path on the site, and the date.
pub(super) type Entry = (String, Option<String>);

/// Whether a page of the sitemap shows products. Such a page has no date.
pub(super) fn is_list(path: &str) -> bool {
    path == "/" || path.split('?').next() == Some("/products")
}

const NAMESPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

/// The text of an element's child with this name, if there is one.
fn child_text<'page>(element: roxmltree::Node<'page, '_>, name: &str) -> Option<&'page str> {
    let mut children = element.children();
    let child = children.find(|child| child.has_tag_name((NAMESPACE, name)))?;
    child.text()
}

/// The entries of a page of the sitemap. `root` and `entry` are the names of their elements.
async fn listed(http: &Http, path: &str, root: &str, entry: &str) -> Vec<Entry> {
    let answer = http.get(path).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("application/xml; charset=utf-8")
    );
    let document = roxmltree::Document::parse(&answer.body).unwrap();
    let root_element = document.root_element();
    assert!(
        root_element.has_tag_name((NAMESPACE, root)),
        "{}",
        answer.body
    );
    let mut entries = Vec::new();
    for element in root_element.children() {
        if !element.is_element() {
            continue;
        }
        assert!(element.has_tag_name((NAMESPACE, entry)));
        let location = child_text(element, "loc").unwrap();
        let path = location
            .strip_prefix(SITE)
            .unwrap_or_else(|| panic!("{location:?}"));
        let date = child_text(element, "lastmod").map(str::to_owned);
        entries.push((path.to_owned(), date));
    }
    entries
}

pub(super) async fn walk(http: &Http) -> Vec<Entry> {
    let robots = http.get("/robots.txt").await;
    assert_eq!(
        robots.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let named = format!("Sitemap: {SITE}/sitemap.xml");
    assert!(robots.body.lines().any(|line| line == named), "{robots:?}");
    let mut pages = Vec::new();
    for (part, _) in listed(http, "/sitemap.xml", "sitemapindex", "sitemap").await {
        let urls = listed(http, &part, "urlset", "url").await;
        assert!((1..=50_000).contains(&urls.len()), "{part}");
        pages.extend(urls);
    }
    pages
}

/// The listings that search engines may index, each with the ids of its comments in ascending
/// order. Those are all comments of a product, and those of each language that has five or more,
/// and at most four fifths.
pub(super) fn indexable_listings(comments: &[NewComment]) -> BTreeMap<String, Vec<String>> {
    let mut listings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for comment in comments {
        let whole = page_path(comment.product.as_str());
        let of_language = format!("{whole}/{}", comment.language);
        for listing in [whole, of_language] {
            listings
                .entry(listing)
                .or_default()
                .push(comment.id.to_string());
        }
    }
    let sizes: BTreeMap<String, usize> = listings
        .iter()
        .map(|(path, ids)| (path.clone(), ids.len()))
        .collect();
    listings.retain(|path, ids| {
        if path.ends_with("/comments") {
            return true;
        }
        let (whole, _language) = path.rsplit_once('/').unwrap();
        (5..=sizes[whole] * 4 / 5).contains(&ids.len())
    });
    listings.values_mut().for_each(|ids| ids.sort_unstable());
    listings
}

#[tokio::test]
async fn a_sitemap_that_was_read_outlives_the_page_index() {
    // The products are in several partitions.
    let mut comments = Vec::new();
    for length in 1..=10 {
        comments.extend(three_pages(&"p".repeat(length)));
    }
    let (redis, running) = start_on_redis(&comments).await;
    let http = &running.http;
    let index = http.wait_for_200("/sitemap.xml").await.body;
    let parts = listed(http, "/sitemap.xml", "sitemapindex", "sitemap").await;
    let [(read, _), .., (unread, _), (_lists, _)] = parts.as_slice() else {
        panic!("{parts:?}")
    };
    let body_of_read = http.wait_for_200(read).await.body;
    let dated = listed(http, read, "urlset", "url").await;
    assert!(!dated.is_empty());
    assert!(dated.iter().all(|(_, date)| date.is_some()), "{dated:?}");
    redis.server.kill().await;
    for (path, before) in [("/sitemap.xml", &index), (read.as_str(), &body_of_read)] {
        let after = http.get(path).await;
        assert_eq!(after.status, 200, "{path}");
        assert_eq!(&after.body, before, "{path}");
    }
    let undated = listed(http, unread, "urlset", "url").await;
    assert!(!undated.is_empty());
    assert!(
        undated.iter().all(|(_, date)| date.is_none()),
        "{undated:?}"
    );
    redis.server.restart().await;
    http.wait_for_200(&format!("{}?page=1", page_path("p")))
        .await;
    wait_for("the dates of the other part", async || {
        let dated = listed(http, unread, "urlset", "url").await;
        if dated.iter().all(|(_, date)| date.is_some()) {
            Ok(())
        } else {
            Err(dated)
        }
    })
    .await;
    running.finish().await;
}

#[tokio::test]
async fn a_site_without_indexable_pages_has_no_sitemap() {
    let mut settings = site_settings();
    settings.api.site.indexable = Indexable::None;
    let running = start(settings, &three_pages("p")).await;
    assert_eq!(running.http.get("/sitemap.xml").await.status, 404);
    for missing in ["/sitemap/0-1.xml", "/sitemap/lists.xml"] {
        assert_eq!(running.http.get(missing).await.status, 404, "{missing}");
    }
    let robots = running.http.get("/robots.txt").await;
    assert!(!robots.body.contains("Sitemap"), "{}", robots.body);
    assert!(!robots.body.contains("Disallow: /\n"), "{}", robots.body);
    running.finish().await;
}

#[tokio::test]
async fn a_new_sitemap_follows_at_once_and_has_no_date_before_1970_or_ahead() {
    let mut running = start(site_settings(), &[]).await;
    assert_eq!(running.http.get("/sitemap.xml").await.status, 404);
    for (number, product, created_ms) in [
        (1, "before-1970", -1),
        (2, "ahead", 4_070_908_800_000),
        (3, "usual", 0),
    ] {
        // An import would refuse a date ahead. A foreign tool may write one.
        let comment = NewComment {
            product: data::product(product),
            created_at: data::at_ms(created_ms),
            ..comment("p", "en", 5, number)
        };
        let table = running.stack.table();
        table.create_comment(comment, None).await.unwrap();
    }
    running.settle().await;
    running.http.wait_for_200("/sitemap.xml").await;
    let entries = walk(&running.http).await;
    for (product, is_dated) in [("before-1970", false), ("ahead", false), ("usual", true)] {
        let (_, date) = entries
            .iter()
            .find(|(path, _)| path.ends_with(&page_path(product)))
            .unwrap();
        assert_eq!(date.is_some(), is_dated, "{product}: {date:?}");
    }
    running.finish().await;
}
