//! A redelivery of the recorded stream from any record to its end ends in the same state, in any batching and with
//! invocations cut in the middle.

use std::collections::BTreeMap;

use aws_lambda_events::dynamodb::EventRecord;
use model::{Comment, Status, record::decode_batch};
use rand::{
    RngExt, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom, IteratorRandom, SliceRandom},
};
use table::{CommentPatch, Created, NewComment};

use crate::fixture::{
    data,
    stores::{INVOCATION, Stores},
};

const CHANGES: usize = 220;

/// Few comments, so that each has a long history.
const COMMENTS: u64 = 24;

/// Number of redeliveries, each from a different record.
const DELIVERIES: usize = 5;

/// Writes a random history: it creates, changes, publishes, hides and deletes comments, and creates them again. It also
/// changes those of an earlier history. Returns how often a comment that was there got another status.
pub(crate) async fn write_history(stores: &Stores, random: &mut StdRng, changes: usize) -> usize {
    let mut alive: BTreeMap<u64, Comment> = BTreeMap::new();
    for number in 0..COMMENTS {
        let there = stores.table.comment(&data::comment_id(&format!("c{number}"))).await.unwrap();
        alive.extend(there.map(|comment| (number, comment)));
    }
    let mut transitions = 0;
    for change in 0..changes {
        let number = random.random_range(0..COMMENTS);
        let language = data::language(["en", "ko", "fr"].choose(random).unwrap());
        let rating = data::rating(random.random_range(1..=5));
        let Some(comment) = alive.get_mut(&number) else {
            let text = data::body(&format!("Body {change}"));
            let status = Some(another_status(Status::Hidden, random));
            let comment = NewComment { language, rating, status, text, ..data::varied_comment(number) };
            match stores.table.create_comment(comment, None).await.unwrap() {
                Created::New(comment) | Created::Before(comment) => alive.insert(number, comment),
            };
            continue;
        };
        let mut patch = CommentPatch::default();
        match random.random_range(0..9) {
            0 => {
                stores.table.delete_comment(&comment.id, None).await.unwrap();
                alive.remove(&number);
                continue;
            }
            1..5 => patch.status = Some(another_status(comment.status, random)),
            5 => patch.rating = Some(rating),
            6 => patch.language = Some(language),
            7 => (patch.rating, patch.language) = (Some(rating), Some(language)),
            _ => patch.body = Some(format!("Body {change}")),
        }
        let before = comment.status;
        *comment = stores.table.patch_comment(&comment.id, None, &patch).await.unwrap();
        transitions += usize::from(comment.status != before);
    }
    transitions
}

/// A status other than this. Most comments are published.
fn another_status(status: Status, random: &mut StdRng) -> Status {
    let is_shown = !status.is_published() && random.random_range(0..4) > 0;
    let others = Status::ALL.into_iter().filter(|other| *other != status && other.is_published() == is_shown);
    others.choose(random).unwrap()
}

pub(crate) async fn deliver(stores: &Stores, records: &[EventRecord], random: &mut StdRng) {
    let mut left = records;
    while !left.is_empty() {
        let (batch, rest) = left.split_at(random.random_range(1..=40).min(left.len()));
        for answer in stores.deliver(batch).await {
            assert!(answer.batch_item_failures.is_empty(), "{answer:?}");
        }
        left = rest;
    }
}

#[tokio::test]
async fn redelivering_from_any_record_to_the_end_in_any_batching_changes_nothing() {
    let mut random = StdRng::seed_from_u64(31);
    let stores = Stores::start().await;
    write_history(&stores, &mut random, CHANGES).await;
    let records = stores.records().await;
    deliver(&stores, &records, &mut random).await;
    stores.assert_invariants().await;
    for _ in 0..DELIVERIES {
        let from = random.random_range(0..records.len());
        deliver(&stores, &records[from..], &mut random).await;
        stores.assert_invariants().await;
    }
    stores.finish().await;
}

/// Does a part of a handler's work on a batch, like a dying handler: some of the calls, in any order because they run
/// in parallel, and the first edits.
async fn deliver_in_part(stores: &Stores, batch: &[EventRecord], random: &mut StdRng) {
    let changes = decode_batch(batch).changes;
    let deadline = tokio::time::Instant::now() + INVOCATION;
    let mut calls = stream_writer::plan_calls(&changes);
    calls.shuffle(random);
    calls.truncate(random.random_range(0..=calls.len()));
    for call in calls {
        assert!(stores.table.write_duplicates(call, deadline).await.is_whole());
    }
    let mut edits = page_indexer::plan_edits(&changes);
    edits.truncate(random.random_range(0..=edits.len()));
    stores.index.apply(&edits).await.unwrap();
}

#[tokio::test]
async fn the_next_delivery_completes_an_invocation_that_was_cut_in_the_middle() {
    let mut random = StdRng::seed_from_u64(32);
    let stores = Stores::start().await;
    write_history(&stores, &mut random, CHANGES).await;
    let records = stores.records().await;
    // Everything before this record is done. No later record has been delivered completely since.
    let (mut done, mut cut) = (0, 0);
    while done < records.len() {
        // The service restarts at or before the first record that is not done.
        let from = random.random_range(done.saturating_sub(6)..=done);
        let batch = &records[from..(from + random.random_range(1..=30)).min(records.len())];
        if random.random_range(0..2) == 0 {
            deliver_in_part(&stores, batch, &mut random).await;
            (done, cut) = (from, cut + 1);
        } else {
            deliver(&stores, batch, &mut random).await;
            done = from + batch.len();
        }
    }
    assert!(cut > 3, "only {cut} invocations were cut, so little was tried");
    stores.assert_invariants().await;
    stores.finish().await;
}
