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
        let NewComment {
            id,
            product,
            language,
            rating,
            created_at,
            ..
        } = comment.clone();
        Self {
            cd: Cd { created_at, id },
            placement: Placement {
                product,
                language,
                rating,
            },
        }
    }
}

/// The 31 sets of ratings, including all five, each with every language of the product and with any
/// language.
fn every_filter(comments: &[Listed], product: &ProductId) -> Vec<Filter> {
    let of_product = comments
        .iter()
        .filter(|comment| comment.placement.product == *product);
    let languages: BTreeSet<&Language> = of_product
        .map(|comment| &comment.placement.language)
        .collect();
    let languages = languages.into_iter().map(Some).chain([None]);
    languages
        .flat_map(|language| {
            RatingSet::every().map(move |ratings| Filter::new(language.cloned(), Some(ratings)))
        })
        .collect()
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
    let (mut walked, mut first) = (Vec::new(), Value::Null);
    for number in (1..=last).rev() {
        first = http.get(&format!("{url}&page={number}")).await.expect(200);
        assert_eq!(
            (&first["total"], &first["total_pages"]),
            (&expected.len().into(), &last.into()),
            "{url}: {first}"
        );
        assert_eq!(
            (&first["page"], &first["index"]),
            (&number.into(), &"ready".into()),
            "{url}"
        );
        walked.splice(..0, ids(&first));
    }
    assert_eq!(walked, expected, "{url}, by pages");
    first
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
    // Large listings use large pages. Small listings use several small ones, full and not full.
    let page_size = match expected.len() {
        0 => 20,
        few @ 1..=12 => 1 + few / 2,
        some @ 13..=100 => some / 3,
        _ => 100,
    };
    let url = listing_url(product, filter, order, page_size);
    let what = format!("{} {filter} {order} by {page_size}", product.as_str());
    let last = expected.len().div_ceil(page_size).max(1);

    let first = walk_by_number(http, &url, page_size, &expected).await;
    let mut next = first["cursor"]["next"].as_str().map(str::to_owned);
    assert!(first["cursor"]["prev"].is_null(), "{what}");
    let past_the_end: Answer = http.get(&format!("{url}&page={}", last + 1)).await;
    assert_eq!(past_the_end.status, 404, "{what}: {past_the_end:?}");
    past_the_end.problem();

    let (mut requests, mut back) = (last + 1, None);
    let mut by_cursor: Vec<String> = ids(&first);
    while let Some(cursor) = next {
        let page = http
            .get(&format!("{url}&cursor={}", encoded(&cursor)))
            .await
            .expect(200);
        assert_eq!(
            (&page["page"], &page["total"]),
            (&Value::Null, &expected.len().into()),
            "{what}"
        );
        let found = ids(&page);
        assert!(!found.is_empty(), "{what}: an empty page by a cursor");
        by_cursor.extend(found);
        assert!(
            by_cursor.len() <= expected.len(),
            "{what}: cursors lead to more than there is"
        );
        next = page["cursor"]["next"].as_str().map(str::to_owned);
        back = page["cursor"]["prev"].as_str().map(str::to_owned);
        requests += 1;
    }
    assert_eq!(by_cursor, expected, "{what}, by cursors");
    // One step back leads to the page before the last one.
    if let Some(cursor) = back {
        let page = http
            .get(&format!("{url}&cursor={}", encoded(&cursor)))
            .await
            .expect(200);
        assert_eq!(
            ids(&page),
            expected[(last - 2) * page_size..(last - 1) * page_size],
            "{what}, back"
        );
        requests += 1;
    }
    requests
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

async fn check_listings(http: &Http, comments: &[Listed], what: Vec<(ProductId, Filter, Order)>) {
    let (began, listings) = (Instant::now(), what.len());
    let checks = stream::iter(what).map(|(product, filter, order)| async move {
        check_listing(http, comments, &product, &filter, order).await
    });
    let requests: Vec<usize> = checks.buffer_unordered(CONCURRENCY).collect().await;
    println!(
        "{listings} listings in {} requests, {:.1?}",
        requests.iter().sum::<usize>(),
        began.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_cursors_and_brute_force_agree_for_every_filter_of_every_product() {
    let mut comments = reviews::reviews(reviews::sample_size());
    if engine::kind() == EngineKind::DynamoDbLocal {
        // Rare languages and products alone may make a sample too large for that engine.
        comments.truncate(reviews::sample_size());
    }
    let mut running = Running::start().await;
    let began = Instant::now();
    running.import(&comments).await;
    println!("imported and settled in {:.1?}", began.elapsed());
    let comments: Vec<Listed> = comments.iter().map(Listed::from).collect();
    let products = comments
        .iter()
        .map(|comment| comment.placement.product.clone())
        .unique();
    let mut what = Vec::new();
    for product in products {
        let filters = every_filter(&comments, &product);
        // Oldest first uses the same search from the other end. Every fifth filter is enough to
        // show that.
        what.extend(
            filters
                .iter()
                .step_by(5)
                .map(|filter| (product.clone(), filter.clone(), Order::Oldest)),
        );
        what.extend(
            filters
                .into_iter()
                .map(|filter| (product.clone(), filter, Order::Newest)),
        );
    }
    check_listings(&running.http, &comments, what).await;
    running.finish().await;
}
