//! The order of ratings: the highest or the lowest first, and the newest first within a rating. It
//! is that of a sort of all comments, page by page, under every filter, on both indexes.

use itertools::iproduct;
use model::{Comment, Filter};
use serde_json::json;

use crate::fixture::{
    api::Served,
    data,
    http::{Http, encoded, ids, listing},
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

/// The comments of a filter, sorted. `comments` are in the order of time, the newest first.
fn sorted<'a>(comments: &'a [Comment], order: &str, filter: &Filter) -> Vec<&'a Comment> {
    let mut sorted: Vec<&Comment> = Vec::new();
    for comment in comments {
        if filter.matches(&comment.placement()) {
            sorted.push(comment);
        }
    }
    sorted.sort_by_key(|comment| comment.rating);
    if order == "highest" {
        sorted.sort_by_key(|comment| std::cmp::Reverse(comment.rating));
    }
    sorted
}

fn ids_of(comments: &[&Comment]) -> Vec<String> {
    comments
        .iter()
        .map(|comment| comment.id.to_string())
        .collect()
}

/// The query of a listing, without the page.
fn query(order: &str, tag: Option<&str>, ratings: Option<&str>, size: usize) -> String {
    let mut query = format!("order={order}&page_size={size}");
    if let Some(tag) = tag {
        query.push_str(&format!("&language={tag}"));
    }
    for rating in ratings.iter().flat_map(|ratings| ratings.split('.')) {
        query.push_str(&format!("&rating={rating}"));
    }
    query
}

async fn check_pages(http: &Http, query: &str, size: usize, sorted: &[&Comment]) {
    let pages: Vec<&[&Comment]> = sorted.chunks(size).collect();
    for (number, expected) in (1..).zip(&pages) {
        let target = listing(&format!("{query}&page={number}"));
        let page = http.get(&target).await.expect(200);
        assert_eq!(ids(&page), ids_of(expected), "{target}");
        assert_eq!(page["total"], sorted.len(), "{target}");
        assert_eq!(page["total_pages"], pages.len(), "{target}");
        let has_next = page["links"]["next"].is_string();
        assert_eq!(has_next, number < pages.len(), "{target}: {page}");
        assert_eq!(page["cursor"]["next"].is_string(), has_next, "{target}");
    }
    let past_the_end = format!("{query}&page={}", pages.len().max(1) + 1);
    http.get(&listing(&past_the_end)).await.expect(404);
}

/// Checks the positions of some comments in a listing.
async fn check_positions(http: &Http, query: &str, size: usize, sorted: &[&Comment]) {
    for (rank, comment) in sorted.iter().enumerate().step_by(7) {
        let target = format!("/api/v1/comments/{}/position?{query}", comment.id);
        let position = http.get(&target).await.expect(200);
        let expected = json!({
            "page": rank / size + 1,
            "position": rank + 1,
            "total": sorted.len(),
        });
        assert_eq!(position, expected, "{target}");
    }
}

async fn check_all(stores: &Stores) {
    let comments = stores.fill(96).await;
    let api = Served::of(stores);
    for (order, tag, ratings, size) in iproduct!(
        ["highest", "lowest"],
        [None, Some("en"), Some("ko")],
        [None, Some("5"), Some("1.5"), Some("2.3.4")],
        [4, 20]
    ) {
        let filter = data::filter(tag, ratings);
        let sorted = sorted(&comments, order, &filter);
        let query = query(order, tag, ratings, size);
        check_pages(&api.http, &query, size, &sorted).await;
        check_positions(&api.http, &query, size, &sorted).await;
    }
    api.finish().await;
}

#[tokio::test]
async fn every_page_in_the_order_of_ratings_is_that_of_a_sort() {
    for stores in [
        Stores::start_ready().await,
        Stores::start_ready_with_redis().await,
    ] {
        check_all(&stores).await;
        stores.finish().await;
    }
}

#[tokio::test]
async fn later_comments_do_not_shift_pages_by_rating_of_an_instant() {
    let stores = Stores::start_ready().await;
    let comments = stores.fill(60).await;
    let api = Served::of(&stores);
    let instant = comments[10].created_at;
    let as_of = instant.to_string();
    let mut older = comments.clone();
    older.retain(|comment| comment.created_at <= instant);
    for order in ["highest", "lowest"] {
        let sorted = sorted(&older, order, &Filter::ANY);
        let query = format!("order={order}&page_size=20&as_of={}", encoded(&as_of));
        check_pages(&api.http, &query, 20, &sorted).await;
    }
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_page_by_rating_is_one_query_for_each_rating_that_it_reaches() {
    let (stores, api, comments) = Served::filled(96).await;
    let sorted = sorted(&comments, "highest", &Filter::ANY);
    let mut most = 0;
    for (number, shown) in (1..).zip(sorted.chunks(10)) {
        let target = format!("order=highest&page_size=10&explain=true&page={number}");
        let page = api.http.get(&listing(&target)).await.expect(200);
        let mut ratings: Vec<u8> = shown.iter().map(|comment| comment.rating.get()).collect();
        ratings.dedup();
        assert_eq!(
            page["explain"]["table_calls"],
            ratings.len(),
            "{number}: {page}"
        );
        most = most.max(ratings.len());
    }
    assert!(most > 1, "no page reaches a second rating");
    api.finish_with(stores).await;
}

#[tokio::test]
async fn without_the_page_index_pages_by_rating_are_walked() {
    let (stores, api, comments) = Served::filled(45).await;
    stores.index.clear().await.unwrap();
    let sorted = sorted(&comments, "lowest", &Filter::ANY);
    let mut page = api
        .http
        .get(&listing("order=lowest&page_size=7"))
        .await
        .expect(200);
    let mut walked = ids(&page);
    while let Some(cursor) = page["cursor"]["next"].as_str() {
        assert!(page["total"].is_null(), "{page}");
        let target = listing(&format!(
            "order=lowest&page_size=7&cursor={}",
            encoded(cursor)
        ));
        page = api.http.get(&target).await.expect(200);
        walked.extend(ids(&page));
    }
    assert_eq!(walked, ids_of(&sorted));
    let second = listing("order=lowest&page_size=7&page=2");
    api.http.get(&second).await.assert_later();
    api.finish_with(stores).await;
}

#[tokio::test]
async fn orders_by_rating_exclude_what_has_no_meaning_there() {
    let (stores, api, _) = Served::filled(3).await;
    for (query, field) in [
        ("order=highest&numbering=stable", "order"),
        ("order=lowest&date=2024-05", "date"),
        ("order=best", "order"),
    ] {
        let problem = api.http.get(&listing(query)).await.expect(400);
        assert_eq!(problem["field"], field, "{problem}");
    }
    api.finish_with(stores).await;
}
