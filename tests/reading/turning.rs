//! A reader turns pages while comments come and go. The instant of which pages are is never later
//! than the page index has reached. Cursors never lead to a dead end, and an invalid item hides no
//! other.

use model::{Comment, Language, Order, Timestamp};
use process::now;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use table::CommentPatch;

use crate::fixture::{
    api::{Served, metric},
    data::{PRODUCT, index_comment},
    http::{Http, encoded, good_comment, ids, listing},
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

fn ids_of(comments: &[Comment]) -> Vec<String> {
    comments
        .iter()
        .map(|comment| comment.id.to_string())
        .collect()
}

async fn get(http: &Http, query: &str) -> Value {
    http.get(&listing(query)).await.expect(200)
}

async fn as_of(http: &Http, query: &str) -> Value {
    get(http, query).await["as_of"].clone()
}

/// When the newest comment in a language was created. The comments are ordered, newest first.
fn newest_in(language: &str, comments: &[Comment]) -> Timestamp {
    let newest = comments
        .iter()
        .find(|comment| comment.language.as_str() == language);
    newest.unwrap().created_at
}

#[tokio::test]
async fn as_of_is_never_later_than_the_page_index_has_reached() {
    let (stores, api, comments) = Served::filled(12).await;
    let http = &api.http;
    for number in 1..=3 {
        let query = format!("page_size=5&page={number}");
        assert_eq!(as_of(http, &query).await, json!(comments[0].created_at));
    }
    for language in ["en", "ko"] {
        let query = format!("language={language}&order=oldest");
        let newest = newest_in(language, &comments);
        assert_eq!(as_of(http, &query).await, json!(newest));
    }
    // The answer repeats an `as_of` from the request.
    let given = comments[7].created_at.to_string();
    let query = format!("as_of={}", encoded(&given));
    assert_eq!(as_of(http, &query).await, json!(given));

    // For an empty listing, `as_of` is the instant up to which the journal is reconciled. Later
    // comments do not count.
    let nothing = get(http, "language=fr").await;
    assert_eq!(nothing["total"], 0);
    let reconciled = nothing["as_of"].as_str().unwrap();
    assert_eq!(
        as_of(http, "language=fr").await,
        reconciled,
        "it is the same until something changes"
    );
    http.post(PRODUCT, &good_comment("fr", 5, "The first"))
        .await
        .expect(201);
    stores.deliver_all().await;
    assert_eq!(get(http, "language=fr").await["total"], 1);
    let earlier = format!("language=fr&as_of={}", encoded(reconciled));
    assert_eq!(get(http, &earlier).await["total"], 0);

    // A comment from the future does not move `as_of` into the future.
    let mut future = comments[0].clone();
    future.created_at = now().plus_ms(3_600_000);
    let edits = index_comment(&future.id, &future.placement(), future.created_at);
    stores.index.apply(&edits).await.unwrap();
    let shown = as_of(http, "page=1").await;
    let shown = Timestamp::parse(shown.as_str().unwrap()).unwrap();
    assert!(shown <= now(), "{shown}");

    // Without the index, pages have no numbers and no `as_of`.
    stores.index.clear().await.unwrap();
    let page = get(http, "page=1").await;
    assert_eq!(page["index"], "unavailable");
    assert_eq!(page["as_of"], Value::Null);
    api.finish().await;
}

async fn delete(stores: &Stores, comments: impl IntoIterator<Item = &Comment>) {
    for comment in comments {
        stores
            .table
            .delete_comment(&comment.id, |_| true)
            .await
            .unwrap();
    }
    stores.deliver_all().await;
}

async fn follow(http: &Http, query: &str, cursor: &Value) -> Value {
    let Some(cursor) = cursor.as_str() else {
        panic!("no cursor: {cursor}");
    };
    get(http, &format!("{query}&cursor={}", encoded(cursor))).await
}

/// The ids on all pages from the first on, by the cursors to the next page.
async fn walk(http: &Http, query: &str) -> Vec<String> {
    let mut page = get(http, query).await;
    let mut walked = ids(&page);
    while !page["cursor"]["next"].is_null() {
        page = follow(http, query, &page["cursor"]["next"]).await;
        walked.extend(ids(&page));
    }
    walked
}

#[tokio::test]
async fn a_cursor_whose_page_was_deleted_leads_back() {
    for order in [Order::Newest, Order::Oldest] {
        let stores = Stores::start().await;
        let mut comments = stores.fill(14).await;
        if order == Order::Oldest {
            comments.reverse();
        }
        let api = Served::of(&stores);
        let http = &api.http;
        let query = &format!("page_size=4&order={order}");
        let first = get(http, query).await;
        let second = follow(http, query, &first["cursor"]["next"]).await;
        assert_eq!(ids(&second), ids_of(&comments[4..8]));

        // All following comments are deleted while the reader is on the second page.
        delete(&stores, &comments[8..]).await;
        let empty = follow(http, query, &second["cursor"]["next"]).await;
        assert_eq!(ids(&empty).len(), 0);
        assert_eq!(empty["cursor"]["next"], Value::Null);
        assert_eq!(empty["links"]["next"], Value::Null);
        let back = follow(http, query, &empty["cursor"]["prev"]).await;
        assert_eq!(ids(&back), ids(&second), "the page that led there, whole");
        let link = empty["links"]["prev"].as_str().unwrap();
        assert_eq!(back, http.get(link).await.expect(200));

        // All preceding comments are deleted as well.
        delete(&stores, &comments[..4]).await;
        let empty = follow(http, query, &back["cursor"]["prev"]).await;
        assert_eq!(ids(&empty).len(), 0);
        assert_eq!(empty["cursor"]["prev"], Value::Null);
        let forth = follow(http, query, &empty["cursor"]["next"]).await;
        assert_eq!(ids(&forth), ids_of(&comments[4..8]));

        // The comment named by the cursor is also deleted, and others remain.
        delete(&stores, &comments[7..8]).await;
        let empty = follow(http, query, &second["cursor"]["next"]).await;
        let back = follow(http, query, &empty["cursor"]["prev"]).await;
        assert_eq!(ids(&back), ids_of(&comments[4..7]));
        api.finish_with(stores).await;
    }
}

#[tokio::test]
async fn a_walk_shows_nothing_twice_while_rows_between_ranks_are_out_of_date() {
    let (stores, api, comments) = Served::filled(45).await;
    let english: Vec<Comment> = comments
        .into_iter()
        .filter(|comment| comment.language.as_str() == "en")
        .take(12)
        .collect();
    // More than a page has. Their duplicates in English are still there, and their ranks are gone.
    let language = Language::parse("ko").unwrap();
    for before in &english[1..6] {
        let patch = CommentPatch {
            language: Some(language.clone()),
            ..CommentPatch::default()
        };
        let after = stores
            .table
            .patch_comment(&before.id, |_| true, &patch)
            .await
            .unwrap();
        let edits = model::plan::index_edits(&after.id, Some(&after.entry()), &[before.entry()]);
        stores.index.apply(&edits).await.unwrap();
    }
    let walked = walk(&api.http, "page_size=2&language=en").await;
    let expected = ids_of(&[&english[..1], &english[6..]].concat());
    assert_eq!(walked[..7], expected);
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_walk_passes_any_number_of_invalid_items() {
    // More items than one answer of the listing reads.
    const INVALID: usize = 1_000;
    let stores = Stores::start().await;
    let comments = stores.fill(2).await;
    let item = stores.table.primary_item(&comments[0].id).await.unwrap();
    let item = item.unwrap().into_inner();
    let between = comments[1].created_at.plus_ms(1);
    let newest = comments[0].created_at.plus_ms(2);
    let cd = model::Cd {
        created_at: newest,
        id: comments[0].id.clone(),
    };
    let pcd = model::primaries::PrimariesKey::of(&comments[0].product, &cd).pcd;
    for (name, value) in [("cd", cd.to_string()), ("pcd", pcd)] {
        stores
            .break_primary_item(&comments[0].id, name, Some(AttributeValue::S(value)))
            .await;
    }
    for number in 0..INVALID {
        let pk = AttributeValue::S(format!("COMMENT#x{number}"));
        let cd = AttributeValue::S(format!("{between}#x{number}"));
        let mut invalid = item.clone();
        invalid.insert("pk".to_owned(), pk);
        invalid.insert("cd".to_owned(), cd);
        invalid.remove("rating");
        stores.put_raw(invalid.into()).await;
    }
    stores.rebuild().await;
    let api = Served::of(&stores);
    let expected = ids_of(&comments);
    for order in [Order::Newest, Order::Oldest] {
        let mut walked = walk(&api.http, &format!("page_size=1&order={order}")).await;
        if order == Order::Oldest {
            walked.reverse();
        }
        assert_eq!(walked, expected, "{order}");
    }
    let malformed = metric(&api.http, "pagemark_malformed_items_total").await;
    assert!(malformed >= INVALID as f64);
    for sign in [
        "missing_duplicate",
        "rank_without_comment",
        "row_without_rank",
    ] {
        let name = format!("pagemark_drift_signs_total{{sign=\"{sign}\"}}");
        assert_eq!(metric(&api.http, &name).await, 0.0, "{sign}");
    }
    // By number, the query does not reach the second comment, which its rank names.
    assert_eq!(ids(&get(&api.http, "page_size=2").await), expected);
    api.finish().await;
    stores.index.clear().await.unwrap();
}
