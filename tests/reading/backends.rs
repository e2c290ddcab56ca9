//! The conformance suite of page indexes, with the other tests that call [`for_each_index`]: Redis,
//! and the index in the process, which is the simulator's stand-in. Here: markers protect it in the
//! same way, and a scan returns everything.

use std::collections::BTreeMap;

use itertools::Itertools;
use model::{Filter, Order, ProductId, Timestamp, plan::IndexEdit};
use page_index::{
    ConfirmationTime, IndexPart, IndexPartition, IndexScanPosition, PageIndex, RankedQuery,
};
use process::now;

use crate::fixture::{
    data,
    page_indexes::for_each_index,
    redis_server::{TABLE_ID, make_ready},
};

const _: crate::Engines = crate::Engines::Both;

const OTHER_TABLE: &str = "another-table";

/// Comments of the largest product: an index scan reads them in several steps.
const COMMENTS: u64 = 1_200;

async fn watermarks(index: &PageIndex) -> Vec<(IndexPartition, Timestamp)> {
    let marks = index.marks(TABLE_ID).await.unwrap();
    marks
        .into_iter()
        .map(|(partition, mark)| (partition, mark.watermark))
        .collect()
}

async fn tokens(index: &PageIndex) -> Vec<(IndexPartition, String)> {
    let marks = index.marks(TABLE_ID).await.unwrap();
    marks
        .into_iter()
        .map(|(partition, mark)| (partition, mark.token))
        .collect()
}

#[tokio::test]
async fn a_watermark_advances_only_from_the_value_that_was_read() {
    for_each_index(async |index| {
        let before = now();
        let later = before.plus_ms(1_000);
        make_ready(&index, before).await;
        let read = watermarks(&index).await;
        let servers = index.server_identity().await.unwrap();
        assert_eq!(read.len(), index.partitions().count());

        let first = index
            .prepare_advance(TABLE_ID, &read, &servers)
            .await
            .unwrap();
        let second = index
            .prepare_advance(TABLE_ID, &read, &servers)
            .await
            .unwrap();
        assert_eq!(
            index.advance(first, later).await.unwrap(),
            [],
            "the second wrote its own nonce"
        );
        assert_eq!(
            index.advance(second, later).await.unwrap().len(),
            read.len()
        );
        assert!(watermarks(&index).await.iter().all(|(_, at)| *at == later));

        let outdated = index
            .prepare_advance(TABLE_ID, &read, &servers)
            .await
            .unwrap();
        assert_eq!(index.advance(outdated, now()).await.unwrap(), []);
        let read = watermarks(&index).await;
        let foreign = index
            .prepare_advance(OTHER_TABLE, &read, &servers)
            .await
            .unwrap();
        assert_eq!(index.advance(foreign, now()).await.unwrap(), []);
        // A rebuild has begun, or has also ended.
        for is_ended in [false, true] {
            let prepared = index
                .prepare_advance(TABLE_ID, &read, &servers)
                .await
                .unwrap();
            let rebuild = index.begin_rebuild().await.unwrap();
            if is_ended {
                index
                    .finish_rebuild(&rebuild, TABLE_ID, later)
                    .await
                    .unwrap();
            }
            assert_eq!(index.advance(prepared, now()).await.unwrap(), []);
            make_ready(&index, later).await;
        }
        let prepared = index
            .prepare_advance(TABLE_ID, &read, &servers)
            .await
            .unwrap();
        index.clear().await.unwrap();
        assert_eq!(
            index.advance(prepared, now()).await.unwrap(),
            [],
            "the markers are lost"
        );
    })
    .await;
}

/// A caller repeats a call whose answer was lost.
#[tokio::test]
async fn a_repeated_advance_counts_as_done_and_does_not_advance_again() {
    for_each_index(async |index| {
        let before = now();
        let later = before.plus_ms(1_000);
        let later_still = before.plus_ms(2_000);
        make_ready(&index, before).await;
        let read = watermarks(&index).await;
        let servers = index.server_identity().await.unwrap();
        let advance = index
            .prepare_advance(TABLE_ID, &read, &servers)
            .await
            .unwrap();
        // The steps in their order, and whether each counts as done.
        for (to, is_done) in [
            (None, true),
            (Some(later), true),
            (Some(later), true),
            (None, false),
            (Some(later_still), false),
        ] {
            let done = index.advance_step(&advance, to).await.unwrap();
            assert_eq!(done, vec![is_done; read.len()], "{to:?}");
        }
        for (_, watermark) in watermarks(&index).await {
            assert_eq!(watermark, later);
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeated_token_counts_as_left_until_another_one_replaces_it() {
    for_each_index(async |index| {
        make_ready(&index, now()).await;
        let read = tokens(&index).await;
        let mut last = read.clone();
        // The tokens in their order, which one each replaces, and whether that counts as done.
        for (token, replaces_last, is_done) in [
            ("one", false, true),
            ("one", false, true),
            ("two", false, false),
            ("two", true, true),
            ("one", false, false),
        ] {
            let asked = if replaces_last { &last } else { &read };
            let left = index
                .leave_token(TABLE_ID, asked, token, ConfirmationTime::TakenAway)
                .await
                .unwrap();
            if is_done {
                assert_eq!(left.len(), read.len(), "{token}");
                last = left;
            } else {
                assert_eq!(left, [], "{token}");
            }
            assert_eq!(tokens(&index).await, last);
        }
    })
    .await;
}

#[tokio::test]
async fn a_rebuild_marks_only_where_its_last_nonce_is() {
    for_each_index(async |index| {
        let rebuild = index.begin_rebuild().await.unwrap();
        let watermark = now();
        let later = watermark.plus_ms(1_000);
        // The steps in their order, and whether each counts as done and leaves the index marked.
        for (to, nonce, is_last, is_done, is_marked) in [
            (watermark, "one", true, false, false),
            (watermark, "one", false, true, false),
            (watermark, "two", false, true, false),
            (watermark, "one", true, false, false),
            (watermark, "two", true, true, true),
            (watermark, "two", true, true, true),
            (later, "two", true, false, true),
        ] {
            let done = index
                .finish_step(&rebuild, TABLE_ID, to, nonce, is_last)
                .await
                .unwrap();
            assert_eq!(done, is_done, "{to} {nonce} {is_last}");
            let is_ready = index.is_ready(TABLE_ID, now()).await.unwrap();
            assert_eq!(is_ready, is_marked, "{to} {nonce} {is_last}");
        }
        for (_, marked) in watermarks(&index).await {
            assert_eq!(marked, watermark);
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_replaces_only_the_token_that_was_read() {
    for_each_index(async |index| {
        make_ready(&index, now()).await;
        let read = tokens(&index).await;
        let replaced = index
            .leave_token(TABLE_ID, &read, "one", ConfirmationTime::Unchanged)
            .await
            .unwrap();
        let everywhere_one = read
            .iter()
            .map(|(partition, _)| (*partition, "one".to_owned()))
            .collect_vec();
        assert_eq!(replaced, everywhere_one);
        let outdated = index
            .leave_token(TABLE_ID, &read, "two", ConfirmationTime::TakenAway)
            .await
            .unwrap();
        assert_eq!(outdated, []);
        let foreign = index
            .leave_token(OTHER_TABLE, &replaced, "two", ConfirmationTime::TakenAway)
            .await
            .unwrap();
        assert_eq!(foreign, []);
        assert!(index.is_ready(TABLE_ID, now()).await.unwrap());

        let taken = index
            .leave_token(TABLE_ID, &replaced, "two", ConfirmationTime::TakenAway)
            .await
            .unwrap();
        for (_, answer) in index.readiness(TABLE_ID, now()).await.unwrap() {
            answer.unwrap_err();
        }
        let confirmed = index
            .leave_token(TABLE_ID, &taken, "three", ConfirmationTime::At(now()))
            .await
            .unwrap();
        assert!(index.is_ready(TABLE_ID, now()).await.unwrap());
        assert_eq!(tokens(&index).await, confirmed);
        index.begin_rebuild().await.unwrap();
        let after_rebuild = index
            .leave_token(TABLE_ID, &confirmed, "four", ConfirmationTime::At(now()))
            .await
            .unwrap();
        assert_eq!(after_rebuild, []);
    })
    .await;
}

fn comments(product: &ProductId, count: u64) -> Vec<IndexEdit> {
    let mut edits = Vec::new();
    for number in 0..count {
        let language = if number % 7 == 0 { "de" } else { "en" };
        let placement = data::placement(product, language, 1 + number % 5);
        let id = data::comment_id(&format!("c{number}"));
        edits.extend(data::index_comment(&id, &placement, now()));
    }
    edits
}

async fn scanned(index: &PageIndex) -> BTreeMap<ProductId, Vec<String>> {
    let mut position = index.begin_index_scan().await.unwrap();
    let mut members: BTreeMap<ProductId, Vec<String>> = BTreeMap::new();
    while let Some(part) = index.next_index_part(&mut position).await.unwrap() {
        if let IndexPart::Entries(entries) = part {
            for (id, entry) in entries {
                let of_product = members.entry(entry.placement.product).or_default();
                of_product.push(id.to_string());
            }
        }
        // A run stores the position, and the next one reads it.
        let stored = serde_json::to_string(&position).unwrap();
        position = serde_json::from_str::<IndexScanPosition>(&stored).unwrap();
        assert!(index.is_index_scan_valid(&position).await.unwrap());
    }
    members.values_mut().for_each(|ids| ids.sort_unstable());
    members
}

#[tokio::test]
async fn a_scan_that_resumes_after_every_step_returns_every_comment() {
    for_each_index(async |index| {
        make_ready(&index, now()).await;
        let sizes = [
            ("large", COMMENTS),
            ("a:b", 2),
            ("a:languages", 1),
            ("PRODUCT#x/~", 3),
            ("p", 500),
        ];
        let mut expected = BTreeMap::new();
        for (name, count) in sizes {
            let product = data::product(name);
            index.apply(&comments(&product, count)).await.unwrap();
            let ids = (0..count).map(|number| format!("c{number}"));
            expected.insert(product, ids.sorted().collect_vec());
        }
        assert_eq!(scanned(&index).await, expected);
    })
    .await;
}

/// When the comment with this rank is created, counted from the oldest.
fn created_at(rank: u64) -> Timestamp {
    data::at_ms(data::CREATED_MS + i64::try_from(rank).unwrap())
}

/// A query for the comment with this rank, counted from the oldest.
fn by_rank(product: &ProductId, rank: u64) -> RankedQuery<'_> {
    RankedQuery {
        order: Order::Oldest,
        skip: rank,
        count: 1,
        ..RankedQuery::new(product, &Filter::ANY)
    }
}

#[tokio::test]
async fn many_queries_of_one_call_are_answered_in_their_order() {
    for_each_index(async |index| {
        make_ready(&index, now()).await;
        let [many, few, none] = ["many", "few", "none"].map(data::product);
        for (product, count) in [(&many, COMMENTS), (&few, 3)] {
            let mut edits = Vec::new();
            for rank in 0..count {
                let id = data::comment_id(&format!("{product}-{rank}"));
                let placement = data::placement(product, "en", 1 + rank % 5);
                edits.extend(data::index_comment(&id, &placement, created_at(rank)));
            }
            index.apply(&edits).await.unwrap();
        }
        let mut queries = Vec::new();
        let mut expected = Vec::new();
        for rank in 0..COMMENTS {
            queries.push(by_rank(&many, rank));
            expected.push(Some(created_at(rank)));
            queries.push(by_rank(&few, rank));
            expected.push(if rank < 3 {
                Some(created_at(rank))
            } else {
                None
            });
            queries.push(by_rank(&none, rank));
            expected.push(None);
        }
        let mut found = Vec::new();
        for answer in index.ranked(&queries, TABLE_ID, now()).await.unwrap() {
            let comments = answer.unwrap().comments;
            found.push(comments.first().map(|comment| comment.created_at));
        }
        assert_eq!(found, expected);
        let too_many = RankedQuery {
            count: RankedQuery::COUNT_MAX + 1,
            ..by_rank(&many, 0)
        };
        index
            .ranked(&[too_many], TABLE_ID, now())
            .await
            .unwrap_err();
    })
    .await;
}
