//! Stream records and shards.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::StreamSpecification;
use aws_sdk_dynamodbstreams::types::Record;
use functions::{Quarantine, invocation::batch_response};
use futures_util::FutureExt;
use itertools::Itertools;
use local_stack::event_source_mapping::{EventSourceMapping, Handler, MappingSettings};
use tokio::time::Instant;

use super::{Under, delete_request, indexed, key, put_request, with_text};
use crate::fixture::{
    WAIT_MAX,
    engine::{self, EngineKind},
    stores::Stream,
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
        vec!["INSERT", "MODIFY", "MODIFY", "MODIFY"],
        vec!["INSERT"],
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
    // Sequence numbers have 21 digits, DynamoDB's minimum. Numbers here all have the same length.
    let numbers = changes
        .iter()
        .map(|change| change.sequence_number.clone().unwrap())
        .collect_vec();
    assert!(
        numbers.iter().all(|number| number.len() == 21),
        "{numbers:?}"
    );
    assert!(
        numbers.iter().tuple_windows().all(|(a, b)| a < b),
        "{numbers:?}"
    );

    // Keys and images: pk a, sk 1, cd c, and a text of 1,000 bytes with its name.
    let keys = "pka".len() + "sk1".len();
    let size = i64::try_from(2 * keys + "cdc".len() + "text".len() + 1_000).unwrap();
    under.expect(changes[0].size_bytes.unwrap(), size + 74, size);
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
    under.expect(records.len(), 1, 0);
    under.finish().await;
}

#[tokio::test]
async fn a_mapping_reads_a_closed_shard_to_its_end() {
    let under = Under::start().await;
    let expected = (0..5).map(|number| format!("a{number}")).collect_vec();
    for pk in &expected {
        under.put(key(pk, "PRODUCT#p/~/~")).await.unwrap();
    }
    if engine::kind() == EngineKind::DynamoDbLocal {
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
    let (mut state, asked) = (mapping.state(), Instant::now());
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
