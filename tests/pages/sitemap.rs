//! The sitemap lists every page once by its canonical address, and answers nothing when the pages are unknown.

use std::collections::{BTreeMap, BTreeSet};

use api::Indexable;
use futures_util::{StreamExt, stream};
use local_stack::{demo::demo_comments, stack::StackSettings};
use model::plan::index_edits;
use page_index::ProductLanguages;
use process::now;
use table::NewComment;

use super::{SITE, html::Page, newest_first, site_settings, start, three_pages};
use crate::fixture::{
    data,
    http::{Http, page_path},
    redis_server::{self, OwnRedis, TABLE_ID},
    stack::settings_at,
    wait_for,
};

/// An entry of a sitemap or sitemap index: the path on the site, and the date.
pub(super) type Entry = (String, Option<String>);

/// The pages of the sitemap that show products. They have no date.
pub(super) const LISTS: [&str; 2] = ["/", "/products"];

async fn listed(http: &Http, path: &str, root: &str, entry: &str) -> Vec<Entry> {
    let answer = http.get(path).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/xml; charset=utf-8")));
    let document = roxmltree::Document::parse(&answer.body).unwrap();
    let namespace = "http://www.sitemaps.org/schemas/sitemap/0.9";
    assert!(document.root_element().has_tag_name((namespace, root)), "{}", answer.body);
    let entries = document.root_element().children().filter(roxmltree::Node::is_element);
    let read = |node: roxmltree::Node<'_, '_>| {
        assert!(node.has_tag_name((namespace, entry)));
        let text = |name: &str| node.children().find(|child| child.has_tag_name((namespace, name)))?.text();
        let location = text("loc").unwrap();
        let path = location.strip_prefix(SITE).unwrap_or_else(|| panic!("{location:?}")).to_owned();
        (path, text("lastmod").map(str::to_owned))
    };
    entries.map(read).collect()
}

/// Every page that the sitemap leads to, with its date.
pub(super) async fn walk(http: &Http) -> Vec<Entry> {
    let robots = http.get("/robots.txt").await;
    assert_eq!(robots.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(robots.body.lines().any(|line| line == format!("Sitemap: {SITE}/sitemap.xml")), "{}", robots.body);
    let mut pages = Vec::new();
    for (part, _) in listed(http, "/sitemap.xml", "sitemapindex", "sitemap").await {
        let urls = listed(http, &part, "urlset", "url").await;
        assert!((1..=50_000).contains(&urls.len()), "{part}");
        pages.extend(urls);
    }
    pages
}

/// The listings of a product that search engines may index, each with its number of comments. These are all comments, and
/// those of each language that has five or more, but not all.
fn indexable_listings(comments: &[NewComment], product: &str) -> Vec<(String, u64)> {
    let mut by_language = BTreeMap::new();
    for comment in comments.iter().filter(|comment| comment.product.as_str() == product) {
        *by_language.entry(comment.language.to_string()).or_insert(0) += 1;
    }
    let total: u64 = by_language.values().sum();
    let of_languages = by_language.into_iter().filter(|(_, count)| (5..total).contains(count));
    let of_languages = of_languages.map(|(tag, count)| (format!("{}/{tag}", page_path(product)), count));
    of_languages.chain([(page_path(product), total)]).collect()
}

/// Checks that the sitemap lists every page of the comments. `numbers` are those of a product with this many comments.
async fn check_sitemap(settings: StackSettings, numbers: fn(u64) -> std::ops::RangeInclusive<u64>) {
    let comments: Vec<_> = demo_comments(1_500).chain(three_pages("100% & <odd> \"product\"/☕")).collect();
    let running = start(settings, &comments).await;
    let http = &running.http;
    let mut expected = BTreeSet::from(LISTS.map(str::to_owned));
    let products: BTreeSet<&str> = comments.iter().map(|comment| comment.product.as_str()).collect();
    for product in products {
        for (path, count) in indexable_listings(&comments, product) {
            expected.extend(numbers(count).map(|page| format!("{path}?page={page}")));
            expected.insert(path);
        }
    }
    assert!(
        expected.iter().any(|path| path.ends_with("/en")) && expected.iter().any(|path| path.contains("/en?page="))
    );
    let walked = walk(http).await;
    assert_eq!(walked.iter().map(|(path, _)| path.clone()).collect::<BTreeSet<_>>(), expected);
    assert_eq!(walked.len(), expected.len(), "none twice");
    let fetched = stream::iter(&walked).map(async |(path, date)| {
        let page = Page::get(http, path, 200).await;
        assert_eq!((page.canonical(), page.robots()), (Some(format!("{SITE}{path}")), "index,follow".to_owned()));
        if LISTS.contains(&path.as_str()) {
            assert_eq!(*date, None, "{path}");
            return;
        }
        let newest = page.all("article time").iter().map(|time| time.attr("datetime").unwrap().to_owned()).max();
        assert!(newest.is_some() && *date == newest, "{path}: {date:?} is not the date of its newest comment");
    });
    fetched.buffer_unordered(4).collect::<Vec<_>>().await;
    for missing in ["/sitemap/0-0.xml", "/sitemap/00-1.xml", "/sitemap/256-1.xml", "/sitemap/0-1", "/sitemap/x-1.xml"] {
        assert_eq!(http.get(missing).await.status, 404, "{missing}");
    }
    running.finish().await;
}

#[tokio::test]
async fn the_sitemap_lists_every_page_and_each_is_canonical_indexable_and_dated() {
    check_sitemap(site_settings(), |count| 1..=(count / 20).saturating_sub(1)).await;
}

#[tokio::test]
async fn newest_first_the_sitemap_lists_every_page_too() {
    check_sitemap(newest_first(), |count| 2..=count.div_ceil(20)).await;
}

#[tokio::test]
async fn without_a_ready_index_there_is_no_sitemap() {
    let redis = OwnRedis::start().await;
    let settings = StackSettings { page_index: settings_at(&redis).page_index, ..newest_first() };
    let running = start(settings, &three_pages("p")).await;
    let http = &running.http;
    let part = format!("/sitemap/{}-1.xml", running.stack.index().partition_of(&data::product("p")).number());
    redis.kill().await;
    for path in ["/sitemap.xml", &part, "/sitemap/0-1.xml"] {
        let page = Page::get(http, path, 503).await;
        assert!(page.answer.header("retry-after").is_some() && page.robots() == "noindex,follow");
    }
    assert_eq!(http.get("/robots.txt").await.status, 200);
    redis.server.restart().await.unwrap();
    assert_eq!(
        http.wait_for_200(&part).await.body.matches("<loc>").count(),
        6,
        "three pages, two in English, one in German"
    );
    running.finish().await;
}

#[tokio::test]
async fn a_sitemap_that_was_read_outlives_the_page_index() {
    let redis = OwnRedis::start().await;
    let settings = StackSettings { page_index: settings_at(&redis).page_index, ..site_settings() };
    // The products are in several partitions.
    let comments: Vec<_> = (1..=10).flat_map(|length| three_pages(&"p".repeat(length))).collect();
    let running = start(settings, &comments).await;
    let http = &running.http;
    let index = http.wait_for_200("/sitemap.xml").await.body;
    let parts = listed(http, "/sitemap.xml", "sitemapindex", "sitemap").await;
    let [(part, _), .., (unread, _), (_lists, _)] = parts.as_slice() else { panic!("{parts:?}") };
    let read = http.wait_for_200(part).await.body;
    let entries = listed(http, part, "urlset", "url").await;
    assert!(!entries.is_empty() && entries.iter().all(|(_, date)| date.is_some()), "{entries:?}");
    redis.kill().await;
    for (path, before) in [("/sitemap.xml", &index), (part.as_str(), &read)] {
        let after = http.get(path).await;
        assert_eq!((after.status, &after.body), (200, before), "{path}");
    }
    let undated = listed(http, unread, "urlset", "url").await;
    assert!(!undated.is_empty() && undated.iter().all(|(_, date)| date.is_none()), "{undated:?}");
    redis.server.restart().await.unwrap();
    http.wait_for_200(&format!("{}?page=1", page_path("p"))).await;
    wait_for("the dates of the other part", async || {
        let dated = listed(http, unread, "urlset", "url").await;
        if dated.iter().all(|(_, date)| date.is_some()) { Ok(()) } else { Err(dated) }
    })
    .await;
    running.finish().await;
}

#[tokio::test]
async fn a_site_without_indexable_pages_has_no_sitemap() {
    let mut settings = site_settings();
    settings.site.indexable = Indexable::None;
    let running = start(settings, &three_pages("p")).await;
    assert_eq!(running.http.get("/sitemap.xml").await.status, 404);
    let robots = running.http.get("/robots.txt").await;
    assert!(!robots.body.contains("Sitemap") && !robots.body.contains("Disallow: /\n"), "{}", robots.body);
    running.finish().await;
    let running = start(site_settings(), &[]).await;
    assert_eq!(running.http.get("/sitemap.xml").await.status, 404);
    running.finish().await;
}

#[tokio::test]
async fn a_partition_lists_every_product_that_has_comments() {
    const PRODUCTS: usize = 2_500;
    let index = redis_server::own_index().await;
    let placement =
        |number: usize, rating| data::placement(&data::product(&format!("{{product}} ~{number}")), "en", rating);
    let id = |number: usize| data::comment_id(&format!("c{number}"));
    let rebuild = index.begin_rebuild().await.unwrap();
    let edits: Vec<_> = (0..PRODUCTS)
        .flat_map(|number| {
            let of = placement(number / 2, 1 + number as u64 % 5);
            data::index_comment(&id(number), &of, data::at_ms(number as i64))
        })
        .collect();
    index.apply(&edits).await.unwrap();
    // A product that once had comments.
    let gone = placement(PRODUCTS, 3);
    index.apply(&data::index_comment(&id(PRODUCTS), &gone, now())).await.unwrap();
    index.apply(&index_edits(&id(PRODUCTS), None, &[gone])).await.unwrap();
    index.finish_rebuild(&rebuild, TABLE_ID, now()).await.unwrap();
    let mut all = Vec::new();
    for partition in index.partitions() {
        let totals = index.product_languages(partition, TABLE_ID, now()).await.unwrap().unwrap();
        assert!(totals.is_sorted_by(|a, b| a.product < b.product));
        assert!(totals.iter().all(|of| index.partition_of(&of.product) == partition));
        all.extend(totals);
    }
    all.sort_by(|a, b| a.product.cmp(&b.product));
    let mut expected: Vec<_> = (0..PRODUCTS / 2)
        .map(|number| ProductLanguages {
            product: placement(number, 1).product,
            total: 2,
            by_language: vec![(data::language("en"), 2)],
        })
        .collect();
    expected.sort_by(|a, b| a.product.cmp(&b.product));
    assert_eq!(all, expected);
}
