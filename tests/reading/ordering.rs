//! Walks over pages 1 to last, walks with cursors, and a brute-force filter and sort of the
//! comments agree for every filter: the same ids in the same order, each once.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::{StreamExt, stream};
use itertools::Itertools;
use model::{Cd, Filter, Language, Order, Placement, ProductId, RatingSet};
use serde_json::Value;
use table::NewComment;

use crate::fixture::{
    engine::{self, EngineKind},
    http::{Answer, Http, encoded, ids, product_path},
    reviews,
    stack::Running,
};

const _: crate::Engines = crate::Engines::Both;

/// Filters walked in parallel: enough to keep two cores busy while one walk waits for its next
/// page.
const CONCURRENCY: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) cd: Cd,
    pub(crate) placement: Placement,
}

impl From<&NewComment> for Listed {
    fn from(comment: &NewComment) -> Self {
        Self {
            cd: Cd {
                created_at: comment.created_at,
                id: comment.id.clone(),
            },
            placement: Placement {
                product: comment.product.clone(),
                language: comment.language.clone(),
                rating: comment.rating,
            },
        }
    }
}

/// The 31 sets of ratings, including all five, each with every language of the product and with any
/// language.
fn every_filter(comments: &[Listed], product: &ProductId) -> Vec<Filter> {
    let mut languages: BTreeSet<&Language> = BTreeSet::new();
    for comment in comments {
        if comment.placement.product == *product {
            languages.insert(&comment.placement.language);
        }
    }
    let mut filters = Vec::new();
    for language in languages.into_iter().map(Some).chain([None]) {
        for ratings in RatingSet::every() {
            filters.push(Filter::new(language.cloned(), Some(ratings)));
        }
    }
    filters
}

/// The cursor of a page to the `next` or the `prev` page.
fn cursor_of(page: &Value, direction: &str) -> Option<String> {
    page["cursor"][direction].as_str().map(str::to_owned)
}

/// Large listings use large pages. Small listings use several small ones, full and not full.
fn page_size_for(comments: usize) -> usize {
    match comments {
        0 => 20,
        few @ 1..=12 => 1 + few / 2,
        some @ 13..=100 => some / 3,
        _ => 100,
    }
}

/// Walks the pages of a listing by their numbers, and compares them with the ids expected. Returns
/// the first page.
pub(crate) async fn walk_by_number(
    http: &Http,
    url: &str,
    page_size: usize,
    expected: &[&str],
) -> Value {
    let last = expected.len().div_ceil(page_size).max(1);
    let mut walked = Vec::new();
    let mut first = Value::Null;
    for number in (1..=last).rev() {
        first = http.get(&format!("{url}&page={number}")).await.expect(200);
        assert_eq!(first["total"], expected.len(), "{url}: {first}");
        assert_eq!(first["total_pages"], last, "{url}: {first}");
        assert_eq!(first["page"], number, "{url}");
        assert_eq!(first["index"], "ready", "{url}");
        walked.splice(..0, ids(&first));
    }
    assert_eq!(walked, expected, "{url}, by pages");
    first
}

/// Walks a listing by cursors from its first page, and compares it with the ids expected. One step
/// back from the last page has to lead to the page before it. Returns the number of requests.
async fn walk_by_cursor(
    http: &Http,
    url: &str,
    page_size: usize,
    expected: &[&str],
    first: &Value,
) -> usize {
    let mut requests = 0;
    let mut walked: Vec<String> = ids(first);
    let mut next = cursor_of(first, "next");
    let mut back = None;
    assert!(first["cursor"]["prev"].is_null(), "{url}");
    while let Some(cursor) = next {
        let target = format!("{url}&cursor={}", encoded(&cursor));
        let page = http.get(&target).await.expect(200);
        assert_eq!(page["page"], Value::Null, "{url}");
        assert_eq!(page["total"], expected.len(), "{url}");
        let found = ids(&page);
        assert!(!found.is_empty(), "{url}: an empty page by a cursor");
        walked.extend(found);
        assert!(
            walked.len() <= expected.len(),
            "{url}: cursors lead to more than there is"
        );
        next = cursor_of(&page, "next");
        back = cursor_of(&page, "prev");
        requests += 1;
    }
    assert_eq!(walked, expected, "{url}, by cursors");
    if let Some(cursor) = back {
        let target = format!("{url}&cursor={}", encoded(&cursor));
        let page = http.get(&target).await.expect(200);
        let last = expected.len().div_ceil(page_size);
        let page_before_last = &expected[(last - 2) * page_size..(last - 1) * page_size];
        assert_eq!(ids(&page), page_before_last, "{url}, back");
        requests += 1;
    }
    requests
}

/// Walks the listing of a filter in every way and compares it with a brute-force filter and sort of
/// `comments`. Returns the number of requests.
async fn check_listing(
    http: &Http,
    comments: &[Listed],
    product: &ProductId,
    filter: &Filter,
    order: Order,
) -> usize {
    let matching = comments
        .iter()
        .filter(|c| c.placement.product == *product && filter.matches(&c.placement));
    let mut cds: Vec<&Cd> = matching.map(|comment| &comment.cd).sorted().collect();
    if order == Order::Newest {
        cds.reverse();
    }
    let expected: Vec<&str> = cds.iter().map(|cd| cd.id.as_str()).collect();
    let page_size = page_size_for(expected.len());
    let url = listing_url(product, filter, order, page_size);
    let last = expected.len().div_ceil(page_size).max(1);

    let first = walk_by_number(http, &url, page_size, &expected).await;
    let past_the_end: Answer = http.get(&format!("{url}&page={}", last + 1)).await;
    assert_eq!(past_the_end.status, 404, "{past_the_end:?}");
    past_the_end.problem();
    let by_cursor = walk_by_cursor(http, &url, page_size, &expected, &first).await;
    last + 1 + by_cursor
}

/// The address of a listing, without the page.
pub(crate) fn listing_url(
    product: &ProductId,
    filter: &Filter,
    order: Order,
    page_size: usize,
) -> String {
    let mut url = format!(
        "{}/comments?page_size={page_size}&order={order}",
        product_path(product.as_str())
    );
    if let Some(language) = filter.language() {
        url.push_str(&format!("&language={language}"));
    }
    // All five ratings do not restrict the listing, but the request still names them.
    for rating in filter.ratings().unwrap_or(RatingSet::ALL).iter() {
        url.push_str(&format!("&rating={rating}"));
    }
    url
}

async fn check_listings(
    http: &Http,
    comments: &[Listed],
    listings: Vec<(ProductId, Filter, Order)>,
) {
    let began = Instant::now();
    let count = listings.len();
    let checks = stream::iter(listings).map(|(product, filter, order)| async move {
        check_listing(http, comments, &product, &filter, order).await
    });
    let requests: Vec<usize> = checks.buffer_unordered(CONCURRENCY).collect().await;
    println!(
        "{count} listings in {} requests, {:.1?}",
        requests.iter().sum::<usize>(),
        began.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_cursors_and_brute_force_agree_for_every_filter_of_every_product() {
    let mut comments = reviews::reviews(reviews::sample_size());
    if engine::kind() == EngineKind::Ministack {
        // Rare languages and products alone may make a sample too large for that engine.
        comments.truncate(reviews::sample_size());
    }
    let mut running = Running::start().await;
    let began = Instant::now();
    running.import(&comments).await;
    println!("imported and fanned out in {:.1?}", began.elapsed());
    let comments: Vec<Listed> = comments.iter().map(Listed::from).collect();
    let products = comments
        .iter()
        .map(|comment| comment.placement.product.clone())
        .unique();
    let mut listings = Vec::new();
    for product in products {
        let filters = every_filter(&comments, &product);
        // Oldest first uses the same search from the other end. Every fifth filter is enough to
        // show that.
        for filter in filters.iter().step_by(5) {
            listings.push((product.clone(), filter.clone(), Order::Oldest));
        }
        for filter in filters {
            listings.push((product.clone(), filter, Order::Newest));
        }
    }
    check_listings(&running.http, &comments, listings).await;
    running.finish().await;
}
