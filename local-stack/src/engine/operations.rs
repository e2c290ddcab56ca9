//! What the engine answers to each operation: JSON in, JSON out.

use dynoxide::{Database, DynoxideError};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Error;

use super::shards;

/// The operations that write nothing begin with one of these words.
const READS: [&str; 8] = [
    "BatchGet",
    "Describe",
    "Get",
    "List",
    "Query",
    "Scan",
    "Search",
    "TransactGet",
];

/// Whether an operation may write something. An unknown one may.
pub(super) fn may_write(operation: &str) -> bool {
    !READS.iter().any(|word| operation.starts_with(word))
}

/// Whether an operation changes a table or its indexes.
pub(super) fn changes_tables(operation: &str) -> bool {
    matches!(operation, "CreateTable" | "DeleteTable" | "UpdateTable")
}

/// The status and the body of the answer to an operation, such as `Query`, with DynamoDB's JSON as
/// its body. It blocks.
pub fn answer(database: &Database, operation: &str, body: &[u8]) -> (u16, Vec<u8>) {
    match dispatch(database, operation, body) {
        Ok(body) => (200, body),
        Err(error) => (error.status_code(), error.to_json().into_bytes()),
    }
}

fn dispatch(database: &Database, operation: &str, body: &[u8]) -> dynoxide::Result<Vec<u8>> {
    match operation {
        "BatchExecuteStatement" => call(body, |request| database.batch_execute_statement(request)),
        "BatchGetItem" => call(body, |request| database.batch_get_item(request)),
        "BatchWriteItem" => call(body, |request| database.batch_write_item(request)),
        "CreateTable" => call(body, |request| database.create_table(request)),
        "DeleteItem" => call(body, |request| database.delete_item(request)),
        "DeleteTable" => call(body, |request| database.delete_table(request)),
        "DescribeStream" => call(body, |request| shards::describe_stream(database, request)),
        "DescribeTable" => call(body, |request| database.describe_table(request)),
        "DescribeTimeToLive" => call(body, |request| database.describe_time_to_live(request)),
        "ExecuteStatement" => call(body, |request| database.execute_statement(request)),
        "ExecuteTransaction" => call(body, |request| database.execute_transaction(request)),
        "GetItem" => call(body, |request| database.get_item(request)),
        "GetRecords" => call(body, |request| database.get_records(request)),
        "GetShardIterator" => call(body, |request| {
            shards::get_shard_iterator(database, request)
        }),
        "ListStreams" => call(body, |request| database.list_streams(request)),
        "ListTables" => call(body, |request| database.list_tables(request)),
        "ListTagsOfResource" => call(body, |request| database.list_tags_of_resource(request)),
        "PutItem" => call(body, |request| database.put_item(request)),
        "Query" => call(body, |request| database.query(request)),
        "Scan" => call(body, |request| database.scan(request)),
        "SearchVectors" => call(body, |request| database.search_vectors(request)),
        "TagResource" => call(body, |request| database.tag_resource(request)),
        "TransactGetItems" => call(body, |request| database.transact_get_items(request)),
        "TransactWriteItems" => call(body, |request| database.transact_write_items(request)),
        "UntagResource" => call(body, |request| database.untag_resource(request)),
        "UpdateItem" => call(body, |request| database.update_item(request)),
        "UpdateTable" => call(body, |request| database.update_table(request)),
        "UpdateTimeToLive" => call(body, |request| database.update_time_to_live(request)),
        _ => Err(DynoxideError::UnsupportedCapability(operation.to_owned())),
    }
}

fn call<Request: DeserializeOwned, Answer: Serialize>(
    body: &[u8],
    operation: impl FnOnce(Request) -> dynoxide::Result<Answer>,
) -> dynoxide::Result<Vec<u8>> {
    let request = serde_json::from_slice(body).map_err(|error| malformed(&error))?;
    serde_json::to_vec(&operation(request)?)
        .map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

/// The engine's types begin the message of a value that DynamoDB refuses with a word such as
/// `VALIDATION:`.
pub(super) fn malformed(error: &Error) -> DynoxideError {
    let text = error.to_string();
    match text.split_once(':').filter(|(word, _)| is_kind(word)) {
        Some((word, reason)) if word.starts_with("VALIDATION") => {
            DynoxideError::ValidationException(reason.to_owned())
        }
        Some((_, reason)) => DynoxideError::SerializationException(reason.to_owned()),
        None if text.starts_with("missing field") => DynoxideError::ValidationException(text),
        None => DynoxideError::SerializationException(text),
    }
}

/// Whether a word is of the kind that begins the engine's messages.
fn is_kind(word: &str) -> bool {
    word.bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer_to(database: &Database, operation: &str, body: &Value) -> (u16, Value) {
        let (status, body) = answer(database, operation, body.to_string().as_bytes());
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn an_operation_that_is_not_known_to_read_may_write() {
        for writing in [
            "BatchExecuteStatement",
            "DeleteItem",
            "PutItem",
            "TransactWriteItems",
            "CreateTable",
            "New",
        ] {
            assert!(may_write(writing), "{writing}");
        }
        for reading in [
            "GetItem",
            "BatchGetItem",
            "Query",
            "Scan",
            "TransactGetItems",
            "DescribeTable",
            "GetRecords",
        ] {
            assert!(!may_write(reading), "{reading}");
        }
    }

    fn put(value: &Value) -> Value {
        json!({ "TableName": "none", "Item": { "pk": value } })
    }

    #[test]
    fn a_refusal_names_its_kind_in_dynamodbs_words() {
        let database = Database::memory().unwrap();
        for (operation, body, status, kind) in [
            (
                "PutItem",
                put(&json!({ "S": "one" })),
                400,
                "ResourceNotFoundException",
            ),
            (
                "PutItem",
                put(&json!({ "N": "one" })),
                400,
                "ValidationException",
            ),
            (
                "PutItem",
                json!({ "TableName": 5 }),
                400,
                "SerializationException",
            ),
            ("PutItem", json!({}), 400, "ValidationException"),
            ("New", json!({}), 501, "UnsupportedOperation"),
        ] {
            let (answered, error) = answer_to(&database, operation, &body);
            let message = error
                .get("message")
                .or(error.get("Message"))
                .and_then(Value::as_str)
                .unwrap();
            assert!(
                error["__type"]
                    .as_str()
                    .unwrap()
                    .ends_with(&format!("#{kind}")),
                "{operation} {body}: {error}"
            );
            assert!(
                answered == status && !message.contains("VALIDATION"),
                "{operation} {body}: {error}"
            );
        }
        assert_eq!(answer(&database, "ListTables", b"").0, 400);
        assert_eq!(
            answer_to(&database, "ListTables", &json!({})),
            (200, json!({ "TableNames": [] }))
        );
    }
}
