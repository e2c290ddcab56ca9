//! Whatever the page index is made of, its markers protect it in the same way, and a scan returns everything.

use std::collections::BTreeMap;

use itertools::Itertools;
use model::{BaseSet, Filter, Order, ProductId, Timestamp, plan::IndexEdit};
use page_index::{ConfirmationTime, IndexPart, IndexPartition, IndexScanPosition, PageIndex, RankedQuery};
use process::now;

use crate::fixture::{
    data,
    page_indexes::for_each_index,
    redis_server::{TABLE_ID, make_ready},
};

const OTHER_TABLE: &str = "another-table";

/// Comments of the largest product: an index scan reads them in several steps.
const COMMENTS: u64 = 1_200;

async fn watermarks(index: &PageIndex) -> Vec<(IndexPartition, Timestamp)> {
    let marks = index.marks(TABLE_ID).await.unwrap();
    marks.into_iter().map(|(partition, mark)| (partition, mark.watermark)).collect()
}

async fn tokens(index: &PageIndex) -> Vec<(IndexPartition, String)> {
    let marks = index.marks(TABLE_ID).await.unwrap();
    marks.into_iter().map(|(partition, mark)| (partition, mark.token)).collect()
}

#[tokio::test]
async fn a_watermark_advances_only_from_the_value_that_was_read() {
    for_each_index(async |index| {
        let (before, later) = (now(), now().plus_ms(1_000));
        make_ready(&index, before).await;
        let (read, servers) = (watermarks(&index).await, index.server_identity().await.unwrap());
        assert_eq!(read.len(), index.partitions().count());

        let first = index.prepare_advance(TABLE_ID, &read, &servers).await.unwrap();
        let second = index.prepare_advance(TABLE_ID, &read, &servers).await.unwrap();
        assert_eq!(index.advance(first, later).await.unwrap(), [], "the second left its own nonce");
        assert_eq!(index.advance(second, later).await.unwrap().len(), read.len());
        assert!(watermarks(&index).await.iter().all(|(_, at)| *at == later));

        let outdated = index.prepare_advance(TABLE_ID, &read, &servers).await.unwrap();
        assert_eq!(index.advance(outdated, now()).await.unwrap(), []);
        let read = watermarks(&index).await;
        let foreign = index.prepare_advance(OTHER_TABLE, &read, &servers).await.unwrap();
        assert_eq!(index.advance(foreign, now()).await.unwrap(), []);
        // A rebuild has begun, or has also ended.
        for is_ended in [false, true] {
            let prepared = index.prepare_advance(TABLE_ID, &read, &servers).await.unwrap();
            let rebuild = index.begin_rebuild().await.unwrap();
            if is_ended {
                index.finish_rebuild(&rebuild, TABLE_ID, later).await.unwrap();
            }
            assert_eq!(index.advance(prepared, now()).await.unwrap(), []);
            make_ready(&index, later).await;
        }
        let prepared = index.prepare_advance(TABLE_ID, &read, &servers).await.unwrap();
        index.clear().await.unwrap();
        assert_eq!(index.advance(prepared, now()).await.unwrap(), [], "the markers are lost");
    })
    .await;
}

#[tokio::test]
async fn a_token_replaces_only_the_token_that_was_read() {
    for_each_index(async |index| {
        make_ready(&index, now()).await;
        let read = tokens(&index).await;
        let left = index.leave_token(TABLE_ID, &read, "one", ConfirmationTime::Unchanged).await.unwrap();
        assert_eq!(left, read.iter().map(|(partition, _)| (*partition, "one".to_owned())).collect_vec());
        assert_eq!(index.leave_token(TABLE_ID, &read, "two", ConfirmationTime::TakenAway).await.unwrap(), []);
        assert_eq!(index.leave_token(OTHER_TABLE, &left, "two", ConfirmationTime::TakenAway).await.unwrap(), []);
        assert!(index.readiness(TABLE_ID, now()).await.unwrap().iter().all(|(_, answer)| answer.is_ok()));

        let taken = index.leave_token(TABLE_ID, &left, "two", ConfirmationTime::TakenAway).await.unwrap();
        assert!(index.readiness(TABLE_ID, now()).await.unwrap().iter().all(|(_, answer)| answer.is_err()));
        let confirmed = index.leave_token(TABLE_ID, &taken, "three", ConfirmationTime::At(now())).await.unwrap();
        assert!(index.readiness(TABLE_ID, now()).await.unwrap().iter().all(|(_, answer)| answer.is_ok()));
        assert_eq!(tokens(&index).await, confirmed);
        index.begin_rebuild().await.unwrap();
        assert_eq!(index.leave_token(TABLE_ID, &confirmed, "four", ConfirmationTime::At(now())).await.unwrap(), []);
    })
    .await;
}

fn comments(product: &ProductId, count: u64) -> Vec<IndexEdit> {
    let edits = (0..count).flat_map(|number| {
        let placement = data::placement(product, ["en", "de"][usize::from(number % 7 == 0)], 1 + number % 5);
        data::index_comment(&data::comment_id(&format!("c{number}")), &placement, now())
    });
    edits.collect()
}

async fn scanned(index: &PageIndex) -> BTreeMap<ProductId, Vec<String>> {
    let mut position = index.begin_index_scan().await.unwrap();
    let mut members: BTreeMap<ProductId, Vec<String>> = BTreeMap::new();
    while let Some(part) = index.next_index_part(&mut position).await.unwrap() {
        if let IndexPart::Members(BaseSet { product, language: None, rating: None }, found) = part {
            members.entry(product).or_default().extend(found.into_iter().map(|(id, _)| id));
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
        let sizes = [("large", COMMENTS), ("a:b", 2), ("a:languages", 1), ("PRODUCT#x/~", 3), ("p", 500)];
        let mut expected = BTreeMap::new();
        for (product, count) in sizes.map(|(product, count)| (data::product(product), count)) {
            index.apply(&comments(&product, count)).await.unwrap();
            expected.insert(product, (0..count).map(|number| format!("c{number}")).sorted().collect_vec());
        }
        assert_eq!(scanned(&index).await, expected);
    })
    .await;
}

#[tokio::test]
async fn many_ranks_from_either_end_are_found_in_one_call() {
    for_each_index(async |index| {
        make_ready(&index, now()).await;
        // The second product has more ranks than one pipeline asks for.
        let [first, second, nobody] = ["p", "other 1", "nobody"].map(data::product);
        let at = |rank: u64| data::at_ms(data::CREATED_MS + i64::try_from(rank).unwrap());
        for (product, count) in [(&first, 3), (&second, COMMENTS)] {
            let edits = (0..count).flat_map(|rank| {
                let id = data::comment_id(&format!("{product}-{rank}").replace(' ', "-"));
                let placement = data::placement(product, ["en", "de"][usize::from(rank % 3 == 0)], 1 + rank % 5);
                data::index_comment(&id, &placement, at(rank))
            });
            index.apply(&edits.collect_vec()).await.unwrap();
        }
        let german = data::filter(Some("de"), None);
        let newest = |product, filter, skip| RankedQuery { skip, count: 1, ..RankedQuery::new(product, filter) };
        let oldest = |product, filter, skip| RankedQuery { order: Order::Oldest, ..newest(product, filter, skip) };
        let any = &Filter::ANY;
        let mut asked = vec![
            (oldest(&first, any, 0), Some(at(0))),
            (newest(&first, any, 0), Some(at(2))),
            (newest(&second, any, COMMENTS - 1), Some(at(0))),
            (oldest(&first, any, 2), Some(at(2))),
            (oldest(&first, any, 3), None),
            (newest(&first, any, 3), None),
            (newest(&nobody, any, 0), None),
            // Every third comment is in German, from the oldest on.
            (newest(&first, &german, 0), Some(at(0))),
            (oldest(&first, &german, 1), None),
            (oldest(&second, &german, 1), Some(at(3))),
        ];
        asked.extend((0..COMMENTS).map(|rank| (oldest(&second, any, rank), Some(at(rank)))));
        let (queries, expected): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let found = index.ranked(&queries, TABLE_ID, now()).await.unwrap().into_iter();
        let times = found.map(|answer| Some(answer.unwrap().comments.first()?.created_at));
        assert_eq!(times.collect_vec(), expected);
        let too_many = RankedQuery { count: RankedQuery::COUNT_MAX + 1, ..newest(&first, any, 0) };
        index.ranked(&[too_many], TABLE_ID, now()).await.unwrap_err();
    })
    .await;
}
