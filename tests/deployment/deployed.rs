//! Runs the deployed binaries: `stream-writer` and `page-indexer` as processes that are called
//! through the Lambda Runtime API, with events from the engine's stream.

use std::time::Duration;

use model::CommentText;
use serde_json::{Value, json};
use table::NewComment;

use crate::fixture::{
    data,
    function::{Function, SECRET, TIMEOUT, page_indexer_variables, stream_writer_variables, with},
    gate::{self, Gate},
    iam::{self, IamDoor},
    invariants::Contents,
    runtime_api::Outcome,
    s3::{BUCKET, S3},
    stores::Stores,
    unique_name,
};

const _: crate::Engines = crate::Engines::Both;

/// A near deadline, before which a function must give up on a store that is down.
const NEAR: Duration = Duration::from_secs(4);

fn comment(number: u64) -> NewComment {
    NewComment {
        text: CommentText {
            title: Some(format!("Title {SECRET}")),
            author: Some(SECRET.to_owned()),
            ..data::body(&format!("Body {number} {SECRET}"))
        },
        ..data::varied_comment(number)
    }
}

/// Creates comments, and returns the records of their creations.
async fn create(stores: &Stores, numbers: std::ops::Range<u64>) -> Vec<Value> {
    let before = stores.lambda_records().await.len();
    for number in numbers {
        stores
            .table
            .create_comment(comment(number), None)
            .await
            .unwrap();
    }
    stores.lambda_records().await.split_off(before)
}

fn sequence_number(record: &Value) -> String {
    record["dynamodb"]["SequenceNumber"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn sequence_numbers(records: &[Value]) -> Vec<String> {
    records.iter().map(sequence_number).collect()
}

/// A record without its images: a poison record.
fn broken(record: &Value) -> Value {
    let mut broken = record.clone();
    let change = broken["dynamodb"].as_object_mut().unwrap();
    change.retain(|name, _| !name.ends_with("Image"));
    let number = format!("{}7", sequence_number(record));
    change.insert("SequenceNumber".to_owned(), number.into());
    broken
}

async fn start_writer(stores: &Stores, settings: &[(&'static str, &str)]) -> Function {
    let variables = with(stream_writer_variables(stores), settings);
    Function::start("stream-writer", variables).await
}

async fn start_indexer(stores: &Stores, settings: &[(&'static str, &str)]) -> Function {
    let variables = with(page_indexer_variables(stores), settings);
    Function::start("page-indexer", variables).await
}

async fn start_both(stores: &Stores, settings: &[(&'static str, &str)]) -> [Function; 2] {
    [
        start_writer(stores, settings).await,
        start_indexer(stores, settings).await,
    ]
}

/// Delivers records. The function must report none of them for retry.
async fn deliver_whole(function: &Function, records: &[Value]) {
    assert_eq!(function.deliver(records).await, Vec::<String>::new());
}

/// Delivers the records after the first `delivered` ones to both functions. Returns how many are
/// delivered then.
async fn deliver_new(stores: &Stores, functions: &[Function; 2], delivered: usize) -> usize {
    let records = stores.lambda_records().await.split_off(delivered);
    assert!(!records.is_empty());
    for function in functions {
        deliver_whole(function, &records).await;
    }
    stores.assert_invariants().await;
    delivered + records.len()
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn inserts_changes_and_deletions_reach_both_stores_through_the_deployed_binaries() {
    let stores = Stores::start_with_redis().await;
    // As deployed: `page-indexer` logs in to Redis with the credentials that Lambda gives it,
    // without a password.
    let door = IamDoor::start(&stores.redis().url, &unique_name("page-indexer")).await;
    let of_lambda = [
        ("PAGEMARK_REDIS_URL", door.url.as_str()),
        ("PAGEMARK_REDIS_IAM", iam::CLUSTER),
        ("AWS_REGION", iam::REGION),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", iam::SECRET_KEY),
        ("AWS_SESSION_TOKEN", "a session/+=="),
    ];
    let functions = [
        start_writer(&stores, &[]).await,
        start_indexer(&stores, &of_lambda).await,
    ];
    create(&stores, 0..3).await;
    let delivered = deliver_new(&stores, &functions, 0).await;
    let id = data::comment_id("c1");
    stores
        .table
        .patch_comment(&id, |_| true, &data::rate(5))
        .await
        .unwrap();
    let delivered = deliver_new(&stores, &functions, delivered).await;
    stores.table.delete_comment(&id, |_| true).await.unwrap();
    deliver_new(&stores, &functions, delivered).await;
    assert_eq!(Contents::read(&stores.table).await.primary.len(), 2);
    assert_eq!(door.checked_tokens().await.len(), 1);
    for function in functions {
        function.finish().await;
    }
    stores.finish().await;
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn a_broken_record_is_quarantined_or_reported_and_its_neighbours_are_applied() {
    let stores = Stores::start_with_redis().await;
    let s3 = S3::start().await;
    let quarantine = format!("s3://{BUCKET}/deployed");
    let settings = [
        ("PAGEMARK_QUARANTINE", quarantine.as_str()),
        ("PAGEMARK_S3_URL", s3.url.as_str()),
    ];
    let mut records = create(&stores, 0..5).await;
    let broken = broken(&records[2]);
    records.insert(2, broken.clone());
    for function in start_both(&stores, &settings).await {
        // The second delivery stores nothing new.
        for _ in 0..2 {
            deliver_whole(&function, &records).await;
        }
        function.finish().await;
    }
    stores.assert_invariants().await;
    let objects = s3.objects().await;
    let [(of_indexer, _), (of_writer, _)] = &objects[..] else {
        panic!("{objects:?}")
    };
    // The service uses this layout: <prefix>/aws/lambda/<mapping>/YYYY/MM/DD/….
    assert!(
        of_indexer.starts_with("deployed/aws/lambda/page-indexer/20"),
        "{of_indexer}"
    );
    assert!(
        of_writer.starts_with("deployed/aws/lambda/stream-writer/20"),
        "{of_writer}"
    );
    for (_, put) in &objects {
        assert_eq!(put["requestContext"]["condition"], "MalformedRecord");
        assert_eq!(
            put["DDBStreamBatchInfo"]["startSequenceNumber"],
            sequence_number(&broken)
        );
        let payload: Value = serde_json::from_str(put["payload"].as_str().unwrap()).unwrap();
        assert_eq!(
            payload["Records"][0]["dynamodb"]["Keys"],
            broken["dynamodb"]["Keys"]
        );
    }
    // A bucket that refuses it.
    let settings = [
        ("PAGEMARK_QUARANTINE", "s3://no-such-bucket"),
        ("PAGEMARK_S3_URL", s3.url.as_str()),
    ];
    let writer = start_writer(&stores, &settings).await;
    let mut later = create(&stores, 5..8).await;
    later.insert(1, broken.clone());
    assert_eq!(writer.deliver(&later).await, [sequence_number(&broken)]);
    let ended = writer.finish().await;
    assert!(ended.stdout.contains("NoSuchBucket"), "{}", ended.stdout);
    let contents = Contents::read(&stores.table).await;
    assert_eq!(contents.duplicates, 8 * 31, "its neighbours are applied");
    stores.finish().await;
}

/// A function refuses what is not an event, and repeats nothing of it.
async fn assert_refuses(function: &Function, event: &str) {
    match function.invoke(event.to_owned(), TIMEOUT).await {
        Outcome::Error(error) => {
            assert!(error["errorType"].is_string(), "{event}: {error}");
            assert!(error["errorMessage"].is_string(), "{event}: {error}");
            assert!(
                !error.to_string().contains(SECRET),
                "a comment's text is in the answer: {error}"
            );
        }
        Outcome::Response(response) => panic!("{event} was taken for an event: {response}"),
    }
}

#[tokio::test]
async fn invalid_events_and_records_are_refused_and_no_log_has_their_text() {
    let stores = Stores::start_with_redis().await;
    let records = create(&stores, 0..3).await;
    // A text instead of a map. Neither the answer nor the log may repeat it.
    let mut misshapen = records[0].clone();
    misshapen["dynamodb"]["NewImage"]["comment_blob"] = SECRET.into();
    let nonsense = [
        String::new(),
        "{\"Records\": [".to_owned(),
        "null".to_owned(),
        "{}".to_owned(),
        json!(SECRET).to_string(),
        json!({ "Records": SECRET }).to_string(),
        json!({ "Records": [misshapen] }).to_string(),
    ];
    let mut poison = vec![broken(&records[1])];
    let mut misplaced = records[0].clone();
    for name in ["rating", "language", "cd"] {
        misplaced["dynamodb"]["NewImage"][name] =
            misplaced["dynamodb"]["NewImage"]["comment_blob"].clone();
        poison.push(misplaced.clone());
    }
    for function in start_both(&stores, &[("PAGEMARK_LOG", "trace")]).await {
        for event in &nonsense {
            assert_refuses(&function, event).await;
        }
        let with_poison = [&records[..], &poison].concat();
        assert_eq!(function.deliver(&with_poison).await.len(), 4);
        // The process continues.
        deliver_whole(&function, &records).await;
        // Checks the whole log.
        let ended = function.finish().await;
        let never = ended.logged("a record can never be processed");
        assert_eq!(never.len(), 4, "{}", ended.stdout);
        let errors = ended.stdout.matches("\"ERROR\"").count();
        assert_eq!(errors, nonsense.len() + 4, "{}", ended.stdout);
    }
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
async fn while_the_table_hangs_a_batch_fails_before_the_deadline_and_later_succeeds() {
    let stores = Stores::start_with_redis().await;
    let gate = Gate::start(&stores.engine_url(), gate::BATCH_WRITES).await;
    let through_gate = [("PAGEMARK_DYNAMODB_URL", gate.url.as_str())];
    let writer = start_writer(&stores, &through_gate).await;
    let records = create(&stores, 0..5).await;
    gate.hold_after(0);
    assert_eq!(
        writer.deliver_within(&records, NEAR).await,
        sequence_numbers(&records)
    );
    gate.open();
    deliver_whole(&writer, &records).await;
    writer.finish().await;
    let contents = Contents::read(&stores.table).await;
    assert_eq!(contents.of_duplicates, Vec::<String>::new());
    stores.finish().await;
}

#[tokio::test]
async fn each_invocation_prints_its_metrics_and_logs_comments_and_sequence_numbers() {
    let stores = Stores::start_with_redis().await;
    let mut records = create(&stores, 0..3).await;
    // A change that removes 16 duplicates and two entries.
    stores
        .table
        .patch_comment(&data::comment_id("c1"), |_| true, &data::rate(5))
        .await
        .unwrap();
    records.extend(stores.lambda_records().await.split_off(3));
    records.push(broken(&records[0]));
    let folder = tempfile::tempdir().unwrap();
    let quarantine = format!("folder:{}", folder.path().display());
    let settings = [
        ("PAGEMARK_QUARANTINE", quarantine.as_str()),
        ("PAGEMARK_METRICS_NAMESPACE", "Pagemark/one"),
        ("PAGEMARK_LOG", "debug"),
    ];
    let [writer, indexer] = start_both(&stores, &settings).await;
    for (function, name, writes) in [
        (writer, "stream-writer", 3 * 31 + 16),
        (indexer, "page-indexer", 3),
    ] {
        deliver_whole(&function, &records).await;
        let ended = function.finish().await;
        let [metrics] = &ended.metrics()[..] else {
            panic!("{}", ended.stdout)
        };
        assert_eq!(metrics["Function"], name);
        assert_eq!(
            metrics["_aws"]["CloudWatchMetrics"][0]["Namespace"],
            "Pagemark/one"
        );
        for (metric, value) in [
            ("Records", 5),
            ("CommentsChanged", 3),
            ("Writes", writes),
            ("Quarantined", 1),
            ("ReportedForRetry", 0),
        ] {
            assert_eq!(metrics[metric], value, "{metric}: {metrics}");
        }
        let age_ms = metrics["IteratorAge"].as_u64().unwrap();
        assert!(age_ms < 600_000, "the records are new: {metrics}");

        let logged = ended.logged("the comment is in line");
        assert_eq!(logged.len(), 3);
        for (number, line) in logged.iter().enumerate() {
            let fields = &line["fields"];
            assert_eq!(fields["comment"], format!("c{number}"));
            assert_eq!(fields["sequence_number"], sequence_number(&records[number]));
        }
        let [poison] = &ended.logged("a record can never be processed")[..] else {
            panic!("{}", ended.stdout)
        };
        assert_eq!(
            poison["fields"]["sequence_number"],
            sequence_number(&records[4])
        );
    }
    stores.finish().await;
}
