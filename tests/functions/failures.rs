//! How a handler reacts when a store fails a call:
//!
//! - It retries a temporary error while it has time, and then reports the records.
//! - It reports at once an error that only an operator can fix.
//! - It puts a poison record into quarantine with the reason, and continues with the rest.
//!
//! What a handler reports too often, the local stack's mapping puts into quarantine.

use std::time::Duration;

use aws_lambda_events::dynamodb::EventRecord;
use functions::{invocation::Handled, metrics::Metric};
use local_stack::event_source_mapping::MappingSettings;
use page_indexer::PageIndexer;
use redis_index::RedisIndexConfig;
use serde_json::{Value, json};
use stream_writer::StreamWriter;
use table::{NewComment, Table, TableConfig};

use crate::fixture::{
    WAIT_MAX,
    data::{self, PRODUCT},
    invariants::Contents,
    mappings::{Mappings, handler},
    redis_server,
    stores::{INVOCATION, Stores, event},
};

const _: crate::Engines = crate::Engines::Both;

const SHORT: Duration = Duration::from_millis(600);

fn new_comment(number: u64) -> NewComment {
    NewComment {
        product: data::product(PRODUCT),
        ..data::varied_comment(number)
    }
}

/// Creates comments, and returns the records of their creations.
async fn create(stores: &Stores, numbers: std::ops::Range<u64>) -> Vec<EventRecord> {
    let before = stores.records().await.len();
    for number in numbers {
        stores
            .table
            .create_comment(new_comment(number), None)
            .await
            .unwrap();
    }
    stores.records().await.split_off(before)
}

fn sequence_numbers(records: &[EventRecord]) -> Vec<String> {
    records
        .iter()
        .map(|record| record.change.sequence_number.clone().unwrap())
        .collect()
}

/// The sequence numbers that a handler reports for retry.
fn reported(handled: &Handled) -> Vec<String> {
    let failures = &handled.response.batch_item_failures;
    failures
        .iter()
        .map(|failure| failure.item_identifier.clone().unwrap())
        .collect()
}

#[tokio::test]
async fn a_handler_waits_for_a_redis_that_has_become_a_replica_or_is_full() {
    for (refuse, take_again) in [
        // Nothing listens there. A replica without its master answers, but refuses writes.
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    ] {
        let (redis, stores) = Stores::start_on_own_redis().await;
        let first = create(&stores, 0..2).await;
        stores.deliver(&first).await;
        let second = create(&stores, 2..5).await;

        redis.ask::<()>(refuse).await;
        // Answers take at most a tenth of a second, so a short invocation has time for several
        // attempts.
        let impatient = RedisIndexConfig {
            timeout: Duration::from_millis(100),
            ..stores.redis().clone()
        };
        let index = redis_index::connect(&impatient).unwrap();
        let indexer = PageIndexer::new(index, stores.quarantine());
        let deadline = tokio::time::Instant::now() + SHORT;
        let indexed = indexer.handle(&event(&second), deadline).await;
        assert_eq!(reported(&indexed), sequence_numbers(&second), "{refuse}");
        assert!(
            indexed.metrics.get(Metric::Retries) > 0,
            "{refuse}: it was not tried again"
        );
        assert_eq!(stores.quarantined_batches(), Vec::<Value>::new());

        // The reported records are delivered again. The server accepts them in the middle of the
        // invocation.
        let ([_, indexed], ()) = tokio::join!(
            stores.handle(&second, INVOCATION),
            redis.ask::<()>(take_again)
        );
        assert_eq!(reported(&indexed), Vec::<String>::new(), "{take_again}");
        stores.finish().await;
    }
}

#[tokio::test]
async fn an_error_that_only_an_operator_can_fix_is_reported_at_once() {
    let (redis, stores) = Stores::start_on_own_redis().await;
    let records = create(&stores, 0..4).await;
    let deadline = tokio::time::Instant::now() + INVOCATION;

    // The table does not exist.
    let config = TableConfig::new("no-such-table", Some(stores.engine_url()));
    let elsewhere = Table::connect(&config).await;
    let writer = StreamWriter::new(elsewhere, stores.quarantine(), 4);
    let fanned_out = writer.handle(&event(&records), deadline).await;
    // The user lacks the permission.
    redis
        .ask::<()>("ACL SETUSER reader on >secret ~* +@read +evalsha +script|load")
        .await;
    let url = redis
        .server
        .url()
        .replace("redis://", "redis://reader:secret@");
    let indexer = PageIndexer::new(stores.index_at(&url), stores.quarantine());
    let indexed = indexer.handle(&event(&records), deadline).await;

    for handled in [fanned_out, indexed] {
        assert_eq!(reported(&handled), sequence_numbers(&records));
        assert_eq!(
            handled.metrics.get(Metric::Retries),
            0,
            "trying again does not help"
        );
        assert_eq!(handled.metrics.get(Metric::ReportedForRetry), 4);
    }
    assert_eq!(
        stores.quarantined_batches(),
        Vec::<Value>::new(),
        "the records are good"
    );
    stores.finish().await;
}

/// Why a function put a batch into quarantine.
#[derive(Debug)]
struct Reason {
    function: String,
    condition: String,
    detail: String,
}

fn reasons(stores: &Stores) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for batch in stores.quarantined_batches() {
        let request = &batch["requestContext"];
        let response = &batch["responseContext"];
        reasons.push(Reason {
            function: request["functionArn"].as_str().unwrap().to_owned(),
            condition: request["condition"].as_str().unwrap().to_owned(),
            detail: response["functionError"].as_str().unwrap().to_owned(),
        });
    }
    reasons
}

#[tokio::test]
async fn a_rejected_duplicate_goes_to_quarantine_and_all_others_are_written() {
    let stores = Stores::start().await;
    let mut records = create(&stores, 0..2).await;
    records.extend(create(&stores, 2..3).await);
    let id = &new_comment(2).id;
    stores.make_too_large_for_some_duplicates(id).await;
    records = [stores.records().await, create(&stores, 3..5).await].concat();

    let writer = StreamWriter::new(stores.table.clone(), stores.quarantine(), 4);
    let deadline = tokio::time::Instant::now() + INVOCATION;
    let handled = writer.handle(&event(&records), deadline).await;
    assert_eq!(
        reported(&handled),
        Vec::<String>::new(),
        "the shard continues"
    );
    let reasons = reasons(&stores);
    assert_eq!(reasons.len(), 2, "each record of the comment: {reasons:?}");
    for reason in reasons {
        assert_eq!(reason.function, "stream-writer");
        assert_eq!(reason.condition, "RejectedByStore");
        assert!(reason.detail.contains("ValidationException"), "{reason:?}");
    }
    let differences = Contents::read(&stores.table).await.of_duplicates;
    assert!(!differences.is_empty());
    assert!(differences.len() < 31, "{differences:?}");
    for difference in differences {
        assert!(difference.contains("missing: c2 "), "{difference}");
    }
    stores.table.delete_comment(id, |_| true).await.unwrap();
    stores.finish().await;
}

#[tokio::test]
async fn a_rejected_index_edit_goes_to_quarantine_and_all_others_are_applied() {
    let stores = Stores::start_with_redis().await;
    let mut records = create(&stores, 0..5).await;
    let other = data::product("other");
    for number in 5..9 {
        let comment = NewComment {
            product: other.clone(),
            ..new_comment(number)
        };
        stores.table.create_comment(comment, None).await.unwrap();
    }
    records.extend(stores.records().await.split_off(5));
    let key = stores.redis().key_name(&data::product(PRODUCT), "open");
    redis_server::ask::<()>(&stores.redis().url, &format!("SET {key} text")).await;
    let [_, indexed] = stores.handle(&records, INVOCATION).await;
    assert_eq!(
        reported(&indexed),
        Vec::<String>::new(),
        "the shard continues"
    );
    assert_eq!(indexed.metrics.get(Metric::Quarantined), 5);
    assert_eq!(indexed.metrics.get(Metric::Writes), 4);
    let reasons = reasons(&stores);
    assert_eq!(reasons.len(), 5);
    for reason in reasons {
        assert_eq!(reason.function, "page-indexer");
        assert_eq!(reason.condition, "RejectedByStore");
        assert!(reason.detail.contains("WRONGTYPE"), "{reason:?}");
    }
    redis_server::ask::<()>(&stores.redis().url, &format!("DEL {key}")).await;
    stores.finish().await;
}

#[tokio::test]
async fn a_batch_that_fails_too_often_goes_to_quarantine_whole() {
    let stores = Stores::start().await;
    let records = create(&stores, 0..3).await;
    let failing = handler((), async |(), _, _| {
        serde_json::from_value(json!({ "batchItemFailures": [{ "itemIdentifier": "" }] })).unwrap()
    });
    let settings = MappingSettings {
        maximum_retry_attempts: 1,
        ..MappingSettings::STREAM_WRITER
    };
    let mut mappings = Mappings::default();
    mappings.start(&stores, stream_writer::FUNCTION, settings, failing);
    mappings.finish(WAIT_MAX).await;
    let mut numbers = Vec::new();
    for batch in stores.quarantined_batches() {
        assert_eq!(
            batch["requestContext"]["condition"], "RetryAttemptsExhausted",
            "{batch}"
        );
        let payload: Value = serde_json::from_str(batch["payload"].as_str().unwrap()).unwrap();
        for record in payload["Records"].as_array().unwrap() {
            let number = &record["dynamodb"]["SequenceNumber"];
            numbers.push(number.as_str().unwrap().to_owned());
        }
    }
    numbers.sort();
    assert_eq!(numbers, sequence_numbers(&records));
    stores.finish().await;
}
