//! A page index that lags behind its table without knowing it: its memory is full, or it lost
//! writes in a fail-over. A page that exists is never "past the end", and cursors lead to every
//! comment.

use api::{ApiSettings, PastTheEnd, SiteSettings};
use itertools::iproduct;
use model::{Comment, plan::index_edits};
use repair_job::exit;
use serde_dynamo::AttributeValue;
use serde_json::Value;

use crate::{
    fixture::{
        api::{Served, metric},
        data::{self, PRODUCT},
        gate::{self, Gate},
        http::{Answer, Http, encoded, ids, listing, product_path},
        stores::Stores,
    },
    repair::job,
};

const _: crate::Engines = crate::Engines::Both;

/// Number of comments, and number of comments that keep their ranks.
const COMMENTS: u64 = 45;
const RANKED: u64 = 20;

fn assert_not_yet_listed(answer: &Answer) {
    answer.assert_later();
    assert_eq!(
        answer.problem()["type"],
        "urn:pagemark:problem:not-yet-listed",
        "{answer:?}"
    );
}

fn assert_past_the_end(answer: &Answer) {
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(
        answer.problem()["type"],
        "urn:pagemark:problem:past-the-end",
        "{answer:?}"
    );
}

async fn assert_walks(
    http: &Http,
    comments: &[Comment],
    next: impl Fn(&str, &Value) -> Option<String>,
) {
    for (order, language) in iproduct!(["newest", "oldest"], [None, Some("en")]) {
        let matching = comments
            .iter()
            .filter(|comment| language.is_none_or(|tag| comment.language.as_str() == tag));
        let mut expected: Vec<String> = matching.map(|comment| comment.id.to_string()).collect();
        if order == "oldest" {
            expected.reverse();
        }
        let mut query = format!("order={order}");
        if let Some(tag) = language {
            query.push_str(&format!("&language={tag}"));
        }
        let mut page = http.get(&listing(&query)).await.expect(200);
        let mut walked = ids(&page);
        while let Some(target) = next(&query, &page) {
            page = http.get(&target).await.expect(200);
            assert!(!ids(&page).is_empty(), "{target}: an empty page");
            walked.extend(ids(&page));
        }
        assert_eq!(walked, expected, "{query}: the last page is {page}");
    }
}

async fn lose_ranks(stores: &Stores, comments: &[Comment]) {
    let mut edits = Vec::new();
    for comment in comments {
        edits.extend(index_edits(&comment.id, None, &[comment.entry()]));
    }
    stores.index.apply(&edits).await.unwrap();
}

/// The address of page 2 as of a comment's creation.
fn page_2_as_of(comment: &Comment) -> String {
    let as_of = encoded(&comment.created_at.to_string());
    listing(&format!("page=2&as_of={as_of}"))
}

/// Number of queries for pages that the API has sent to the table.
async fn page_queries(http: &Http) -> f64 {
    metric(
        http,
        r#"pagemark_store_call_duration_seconds_count{store="table",call="Query",outcome="ok"}"#,
    )
    .await
}

#[tokio::test]
async fn page_1_links_to_comments_without_ranks_and_what_does_not_exist_is_404() {
    let (stores, api, comments) = Served::filled(COMMENTS).await;
    let http = &api.http;
    lose_ranks(&stores, &comments[..25]).await;
    let first = http.get(&listing("page=1")).await.expect(200);
    assert_eq!(first["index"], "ready");
    assert_eq!(first["total"], RANKED);
    assert_eq!(ids(&first).len(), 20);
    assert_eq!(ids(&first)[0], comments[0].id.as_str());
    // Page 1, the only page with a number, links to the next page by cursor.
    assert_walks(http, &comments, |_query, page| {
        page["links"]["next"].as_str().map(str::to_owned)
    })
    .await;
    assert!(
        metric(
            http,
            r#"pagemark_drift_signs_total{sign="row_without_rank"}"#
        )
        .await
            > 0.0
    );

    // Up to the last ranked comment's instant, nothing is missing.
    let last_ranked = &comments[25];
    let first_unranked = &comments[24];
    assert_past_the_end(&http.get(&page_2_as_of(last_ranked)).await);
    assert_not_yet_listed(&http.get(&page_2_as_of(first_unranked)).await);

    // A page that does not exist is still 404, and costs at most two queries of one comment.
    stores.deliver_all().await;
    for (name, number, queries) in [(PRODUCT, 4, 2.0), ("nobody/commented/this", 2, 1.0)] {
        let before = page_queries(http).await;
        let target = format!("{}/comments?page={number}", product_path(name));
        assert_past_the_end(&http.get(&target).await);
        assert_eq!(page_queries(http).await - before, queries, "{name}");
    }
    let target = format!("{}/comments", product_path("nobody/commented/this"));
    let nothing = http.get(&target).await.expect(200);
    assert_eq!(ids(&nothing).len(), 0);
    assert_eq!(nothing["total"], 0);
    assert_eq!(nothing["cursor"]["next"], Value::Null);
    api.finish_with(stores).await;
}

#[tokio::test]
async fn html_pages_without_ranks_are_503_and_never_redirect_back() {
    let (stores, api, comments) = Served::filled(COMMENTS).await;
    api.finish().await;
    lose_ranks(&stores, &comments[..25]).await;
    for past_the_end in [PastTheEnd::NotFound, PastTheEnd::Redirect] {
        let site = SiteSettings {
            past_the_end,
            ..process::defaults(&[])
        };
        let api = Served::with(
            &stores,
            ApiSettings {
                site,
                ..Default::default()
            },
        );
        // 20 ranked comments make no archive page yet.
        let front = api.http.get("/product/a%2Fb/comments").await;
        assert_eq!(front.status, 200, "{front:?}");
        assert_eq!(front.body.matches("<article").count(), 39, "{front:?}");
        // The others wait for their ranks. Until then only a cursor leads to them.
        let (_, link) = front
            .body
            .split_once(r#"rel="next nofollow" href=""#)
            .unwrap();
        let (by_cursor, _) = link.split_once('"').unwrap();
        let rest = api.http.get(by_cursor).await;
        assert_eq!(rest.status, 200, "{rest:?}");
        assert_eq!(rest.body.matches("<article").count(), 6, "{rest:?}");
        let first = api.http.get("/product/a%2Fb/comments?page=1").await;
        assert_eq!(first.status, 302, "{first:?}");
        assert_eq!(
            first.header("location"),
            Some("/product/a%2Fb/comments"),
            "{first:?}"
        );
        let oldest = api.http.get("/product/a%2Fb/comments?order=oldest").await;
        assert!(
            oldest
                .body
                .contains(r#"rel="next" href="/product/a%2Fb/comments?order=oldest&#38;page=2""#),
            "{oldest:?}"
        );
        for page in [
            "?page=2",
            "?page=1000",
            "/en?page=2",
            "?order=oldest&page=2",
        ] {
            let answer = api
                .http
                .get(&format!("/product/a%2Fb/comments{page}"))
                .await;
            answer.assert_later();
            assert!(
                answer.body.contains("still being put into its pages"),
                "{answer:?}"
            );
        }
        api.finish().await;
    }
    stores.finish().await;
}

#[tokio::test]
async fn a_filter_is_404_only_when_no_comment_of_the_product_waits_for_its_ranks() {
    let (stores, api, _) = Served::filled(RANKED).await;
    let page = "/product/a%2Fb/comments/tlh";
    assert_eq!(api.http.get(page).await.status, 404);
    // Neither stream function has seen the new comment, so nothing shows yet that the filter
    // matches it.
    stores.create_numbered(100, data::product(PRODUCT)).await;
    let waiting = api.http.get(page).await;
    waiting.assert_later();
    assert!(
        waiting.body.contains("still being put into its pages"),
        "{waiting:?}"
    );
    // Nor does a page past the end of a different filter.
    assert_not_yet_listed(&api.http.get(&listing("language=en&page=9")).await);
    stores.deliver_all().await;
    assert_eq!(api.http.get(page).await.status, 404);
    assert_past_the_end(&api.http.get(&listing("language=en&page=9")).await);
    api.finish_with(stores).await;
}

/// The address of the next page by its cursor.
fn next_by_cursor(query: &str, page: &Value) -> Option<String> {
    let cursor = page["cursor"]["next"].as_str()?;
    Some(listing(&format!("{query}&cursor={}", encoded(cursor))))
}

async fn assert_pages_past_the_ranks_are_503(http: &Http, lost: &str) {
    for order in ["newest", "oldest"] {
        for query in [
            "page=3",
            "page=1000",
            "page=4&language=en",
            "page_size=5&page=9&rating=1&rating=2&rating=3",
        ] {
            let answer = http.get(&listing(&format!("order={order}&{query}"))).await;
            assert_eq!(answer.status, 503, "{lost}: {answer:?}");
            assert_not_yet_listed(&answer);
        }
    }
}

#[tokio::test]
async fn ranks_lost_at_either_end_make_pages_503_and_hide_nothing_from_cursors() {
    let (stores, api, comments) = Served::filled(COMMENTS).await;
    let http = &api.http;
    let lost: [(&str, &[Comment]); 4] = [
        ("newest", &comments[..10]),
        ("oldest", &comments[35..]),
        ("all", &comments),
        ("middle", &comments[15..25]),
    ];
    for (which, lost) in lost {
        lose_ranks(&stores, lost).await;
        assert_walks(http, &comments, next_by_cursor).await;
        // Only the repair job notices missing ranks between two ranked comments.
        if which != "middle" {
            assert_pages_past_the_ranks_are_503(http, which).await;
        }
        stores.deliver_all().await;
        assert_past_the_end(&http.get(&listing("page=4")).await);
        let last = http.get(&listing("page=3")).await.expect(200);
        assert_eq!(ids(&last).len(), 5);
    }
    api.finish_with(stores).await;
}

#[tokio::test]
async fn ranks_that_went_with_a_server_make_pages_past_them_503_until_they_are_repaired() {
    let (redis, stores) = Stores::start_ready_on_own_redis().await;
    stores.fill(RANKED).await;
    redis.ask::<()>("SAVE").await;
    stores
        .create_all(RANKED..COMMENTS, |_| data::product(PRODUCT))
        .await;
    stores.deliver_all().await;
    let api = Served::of(&stores);
    assert_past_the_end(&api.http.get(&listing("page=4")).await);
    redis.restore(&stores.index).await;
    // With the next comment, the lost ranks are between others.
    let newest = stores.create_numbered(100, data::product(PRODUCT)).await;
    let rank = index_edits(&newest.id, Some(&newest.entry()), &[]);
    stores.index.apply(&rank).await.unwrap();
    for lost in [
        listing("page=3"),
        listing("page=4&language=en"),
        "/product/a%2Fb/comments/tlh".to_owned(),
    ] {
        let answer = api.http.get(&lost).await;
        answer.assert_later();
        assert!(
            answer.body.contains("temporarily unavailable"),
            "{answer:?}"
        );
    }

    let repaired = job(&stores, true).recent().await;
    assert_eq!(repaired.exit_code(), exit::DRIFT_FOUND, "{repaired}");
    let third = api.http.get(&listing("page=3")).await.expect(200);
    assert_eq!(ids(&third).len(), 6);
    assert_past_the_end(&api.http.get(&listing("page=4")).await);
    let empty = api.http.get("/product/a%2Fb/comments/tlh").await;
    assert_eq!(empty.status, 404, "{empty:?}");
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_page_whose_ranks_arrive_during_the_request_is_503_and_not_404() {
    let stores = Stores::start_with_redis().await;
    stores.fill(RANKED).await;
    let gate = Gate::start(&stores.redis().url, gate::SCRIPTS).await;
    let index = stores.index_at(&gate.url);
    let api = Served::start(stores.table.clone(), index, ApiSettings::default());
    assert_past_the_end(&api.http.get(&listing("page=2")).await);

    // The only comment of page 2 is posted and ranked after the request has read the total, and
    // before it checks both ends.
    gate.hold_after(1);
    let http = api.http.clone();
    let asked = tokio::spawn(async move { http.get(&listing("page=2")).await });
    gate.wait_until_holding("the look at both ends").await;
    stores.create_numbered(RANKED, data::product(PRODUCT)).await;
    stores.deliver_all().await;
    gate.open();
    assert_not_yet_listed(&asked.await.unwrap());
    assert_eq!(
        ids(&api.http.get(&listing("page=2")).await.expect(200)).len(),
        1
    );
    api.finish_with(stores).await;
}

#[tokio::test]
async fn an_invalid_item_does_not_make_a_page_past_the_end_503() {
    let (stores, api, _) = Served::filled(5).await;
    let newest = stores.create_numbered(100, data::product(PRODUCT)).await;
    assert_not_yet_listed(&api.http.get(&listing("page=2")).await);
    stores
        .break_primary_item(
            &newest.id,
            "language",
            Some(AttributeValue::S("?".to_owned())),
        )
        .await;
    assert_past_the_end(&api.http.get(&listing("page=2")).await);
    api.finish().await;
    stores.index.clear().await.unwrap();
}
