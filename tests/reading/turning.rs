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
    data::PRODUCT,
    http::{Http, encoded, good_comment, ids, listing},
    stores::Stores,
};

fn ids_of(comments: &[Comment]) -> Vec<String> {
    comments
        .iter()
        .map(|comment| comment.id.to_string())
        .collect()
}

async fn get(http: &Http, query: &str) -> Value {
    http.get(&listing(query)).await.expect(200)
}

#[tokio::test]
async fn as_of_is_never_later_than_the_page_index_has_reached() {
    let (stores, api, comments) = Served::filled(12).await;
    let http = &api.http;
    let newest_of = |language: &str| {
        let of = comments
            .iter()
            .find(|comment| comment.language.as_str() == language);
        json!(of.unwrap().created_at)
    };
    for number in 1..=3 {
        let page = get(http, &format!("page_size=5&page={number}")).await;
        assert_eq!(page["as_of"], json!(comments[0].created_at));
    }
    for language in ["en", "ko"] {
        assert_eq!(
            get(http, &format!("language={language}&order=oldest")).await["as_of"],
            newest_of(language)
        );
    }
    // The answer repeats an `as_of` from the request.
    let given = comments[7].created_at.to_string();
    assert_eq!(
        get(http, &format!("as_of={}", encoded(&given))).await["as_of"],
        json!(given)
    );

    // For an empty listing, `as_of` is the instant up to which the journal is reconciled. Later
    // comments do not count.
    let nothing = get(http, "language=fr").await;
    assert_eq!(nothing["total"], 0);
    let as_of = nothing["as_of"].as_str().unwrap();
    assert_eq!(
        get(http, "language=fr").await["as_of"],
        as_of,
        "it is the same until something changes"
    );
    http.post(PRODUCT, &good_comment("fr", 5, "The first"))
        .await
        .expect(201);
    stores.deliver_all().await;
    assert_eq!(get(http, "language=fr").await["total"], 1);
    assert_eq!(
        get(http, &format!("language=fr&as_of={}", encoded(as_of))).await["total"],
        0
    );

    // A comment from the future does not move `as_of` into the future.
    let mut future = comments[0].clone();
    future.created_at = now().plus_ms(3_600_000);
    let place = (&future.placement(), future.created_at);
    stores
        .index
        .apply(&model::plan::index_edits(&future.id, Some(place), &[]))
        .await
        .unwrap();
    let as_of = get(http, "page=1").await["as_of"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(Timestamp::parse(&as_of).unwrap() <= now(), "{as_of}");

    // Without the index, pages have no numbers and no `as_of`.
    stores.index.clear().await.unwrap();
    let page = get(http, "page=1").await;
    assert_eq!(
        (&page["index"], &page["as_of"]),
        (&json!("unavailable"), &Value::Null)
    );
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
    let cursor = encoded(
        cursor
            .as_str()
            .unwrap_or_else(|| panic!("no cursor: {cursor}")),
    );
    get(http, &format!("{query}&cursor={cursor}")).await
}

/// The pages from this one on, by the cursors to the `next` or the `prev` page.
async fn walk(http: &Http, query: &str, first: Value, to: &str) -> Vec<Value> {
    let mut pages = vec![first];
    while let Some(cursor) = pages
        .last()
        .map(|page| &page["cursor"][to])
        .filter(|cursor| !cursor.is_null())
    {
        pages.push(follow(http, query, cursor).await);
    }
    pages
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
        assert_eq!(
            (ids(&empty).len(), &empty["cursor"]["next"]),
            (0, &Value::Null)
        );
        assert_eq!(empty["links"]["next"], Value::Null);
        let back = follow(http, query, &empty["cursor"]["prev"]).await;
        assert_eq!(ids(&back), ids(&second), "the page that led there, whole");
        assert_eq!(
            back,
            http.get(empty["links"]["prev"].as_str().unwrap())
                .await
                .expect(200)
        );

        // All preceding comments are deleted as well.
        delete(&stores, &comments[..4]).await;
        let empty = follow(http, query, &back["cursor"]["prev"]).await;
        assert_eq!(
            (ids(&empty).len(), &empty["cursor"]["prev"]),
            (0, &Value::Null)
        );
        let forth = follow(http, query, &empty["cursor"]["next"]).await;
        assert_eq!(ids(&forth), ids_of(&comments[4..8]));

        // The comment named by the cursor is also deleted, and others remain.
        delete(&stores, &comments[7..8]).await;
        let empty = follow(http, query, &second["cursor"]["next"]).await;
        assert_eq!(
            ids(&follow(http, query, &empty["cursor"]["prev"]).await),
            ids_of(&comments[4..7])
        );
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
        let place = (&after.placement(), after.created_at);
        let edits = model::plan::index_edits(&after.id, Some(place), &[before.placement()]);
        stores.index.apply(&edits).await.unwrap();
    }
    let query = "page_size=2&language=en";
    let pages = walk(&api.http, query, get(&api.http, query).await, "next").await;
    let walked: Vec<String> = pages.iter().flat_map(ids).take(7).collect();
    assert_eq!(walked, ids_of(&[&english[..1], &english[6..]].concat()));
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_walk_passes_any_number_of_invalid_items() {
    // More items than one answer of the listing reads.
    const INVALID: usize = 1_000;
    let stores = Stores::start().await;
    let comments = stores.fill(2).await;
    let item = stores
        .table
        .primary_item(&comments[0].id)
        .await
        .unwrap()
        .unwrap()
        .into_inner();
    let at = comments[1].created_at.plus_ms(1);
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
        let mut invalid = item.clone();
        invalid.insert(
            "pk".to_owned(),
            AttributeValue::S(format!("COMMENT#x{number}")),
        );
        invalid.insert(
            "cd".to_owned(),
            AttributeValue::S(format!("{at}#x{number}")),
        );
        invalid.remove("rating");
        stores.put_raw(invalid.into()).await;
    }
    stores.rebuild().await;
    let api = Served::of(&stores);
    let expected = ids_of(&comments);
    for order in [Order::Newest, Order::Oldest] {
        let query = &format!("page_size=1&order={order}");
        let pages = walk(&api.http, query, get(&api.http, query).await, "next").await;
        let mut walked: Vec<String> = pages.iter().flat_map(ids).collect();
        if order == Order::Oldest {
            walked.reverse();
        }
        assert_eq!(walked, expected, "{order}");
    }
    let metric = async |name: &str| metric(&api.http, name).await;
    assert!(metric("pagemark_malformed_items_total").await >= INVALID as f64);
    for sign in [
        "missing_duplicate",
        "rank_without_comment",
        "row_without_rank",
    ] {
        assert_eq!(
            metric(&format!("pagemark_drift_signs_total{{sign=\"{sign}\"}}")).await,
            0.0,
            "{sign}"
        );
    }
    // By number, the query does not reach the second comment, which its rank names.
    assert_eq!(ids(&get(&api.http, "page_size=2").await), expected);
    api.finish().await;
    stores.index.clear().await.unwrap();
}
