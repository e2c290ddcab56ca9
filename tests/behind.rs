//! A page index that lags behind its table without knowing it: its memory is full, or it lost writes in a fail-over. A
//! page that exists is never "past the end", and cursors lead to every comment. Duplicates that lag behind change no
//! numbered page.

use std::{cmp::Reverse, time::Duration};

use api::{ApiSettings, PastTheEnd, SiteSettings};
use itertools::iproduct;
use model::{Comment, Filter, Order, ProductId, RatingSet, Status, plan::index_edits};
use page_indexer::PageIndexer;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use stream_writer::StreamWriter;
use table::{CommentPatch, NewComment};

use crate::fixture::{
    api::{Served, metric},
    data::{self, PRODUCT},
    gate::{self, Gate},
    http::{Answer, Http, encoded, ids, listing, product_path},
    invariants::Contents,
    redis_server::OwnRedis,
    stores::{INVOCATION, Stores, event},
};
use crate::ordering::{listing_url, walk_by_number};

/// Time for a handful of attempts at a server that accepts no writes.
const SHORT: Duration = Duration::from_millis(600);

/// Number of comments, and number of comments that are ranked before the server is full.
const COMMENTS: u64 = 45;
const RANKED: u64 = 20;

fn product(_number: u64) -> ProductId {
    data::product(PRODUCT)
}

fn assert_not_yet_listed(answer: &Answer) {
    answer.assert_later();
    assert_eq!(answer.problem()["type"], "urn:pagemark:problem:not-yet-listed", "{answer:?}");
}

fn assert_past_the_end(answer: &Answer) {
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(answer.problem()["type"], "urn:pagemark:problem:past-the-end", "{answer:?}");
}

type Next = fn(query: &str, page: &Value) -> Option<String>;

fn by_cursor(query: &str, page: &Value) -> Option<String> {
    Some(listing(&format!("{query}&cursor={}", encoded(page["cursor"]["next"].as_str()?))))
}

fn by_link(_query: &str, page: &Value) -> Option<String> {
    page["links"]["next"].as_str().map(str::to_owned)
}

async fn assert_walks(http: &Http, comments: &[Comment], next: Next) {
    for (order, (filter, language)) in iproduct!(["newest", "oldest"], [("", None), ("&language=en", Some("en"))]) {
        let matching = comments.iter().filter(|comment| language.is_none_or(|tag| comment.language.as_str() == tag));
        let mut expected: Vec<String> = matching.map(|comment| comment.id.to_string()).collect();
        if order == "oldest" {
            expected.reverse();
        }
        let query = format!("order={order}{filter}");
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

/// A server whose memory became full after some of the comments were ranked. The table has all of them. Returns them
/// newest first.
async fn full_since() -> (OwnRedis, Stores, Vec<Comment>) {
    let redis = OwnRedis::start().await;
    let stores = Stores::start_on(redis.server.url()).await;
    let mut comments = stores.create_all(0..RANKED, product).await;
    stores.create_all(1000..1000 + RANKED, |_| data::product("ranked")).await;
    stores.deliver_all().await;
    stores.rebuild().await;
    redis.ask::<()>("CONFIG SET maxmemory 1").await;

    let before = stores.records().await.len();
    comments.extend(stores.create_all(RANKED..COMMENTS, product).await);
    let records = stores.records().await.split_off(before);
    let writer = StreamWriter::new(stores.table.clone(), stores.quarantine(), 4);
    let fanned_out = writer.handle(&event(&records), tokio::time::Instant::now() + INVOCATION).await;
    assert!(fanned_out.response.batch_item_failures.is_empty());
    let indexer = PageIndexer::new(stores.impatient_index(), stores.quarantine());
    let indexed = indexer.handle(&event(&records), tokio::time::Instant::now() + SHORT).await;
    assert_eq!(indexed.response.batch_item_failures.len(), records.len(), "the server takes nothing");
    comments.reverse();
    (redis, stores, comments)
}

#[tokio::test]
async fn with_a_full_redis_pages_that_exist_are_503_and_cursors_lead_to_all_comments() {
    let (redis, stores, comments) = full_since().await;
    let api = Served::of(&stores);
    let http = &api.http;

    let first = http.get(&listing("page=1")).await.expect(200);
    assert_eq!((&first["index"], &first["total"], ids(&first).len()), (&json!("ready"), &json!(RANKED), 20));
    assert_eq!(ids(&first)[0], comments[0].id.as_str());
    assert_walks(http, &comments, by_cursor).await;
    // Page 1, the only page with a number, links to the next page by cursor.
    assert_walks(http, &comments, by_link).await;
    let filters = ["", "&language=en", "&rating=1&rating=5", "&language=ko&rating=2"];
    for (order, filter, number) in iproduct!(["newest", "oldest"], filters, [2, 3, 1000]) {
        assert_not_yet_listed(&http.get(&listing(&format!("order={order}{filter}&page={number}"))).await);
    }

    assert!(metric(http, r#"pagemark_drift_signs_total{sign="row_without_rank"}"#).await >= 24.0);

    // Up to the last ranked comment's instant, nothing is missing.
    let (last_ranked, first_unranked) = (&comments[25], &comments[24]);
    let as_of = |comment: &Comment| format!("page=2&as_of={}", encoded(&comment.created_at.to_string()));
    assert_past_the_end(&http.get(&listing(&as_of(last_ranked))).await);
    assert_not_yet_listed(&http.get(&listing(&as_of(first_unranked))).await);

    // A page that does not exist is still 404, and costs at most two queries of one comment.
    let queries = async || {
        metric(http, r#"pagemark_store_call_duration_seconds_count{store="table",call="page",outcome="ok"}"#).await
    };
    for (name, asked) in [("ranked", 2.0), ("nobody/commented/this", 1.0)] {
        let before = queries().await;
        assert_past_the_end(&http.get(&format!("{}/comments?page=2", product_path(name))).await);
        assert_eq!(queries().await - before, asked, "{name}");
    }
    let nothing = http.get(&format!("{}/comments", product_path("nobody/commented/this"))).await.expect(200);
    assert_eq!((ids(&nothing).len(), &nothing["total"], &nothing["cursor"]["next"]), (0, &json!(0), &Value::Null));

    // The server has room again.
    redis.ask::<()>("CONFIG SET maxmemory 0").await;
    stores.deliver_all().await;
    assert_eq!(http.get(&listing("page=3")).await.expect(200)["total"], COMMENTS);
    assert_past_the_end(&http.get(&listing("page=4")).await);
    api.finish_with(stores).await;
}

#[tokio::test]
async fn with_a_full_redis_html_pages_that_exist_are_503_and_never_redirect_back() {
    let (_redis, stores, _) = full_since().await;
    for past_the_end in [PastTheEnd::NotFound, PastTheEnd::Redirect] {
        let site = SiteSettings { past_the_end, ..SiteSettings::default() };
        let api = Served::with(&stores, ApiSettings { site, ..Default::default() });
        // 20 ranked comments make no archive page yet.
        let front = api.http.get("/product/a%2Fb/comments").await;
        assert_eq!((front.status, front.body.matches("<article").count()), (200, 39), "{front:?}");
        // The others wait for their ranks. Until then only a cursor leads to them.
        let (_, link) = front.body.split_once(r#"rel="next nofollow" href=""#).unwrap();
        let (rest, _) = link.split_once('"').unwrap();
        let rest = api.http.get(rest).await;
        assert_eq!((rest.status, rest.body.matches("<article").count()), (200, 6), "{rest:?}");
        let first = api.http.get("/product/a%2Fb/comments?page=1").await;
        assert_eq!((first.status, first.header("location")), (302, Some("/product/a%2Fb/comments")), "{first:?}");
        let oldest = api.http.get("/product/a%2Fb/comments?order=oldest").await;
        assert!(
            oldest.body.contains(r#"rel="next" href="/product/a%2Fb/comments?order=oldest&#38;page=2""#),
            "{oldest:?}"
        );
        for page in ["?page=2", "?page=1000", "/en?page=2", "?order=oldest&page=2"] {
            let answer = api.http.get(&format!("/product/a%2Fb/comments{page}")).await;
            answer.assert_later();
            assert!(answer.body.contains("still being put into its pages"), "{answer:?}");
        }
        api.finish().await;
    }
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn a_filter_is_404_only_when_no_comment_of_the_product_waits_for_its_ranks() {
    let (stores, api, _) = Served::filled(RANKED).await;
    let page = "/product/a%2Fb/comments/tlh";
    assert_eq!(api.http.get(page).await.status, 404);
    // Neither stream function has seen the new comment, so nothing shows yet that the filter matches it.
    stores.create_numbered(100, product(100)).await;
    let waiting = api.http.get(page).await;
    waiting.assert_later();
    assert!(waiting.body.contains("still being put into its pages"), "{waiting:?}");
    stores.deliver_all().await;
    assert_eq!(api.http.get(page).await.status, 404);
    api.finish_with(stores).await;
}

/// Asserts that walks by numbers show exactly these comments, which are newest first: in either order, and in stable
/// numbering.
async fn assert_numbered(http: &Http, comments: &[Comment], filter: &Filter) {
    const SIZE: usize = 7;
    let matching = comments.iter().filter(|comment| filter.matches(&comment.placement()));
    let mut expected: Vec<&str> = matching.map(|comment| comment.id.as_str()).collect();
    let newest = listing_url(&data::product(PRODUCT), filter, Order::Newest, SIZE);
    let stable = newest.replace("order=newest", "numbering=stable");
    let front = http.get(&stable).await.expect(200);
    let mut walked = ids(&front);
    for number in (1..front["total_pages"].as_u64().unwrap()).rev() {
        walked.extend(ids(&http.get(&format!("{stable}&page={number}")).await.expect(200)));
    }
    assert_eq!(walked, expected, "{stable}");
    walk_by_number(http, &newest, SIZE, &expected).await;
    expected.reverse();
    walk_by_number(http, &newest.replace("newest", "oldest"), SIZE, &expected).await;
}

#[tokio::test]
async fn while_no_duplicate_is_written_every_numbered_page_is_exact() {
    for stores in [Stores::start_ready_in_process().await, Stores::start_ready_with_redis().await] {
        let before = stores.create_all(30..90, product).await;
        stores.deliver_all().await;
        // Only the page indexer works on.
        let after = [stores.create_all(0..30, product).await, stores.create_all(90..100, product).await].concat();
        for (number, comment) in before.iter().chain(&after).enumerate() {
            let status = (number % 7 == 1).then_some(Status::Hidden);
            let rating = (number % 7 == 2).then(|| data::rating(1 + (number as u64 + comment.rating.get() as u64) % 5));
            let language = (number % 7 == 3).then(|| data::language(["fr", "en"][number % 2]));
            let patch = CommentPatch { status, rating, language, ..CommentPatch::default() };
            match number % 7 {
                1..=3 => drop(stores.table.patch_comment(&comment.id, None, &patch).await.unwrap()),
                4 => stores.table.delete_comment(&comment.id, None).await.unwrap(),
                _ if (45..60).contains(&number) => stores.table.delete_comment(&comment.id, None).await.unwrap(),
                _ => {}
            }
        }
        let indexer = PageIndexer::new(stores.index.clone(), stores.quarantine());
        for batch in stores.records().await.chunks(100) {
            let indexed = indexer.handle(&event(batch), tokio::time::Instant::now() + INVOCATION).await;
            assert!(indexed.response.batch_item_failures.is_empty());
        }
        let mut comments = Contents::read(&stores.table).await.comments();
        comments.retain(|comment| comment.status.is_published());
        comments.sort_by_key(|comment| Reverse(comment.cd()));
        let api = Served::of(&stores);
        for (ratings, language) in iproduct!(RatingSet::every(), [None, Some("en"), Some("ko"), Some("fr")]) {
            assert_numbered(&api.http, &comments, &Filter::new(language.map(data::language), Some(ratings))).await;
        }
        api.finish_with(stores).await;
    }
}

#[tokio::test]
async fn ranks_lost_at_either_end_make_pages_503_and_hide_nothing_from_cursors() {
    let (stores, api, comments) = Served::filled(COMMENTS).await;
    let http = &api.http;
    let lost: [(&str, &[Comment]); 4] =
        [("newest", &comments[..10]), ("oldest", &comments[35..]), ("all", &comments), ("middle", &comments[15..25])];
    for (which, lost) in lost {
        let edits = lost.iter().flat_map(|comment| index_edits(&comment.id, None, &[comment.placement()]));
        stores.index.apply(&edits.collect::<Vec<_>>()).await.unwrap();
        assert_walks(http, &comments, by_cursor).await;
        // Only the repair job notices missing ranks between two ranked comments.
        for order in ["newest", "oldest"].into_iter().filter(|_| which != "middle") {
            for query in ["page=3", "page=1000", "page=4&language=en", "page_size=5&page=9&rating=1&rating=2&rating=3"]
            {
                let answer = http.get(&listing(&format!("order={order}&{query}"))).await;
                assert_eq!(answer.status, 503, "{which}: {answer:?}");
                assert_not_yet_listed(&answer);
            }
        }
        stores.deliver_all().await;
        assert_past_the_end(&http.get(&listing("page=4")).await);
        assert_eq!(ids(&http.get(&listing("page=3")).await.expect(200)).len(), 5);
    }
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

    // The only comment of page 2 is posted and ranked after the request has read the total, and before it checks both
    // ends.
    gate.hold_after(1);
    let http = api.http.clone();
    let asked = tokio::spawn(async move { http.get(&listing("page=2")).await });
    gate.wait_until_holding("the look at both ends").await;
    stores.create_numbered(RANKED, product(RANKED)).await;
    stores.deliver_all().await;
    gate.open();
    assert_not_yet_listed(&asked.await.unwrap());
    assert_eq!(ids(&api.http.get(&listing("page=2")).await.expect(200)).len(), 1);
    api.finish_with(stores).await;
}

#[tokio::test]
async fn an_invalid_item_does_not_make_a_page_past_the_end_503() {
    let (stores, api, _) = Served::filled(5).await;
    let newest = stores.create_numbered(100, product(100)).await;
    assert_not_yet_listed(&api.http.get(&listing("page=2")).await);
    stores.break_primary_item(&newest.id, "language", Some(AttributeValue::S("?".to_owned()))).await;
    assert_past_the_end(&api.http.get(&listing("page=2")).await);
    api.finish().await;
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn a_page_among_rows_of_deleted_comments_leads_to_an_older_comment_without_a_rank() {
    let stores = Stores::start().await;
    // Half of them are English, so three pages.
    let comments = stores.fill(86).await;
    let (writer, indexer) = (
        StreamWriter::new(stores.table.clone(), stores.quarantine(), 4),
        PageIndexer::new(stores.index.clone(), stores.quarantine()),
    );
    let oldest = NewComment { created_at: data::at_ms(1), ..data::new_comment("oldest", &product(0), "en", 3) };
    let seen = stores.records().await.len();
    stores.table.create_comment(oldest, None).await.unwrap();
    let deadline = tokio::time::Instant::now() + INVOCATION;
    writer.handle(&event(&stores.records().await[seen..]), deadline).await;
    let english: Vec<&Comment> = comments.iter().filter(|comment| comment.language.as_str() == "en").collect();
    for deleted in &english[22..25] {
        stores.table.delete_comment(&deleted.id, None).await.unwrap();
    }
    indexer.handle(&event(&stores.records().await[seen + 1..]), deadline).await;

    let api = Served::of(&stores);
    let second = api.http.get(&listing("language=en&page=2")).await.expect(200);
    assert_eq!((ids(&second).len(), &second["total_pages"]), (20, &json!(2)), "{second}");
    let next = by_cursor("language=en", &second).expect("a cursor that leads on");
    assert_eq!(ids(&api.http.get(&next).await.expect(200)), ["oldest"]);
    api.finish_with(stores).await;
}
