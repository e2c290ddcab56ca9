//! Stream records and shards.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::StreamSpecification;
use aws_sdk_dynamodbstreams::{
    Client,
    types::{Record, ShardIteratorType},
};
use functions::{Quarantine, invocation::batch_response};
use futures_util::FutureExt;
use itertools::Itertools;
use local_stack::event_source_mapping::{EventSourceMapping, Handler, MappingSettings};
use table::Table;
use tokio::{sync::watch, task::JoinSet, time::Instant};

use super::{Difference, Under, delete_request, indexed, key, put_request, with_text};
use crate::fixture::{
    WAIT_MAX,
    engine::{self, EngineKind},
    stores::Stream,
    wait_for,
};

fn names(records: &[Record]) -> Vec<&str> {
    records
        .iter()
        .map(|record| record.event_name.as_ref().unwrap().as_str())
        .collect()
}

#[tokio::test]
async fn a_write_that_changes_nothing_leaves_no_record() {
    let under = Under::start().await;
    let item = indexed("a", "1", "c");
    under.put(item.clone()).await.unwrap();
    under.put(item.clone()).await.unwrap();
    under
        .client()
        .transact_write_items()
        .transact_items(under.put_action(item.clone(), None))
        .send()
        .await
        .unwrap();
    under
        .write_batch(vec![put_request(item), delete_request(key("nowhere", "1"))])
        .await
        .unwrap();
    let records = under.stream.every_record().await;
    under.expect(
        names(&records),
        &Difference {
            documented: Some(vec!["INSERT"]),
            embedded: vec!["INSERT", "MODIFY", "MODIFY", "MODIFY"],
            ministack: vec!["INSERT"],
        },
    );
    under.finish().await;
}

#[tokio::test]
async fn records_stand_in_the_order_of_the_changes_with_both_images() {
    let under = Under::start().await;
    for bytes in [1_000, 500] {
        under
            .put(with_text(indexed("a", "1", "c"), bytes))
            .await
            .unwrap();
    }
    under.delete("a").await;
    let pks = ["x5", "x3", "x9", "x1"];
    let actions = pks
        .iter()
        .map(|pk| under.put_action(key(pk, "1"), None))
        .collect_vec();
    under
        .client()
        .transact_write_items()
        .set_transact_items(Some(actions))
        .send()
        .await
        .unwrap();

    let records = under.stream.every_record().await;
    assert_eq!(names(&records)[..3], ["INSERT", "MODIFY", "REMOVE"]);
    let changes = records
        .iter()
        .map(|record| record.dynamodb.as_ref().unwrap())
        .collect_vec();
    let images = changes
        .iter()
        .map(|change| (change.old_image.is_some(), change.new_image.is_some()));
    assert_eq!(
        images.take(3).collect_vec(),
        [(false, true), (true, true), (true, false)]
    );
    let last = changes[3..]
        .iter()
        .map(|change| change.keys.as_ref().unwrap()["pk"].as_s().unwrap());
    assert_eq!(last.collect_vec(), pks);
    // A sequence number has 21 to 40 digits (API reference, StreamRecord). Numbers here all have
    // the same length.
    let numbers = changes
        .iter()
        .map(|change| change.sequence_number.clone().unwrap())
        .collect_vec();
    let lengths = numbers.iter().map(String::len).unique().collect_vec();
    assert_eq!(lengths.len(), 1, "{numbers:?}");
    assert!((21..=40).contains(&lengths[0]), "{numbers:?}");
    assert!(
        numbers.iter().tuple_windows().all(|(a, b)| a < b),
        "{numbers:?}"
    );

    // Keys and images: pk a, sk 1, cd c, and a text of 1,000 bytes with its name.
    let keys = "pka".len() + "sk1".len();
    let size = i64::try_from(2 * keys + "cdc".len() + "text".len() + 1_000).unwrap();
    under.expect(
        changes[0].size_bytes.unwrap(),
        &Difference {
            documented: None,
            embedded: size + 74,
            ministack: 0,
        },
    );
    under.finish().await;
}

const WRITERS: usize = 16;
const RECORDS: usize = 5_000;

async fn put_all(table: Table, writer: usize) {
    for number in (writer..RECORDS).step_by(WRITERS) {
        let put = table.client().put_item().table_name(table.name());
        let item = key(&format!("i{number}"), "1");
        put.set_item(Some(item)).send().await.unwrap();
    }
}

async fn oldest_iterators(stream: &Stream) -> Vec<String> {
    let describe = stream.client.describe_stream();
    let described = describe
        .stream_arn(&stream.stream_arn)
        .send()
        .await
        .unwrap();
    let mut iterators = Vec::new();
    for shard in described.stream_description.unwrap().shards.unwrap() {
        let iterator = stream
            .client
            .get_shard_iterator()
            .stream_arn(&stream.stream_arn)
            .set_shard_id(shard.shard_id)
            .shard_iterator_type(ShardIteratorType::TrimHorizon);
        iterators.extend(iterator.send().await.unwrap().shard_iterator);
    }
    iterators
}

/// Follows the shards of a stream, and sends on the partition key of each record.
async fn follow(client: Client, mut iterators: Vec<String>, seen: watch::Sender<Vec<String>>) {
    while !iterators.is_empty() {
        let mut next_iterators = Vec::new();
        for iterator in iterators {
            let get = client.get_records().shard_iterator(iterator);
            let answer = get.send().await.unwrap();
            for record in answer.records() {
                let keys = record.dynamodb.as_ref().unwrap().keys.as_ref().unwrap();
                let pk = keys["pk"].as_s().unwrap().clone();
                seen.send_modify(|seen| seen.push(pk));
            }
            next_iterators.extend(answer.next_shard_iterator);
        }
        iterators = next_iterators;
    }
}

/// An engine may number its records before it publishes them. Then a tail passes over some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_of_the_stream_sees_every_record_of_concurrent_writers() {
    let under = Under::start().await;
    let iterators = oldest_iterators(&under.stream).await;
    let (sender, seen) = watch::channel(Vec::new());
    let tail = tokio::spawn(follow(under.stream.client.clone(), iterators, sender));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(put_all(under.table.clone(), writer));
    }
    writers.join_all().await;
    wait_for("every record", async || {
        let count = seen.borrow().len();
        if count < RECORDS {
            Err(format!("{count} of {RECORDS} records"))
        } else {
            Ok(())
        }
    })
    .await;
    tail.abort();
    let written = (0..RECORDS).map(|number| format!("i{number}")).sorted();
    let seen = seen.borrow().iter().cloned().sorted().collect_vec();
    assert_eq!(seen, written.collect_vec());
    under.finish().await;
}

#[tokio::test]
async fn a_recreated_table_has_its_own_stream() {
    let under = Under::start().await;
    under.put(key("a", "1")).await.unwrap();
    under
        .client()
        .delete_table()
        .table_name(under.name())
        .send()
        .await
        .unwrap();
    let stream_arn = under
        .table
        .create_if_missing()
        .await
        .unwrap()
        .stream_arn
        .unwrap();
    let records = Stream::new(&under.engine.url(), stream_arn)
        .await
        .every_record()
        .await;
    under.expect(
        records.len(),
        &Difference {
            documented: Some(0),
            embedded: 1,
            ministack: 0,
        },
    );
    under.finish().await;
}

#[tokio::test]
async fn a_mapping_reads_a_closed_shard_to_its_end() {
    let under = Under::start().await;
    let expected = (0..5).map(|number| format!("a{number}")).collect_vec();
    for pk in &expected {
        under.put(key(pk, "PRODUCT#p/~/~")).await.unwrap();
    }
    if engine::kind() == EngineKind::Ministack {
        // Disabling a stream closes its shards. The embedded engine forgets the stream.
        let disabled = StreamSpecification::builder()
            .stream_enabled(false)
            .build()
            .unwrap();
        let update = under
            .client()
            .update_table()
            .table_name(under.name())
            .stream_specification(disabled);
        update.send().await.unwrap();
    }
    let delivered = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&delivered);
    let handler: Handler = Arc::new(move |event, _| {
        let sequence_numbers = event
            .records
            .into_iter()
            .map(|record| record.change.sequence_number.unwrap());
        kept.lock().unwrap().extend(sequence_numbers);
        async { batch_response(Vec::new()) }.boxed()
    });
    let folder = tempfile::tempdir().unwrap();
    let mapping = EventSourceMapping::new(
        "tested",
        MappingSettings::STREAM_WRITER,
        under.stream.client.clone(),
        under.stream.stream_arn.clone(),
        handler,
        Quarantine::Folder(folder.path().to_owned()),
        None,
    );
    let mut state = mapping.state();
    let asked = Instant::now();
    let caught_up = state.wait_for(|state| state.caught_up_at.is_some_and(|at| at > asked));
    tokio::select! {
        () = mapping.run() => {}
        caught_up = tokio::time::timeout(WAIT_MAX, caught_up) => drop(caught_up.expect("the mapping catches up").unwrap()),
    }
    let records = under.stream.every_record().await;
    let numbers = records
        .into_iter()
        .map(|record| record.dynamodb.unwrap().sequence_number.unwrap())
        .sorted();
    assert_eq!(
        numbers.collect_vec(),
        delivered
            .lock()
            .unwrap()
            .iter()
            .cloned()
            .sorted()
            .collect_vec()
    );
    assert_eq!(delivered.lock().unwrap().len(), expected.len());
    under.finish().await;
}
