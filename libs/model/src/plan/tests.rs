//! Checks the batch rule: plans as data, and replays of random histories in random batchings.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use aws_lambda_events::dynamodb::EventRecord;
use expect_test::expect;
use itertools::Itertools;
use proptest::prelude::*;
use serde_dynamo::{AttributeValue, Item};

use super::{DuplicateWrite, index_edits, plan_fan_out, plan_index_edits};
use crate::{
    comment::{Comment, RankEntry},
    filter::BaseSet,
    id::CommentId,
    item::{
        Image,
        tests::{comment, primary_item},
    },
    record::{CommentChange, decode_batch, decode_record},
    revision::Revision,
    status::Status,
    timestamp::Timestamp,
};

/// The body of a comment whose item lacks a revision.
const INVALID: &str = "Invalid.";

fn stored(comment: &Comment) -> Item {
    let mut item = primary_item(comment).into_inner();
    if comment.text.body.as_deref() == Some(INVALID) {
        item.remove("revision");
    }
    item.into()
}

fn record(sequence_number: usize, old: Option<&Comment>, new: Option<&Comment>) -> EventRecord {
    let either = old.or(new).expect("a record has an image");
    let mut keys = primary_item(either).into_inner();
    keys.retain(|name, _| name == "pk" || name == "sk");
    let mut change = serde_json::json!({
        "ApproximateCreationDateTime": 1_709_208_000.0,
        "Keys": keys,
        "SequenceNumber": format!("{sequence_number:021}"),
        "SizeBytes": 512,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    });
    for (name, image) in [("OldImage", old), ("NewImage", new)] {
        if let Some(image) = image {
            change[name] = serde_json::to_value(stored(image)).unwrap();
        }
    }
    let event_name = match (old, new) {
        (None, _) => "INSERT",
        (_, None) => "REMOVE",
        _ => "MODIFY",
    };
    serde_json::from_value(serde_json::json!({
        "awsRegion": "eu-central-1", "eventID": sequence_number.to_string(), "eventName": event_name,
        "eventSource": "aws:dynamodb", "eventVersion": "1.1", "dynamodb": change,
    }))
    .unwrap()
}

/// Turns a text into the records of a stream, one line a step. `item language rating` writes an
/// item, `item -` deletes it, `item language rating !` writes an invalid item, and `item language
/// rating pending` (or `hidden`) one that is not published. An item is a comment's id, with `@` and
/// a product unless that is `p`.
fn records(script: &str) -> Vec<EventRecord> {
    let mut state: BTreeMap<String, Comment> = BTreeMap::new();
    let mut records = Vec::new();
    for (step, line) in script.lines().enumerate() {
        let (item, rest) = line.trim().split_once(' ').expect("item and state");
        let (id, product) = item.split_once('@').unwrap_or((item, "p"));
        let old = state.get(item).cloned();
        let new = rest.split_once(' ').map(|(language, rating)| {
            let (rating, mark) = rating.split_once(' ').unwrap_or((rating, "published"));
            let mut new = comment(id, product, language, rating.parse().unwrap());
            // So another rating is another creation time, too.
            let rating_ms = i64::from(new.rating.get());
            new.created_at = new.created_at.plus_ms(rating_ms);
            let is_invalid = mark == "!";
            new.status = if is_invalid {
                Status::Published
            } else {
                Status::parse(mark).unwrap()
            };
            new.revision = Revision::after(
                old.as_ref().map(|c| c.revision),
                Timestamp::from_epoch_ms(0).unwrap(),
                1,
            );
            if is_invalid {
                new.text.body = Some(INVALID.to_owned());
            }
            new
        });
        match &new {
            Some(new) => state.insert(item.to_owned(), new.clone()),
            None => state.remove(item),
        };
        if old.is_some() || new.is_some() {
            records.push(record(step, old.as_ref(), new.as_ref()));
        }
    }
    records
}

fn changes(records: &[EventRecord]) -> Vec<CommentChange<'_>> {
    let batch = decode_batch(records);
    let images = records.iter().map(|record| &record.change.new_image);
    let invalid = images
        .positions(|image| !image.is_empty() && !image.contains_key("revision"))
        .collect_vec();
    assert_eq!(
        batch
            .malformed
            .iter()
            .map(|(index, _)| *index)
            .collect_vec(),
        invalid,
        "and no others"
    );
    batch.changes
}

fn planned(script: &str) -> String {
    let records = records(script);
    let lines = changes(&records).into_iter().map(|change| {
        let (puts, deletes): (Vec<_>, Vec<_>) = plan_fan_out(&change)
            .into_iter()
            .partition(|write| matches!(write, DuplicateWrite::Put { .. }));
        let edits = plan_index_edits(&change);
        let add = set_names(edits.iter().flat_map(|edit| &edit.add));
        let remove = set_names(edits.iter().flat_map(|edit| &edit.remove));
        format!(
            "{}: put {}, delete {}; in [{add}], not in [{remove}]",
            change.id,
            puts.len(),
            deletes.len()
        )
    });
    lines.collect_vec().join("\n")
}

fn set_names<'edit>(sets: impl Iterator<Item = &'edit BaseSet>) -> String {
    sets.map(|set| set.to_string().replace("PRODUCT#p:", ""))
        .join(" ")
}

fn entry(rating: u64, ms: i64) -> RankEntry {
    RankEntry {
        placement: comment("c1", "p", "en", rating).placement(),
        created_at: Timestamp::from_epoch_ms(ms).unwrap(),
    }
}

#[test]
fn an_edit_names_the_creation_times_of_the_entries_that_go() {
    for (seen, last, expected) in [
        (vec![entry(4, 1)], Some(entry(4, 1)), vec![]),
        (vec![entry(4, 1), entry(5, 1)], Some(entry(5, 1)), vec![1]),
        (vec![entry(4, 1), entry(4, 2)], Some(entry(4, 2)), vec![1]),
        (vec![entry(4, 1), entry(5, 2)], None, vec![1, 2]),
    ] {
        let id = CommentId::parse("c1").unwrap();
        let edits = index_edits(&id, last.as_ref(), &seen);
        let times = edits[0].remove_at.iter().map(|time| time.epoch_ms());
        assert_eq!(times.collect_vec(), expected, "{seen:?} {last:?}");
    }
}

#[test]
fn every_key_of_the_last_image_is_written_and_every_other_key_is_deleted() {
    for (change, script, expected) in [
        (
            "a new comment has 31 duplicates and two rank entries",
            "c1 en 4",
            expect!["c1: put 31, delete 0; in [~/4 en/4], not in []"],
        ),
        (
            "another rating deletes only the keys that differ",
            "c1 en 4\nc1 en 5",
            expect!["c1: put 31, delete 16; in [~/5 en/5], not in [~/4 en/4]"],
        ),
        (
            "another language deletes the keys of the old one",
            "c1 en 4\nc1 ko 4",
            expect!["c1: put 31, delete 16; in [~/4 ko/4], not in [en/4]"],
        ),
        (
            "changes that cancel out still clean up in between",
            "c1 en 4\nc1 en 1\nc1 en 4\nc2 en 1\nc2 -",
            expect![[r#"
                c1: put 31, delete 16; in [~/4 en/4], not in [~/1 en/1]
                c2: put 0, delete 31; in [], not in [~/1 en/1]"#]],
        ),
        (
            "a late delete in one product spares the item in another: nothing orders records of different items",
            "c1@p en 4\nc1@q en 4\nc1@p -",
            expect![[r#"
                c1: put 0, delete 31; in [], not in [~/4 en/4]
                c1: put 31, delete 0; in [PRODUCT#q:~/4 PRODUCT#q:en/4], not in []"#]],
        ),
        (
            "an unpublished item implies nothing, and what it implied before is deleted",
            "c1 en 4\nc1 en 4 hidden\nc2 en 4 pending\nc2 ko 4 hidden\nc3 en 4 pending\nc3 ko 5",
            expect![[r#"
                c1: put 0, delete 31; in [], not in [~/4 en/4]
                c3: put 31, delete 0; in [~/5 ko/5], not in []"#]],
        ),
        (
            "an invalid item implies nothing, and what it implied before is deleted",
            "c1 en 4\nc1 en 4 !\nc2 en 4 !\nc3 en 4 !\nc3 ko 5",
            expect![[r#"
                c1: put 0, delete 31; in [], not in [~/4 en/4]
                c2: put 0, delete 0; in [], not in []
                c3: put 31, delete 0; in [~/5 ko/5], not in []"#]],
        ),
    ] {
        println!("{change}");
        expected.assert_eq(&planned(script));
    }
}

#[test]
fn an_item_that_became_invalid_is_reported_once_with_its_key() {
    let records = records("c1 en 4\nc1 en 4 !\nc1 -");
    let malformed = decode_record(&records[1])
        .unwrap()
        .unwrap()
        .invalid
        .unwrap();
    expect![[r#"malformed item: pk "COMMENT#c1", sk "PRODUCT#p/~/~", attribute revision: is missing or no text"#]]
        .assert_eq(&malformed.to_string());
    assert_eq!(
        decode_record(&records[2]),
        Ok(None),
        "nothing is left to delete"
    );
}

#[test]
fn records_that_are_not_of_primary_items_change_nothing() {
    let mut duplicate = record(0, None, Some(&comment("c1", "p", "en", 4)));
    let key = comment("c1", "p", "en", 4)
        .placement()
        .duplicate_keys()
        .next()
        .unwrap();
    let item = Image::of_primary(&primary_item(&comment("c1", "p", "en", 4)))
        .unwrap()
        .duplicate(&key);
    duplicate
        .change
        .keys
        .insert("sk".to_owned(), item["sk"].clone());
    duplicate.change.new_image = item;
    assert_eq!(decode_record(&duplicate), Ok(None));

    let same = comment("c1", "p", "en", 4);
    assert_eq!(
        decode_record(&record(0, Some(&same), Some(&same))),
        Ok(None)
    );
}

#[test]
fn a_record_that_lacks_an_image_is_malformed() {
    let new = comment("c1", "p", "en", 4);
    let mut keys_only = record(0, None, Some(&new));
    keys_only.change.new_image = Item::default();
    assert!(decode_record(&keys_only).is_err());

    let mut modify = record(0, None, Some(&new));
    modify.event_name = "MODIFY".to_owned();
    assert!(decode_record(&modify).is_err());

    let mut foreign = record(0, None, Some(&new));
    foreign.change.new_image = primary_item(&comment("c2", "p", "en", 4));
    assert!(decode_record(&foreign).is_err());
}

/// Duplicates and base-set entries: what the two handlers keep. Entries are found by their creation
/// times alone, as in Redis.
#[derive(Debug, Default, Clone, PartialEq)]
struct Derived {
    duplicates: BTreeMap<(String, String), Vec<(String, String)>>,
    entries: BTreeMap<(String, String), BTreeSet<(Timestamp, String)>>,
}

impl Derived {
    /// Applies a batch; `cut` limits how many of its writes happen, as when the handler dies in the
    /// middle.
    fn apply(&mut self, batch: &[EventRecord], cut: usize) {
        let batch = changes(batch);
        let writes: Vec<DuplicateWrite> = batch.iter().flat_map(plan_fan_out).collect();
        assert!(
            writes.iter().map(DuplicateWrite::key).all_unique(),
            "a key is written twice in one batch"
        );
        for write in writes.into_iter().take(cut) {
            let key = (
                write.key().id.to_string(),
                write.key().filter_key.to_string(),
            );
            match write {
                DuplicateWrite::Put { item, .. } => {
                    let content = item
                        .into_inner()
                        .into_iter()
                        .map(|(name, value)| (name, format!("{value:?}")));
                    self.duplicates.insert(key, content.sorted().collect())
                }
                DuplicateWrite::Delete { .. } => self.duplicates.remove(&key),
            };
        }
        for edit in batch.iter().flat_map(plan_index_edits).take(cut) {
            let of_comment = (edit.product.to_string(), edit.id.to_string());
            let entries = self.entries.entry(of_comment).or_default();
            entries.retain(|(time, _)| !edit.remove_at.contains(time));
            for set in &edit.add {
                entries.insert((edit.created_at.unwrap(), set.to_string()));
            }
        }
    }
}

/// How many items readers must find after a history: those whose last image is valid and published.
/// The decoding and the plans take no part in this.
fn visible(history: &[EventRecord]) -> usize {
    let last: BTreeMap<String, &Item> = history
        .iter()
        .map(|record| (format!("{:?}", item_of(record)), &record.change.new_image))
        .collect();
    last.values()
        .filter(|image| image.contains_key("cd") && image.contains_key("revision"))
        .count()
}

fn item_of(record: &EventRecord) -> [&AttributeValue; 2] {
    ["pk", "sk"].map(|name| &record.change.keys[name])
}

/// Reorders the records of different items; the records of each item stay in order.
fn mixed(history: &[EventRecord], draws: &[prop::sample::Index]) -> Vec<EventRecord> {
    let mut queues: BTreeMap<String, VecDeque<EventRecord>> = BTreeMap::new();
    for record in history {
        queues
            .entry(format!("{:?}", item_of(record)))
            .or_default()
            .push_back(record.clone());
    }
    let mut mixed = Vec::new();
    let mut draws = draws.iter().cycle();
    while !queues.is_empty() {
        let drawn = draws.next().expect("there are draws").index(queues.len());
        mixed.extend(queues.values_mut().nth(drawn).and_then(VecDeque::pop_front));
        queues.retain(|_, queue| !queue.is_empty());
    }
    mixed
}

fn histories() -> impl Strategy<Value = Vec<EventRecord>> {
    let state = prop_oneof![
        1 => (prop::sample::select(vec!["en", "ko"]), 4..=5_u8).prop_map(|(l, r)| format!("{l} {r} !")),
        2 => (prop::sample::select(vec!["en", "ko"]), 4..=5_u8, prop::sample::select(vec!["pending", "hidden"]))
            .prop_map(|(l, r, status)| format!("{l} {r} {status}")),
        4 => (prop::sample::select(vec!["en", "ko", "pt"]), 1..=5_u8).prop_map(|(l, r)| format!("{l} {r}")),
        1 => Just("-".to_owned()),
    ];
    let item = (0..4_u8, prop::sample::select(vec!["", "@q"]));
    prop::collection::vec((item, state), 1..40).prop_map(|steps| {
        records(
            &steps
                .iter()
                .map(|((id, product), state)| format!("c{id}{product} {state}"))
                .join("\n"),
        )
    })
}

proptest! {
    /// Only the order of each item's records matters.
    #[test]
    fn any_redelivery_in_any_order_of_items_and_any_batching_ends_in_the_same_state(
        history in histories(),
        draws in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
        last_batch_size in 1..12_usize,
        deliveries in prop::collection::vec((any::<prop::sample::Index>(), 1..12_usize, 0..5_usize, 0..80_usize), 0..4),
    ) {
        let mut expected = Derived::default();
        for one in &history {
            expected.apply(std::slice::from_ref(one), usize::MAX);
        }
        let visible = visible(&history);
        let history = mixed(&history, &draws);
        let mut actual = Derived::default();
        // Each delivery starts at or before the first record that is not done, and fails in the
        // middle of a batch.
        let mut done = 0;
        for (start, batch_size, whole_batches, cut) in deliveries {
            done = start.index(done + 1);
            for (number, batch) in history[done..].chunks(batch_size).enumerate() {
                if number == whole_batches {
                    actual.apply(batch, cut);
                    break;
                }
                actual.apply(batch, usize::MAX);
                done += batch.len();
            }
        }
        for batch in history[done..].chunks(last_batch_size) {
            actual.apply(batch, usize::MAX);
        }
        let entries: usize = actual.entries.values().map(BTreeSet::len).sum();
        prop_assert_eq!((actual.duplicates.len(), entries), (31 * visible, 2 * visible));
        prop_assert_eq!(actual.duplicates, expected.duplicates);
        for (comment, entries) in actual.entries {
            prop_assert_eq!(Some(&entries), expected.entries.get(&comment));
        }
    }
}
