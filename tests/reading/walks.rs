//! A walk by cursor shows every comment whose duplicate or rank exists, whichever of the two is
//! late or lost, and reports what it met to repair.

use std::cmp::Reverse;

use itertools::iproduct;
use model::{Comment, FilterKey, plan::index_edits};
use repair_job::exit;

use crate::{
    fixture::{
        api::{Served, metric},
        damage,
        data::{self, PRODUCT},
        http::{Http, encoded, ids, listing},
        stores::Stores,
    },
    repair::job,
};

const _: crate::Engines = crate::Engines::Both;

const COMMENTS: u64 = 96;

/// Walks from page 1 to the end by `cursor.next`, and back by `cursor.prev`. Returns the ids of
/// both, in the order of the listing. Every page must name the total.
async fn walk(http: &Http, query: &str) -> [Vec<String>; 2] {
    let mut page = http.get(&listing(query)).await.expect(200);
    let first = ids(&page);
    let mut there = first.clone();
    let mut back = Vec::new();
    while let Some(cursor) = page["cursor"]["next"].as_str() {
        let target = listing(&format!("{query}&cursor={}", encoded(cursor)));
        page = http.get(&target).await.expect(200);
        assert!(page["total"].is_u64(), "{target}: {page}");
        there.extend(ids(&page));
        back = ids(&page);
    }
    while let Some(cursor) = page["cursor"]["prev"].as_str() {
        let target = listing(&format!("{query}&cursor={}", encoded(cursor)));
        page = http.get(&target).await.expect(200);
        back.splice(0..0, ids(&page));
    }
    [there, back]
}

/// Deletes the duplicates that the listing of the comment's language needs, and those in the order
/// of ratings.
async fn lose_duplicates(stores: &Stores, comment: &Comment) {
    let language = Some(comment.language.as_str());
    let rating = Some(comment.rating.as_str());
    for filter in [
        data::filter(language, None),
        data::filter(language, rating),
        data::filter(None, rating),
    ] {
        let key = FilterKey {
            product: data::product(PRODUCT),
            filter,
        };
        damage::delete(&stores.table, &comment.id, &key).await;
    }
}

async fn lose_rank(stores: &Stores, comment: &Comment) {
    let edits = index_edits(&comment.id, None, &[comment.entry()]);
    stores.index.apply(&edits).await.unwrap();
}

async fn check_walks(stores: &Stores) {
    let comments = stores.fill(COMMENTS).await;
    let api = Served::of(stores);
    // On page 1, at an end of a page, on later pages, and the last comment of all.
    for at in [3, 19, 20, 50, 95] {
        lose_duplicates(stores, &comments[at]).await;
    }
    for at in [0, 21, 39, 60] {
        lose_rank(stores, &comments[at]).await;
    }
    let orders = ["newest", "oldest", "highest", "lowest"];
    for (order, language, size) in iproduct!(orders, [None, Some("en")], [20, 7]) {
        let mut listed: Vec<&Comment> = Vec::new();
        for comment in &comments {
            if language.is_none_or(|tag| comment.language.as_str() == tag) {
                listed.push(comment);
            }
        }
        match order {
            "oldest" => listed.reverse(),
            "highest" => listed.sort_by_key(|comment| Reverse(comment.rating)),
            "lowest" => listed.sort_by_key(|comment| comment.rating),
            _ => {}
        }
        let expected: Vec<&str> = listed.iter().map(|comment| comment.id.as_str()).collect();
        let mut query = format!("order={order}&page_size={size}");
        if let Some(tag) = language {
            query.push_str(&format!("&language={tag}"));
        }
        for walked in walk(&api.http, &query).await {
            assert_eq!(walked, expected, "{query}");
        }
    }
    for sign in ["missing_duplicate", "row_without_rank"] {
        let series = format!("pagemark_drift_signs_total{{sign=\"{sign}\"}}");
        assert!(metric(&api.http, &series).await > 0.0, "{sign}");
    }
    api.finish().await;
}

#[tokio::test]
async fn a_walk_shows_comments_whose_duplicate_or_rank_is_lost() {
    for stores in [
        Stores::start_ready().await,
        Stores::start_ready_with_redis().await,
    ] {
        check_walks(&stores).await;
        let audit = job(&stores, true).audit(crate::repair::whole()).await;
        assert_eq!(audit.exit_code(), exit::DRIFT_FOUND, "{audit}");
        stores.finish().await;
    }
}
