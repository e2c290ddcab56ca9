//! Converts stream records to the form that the Lambda service sends.

use aws_sdk_dynamodbstreams::types::{AttributeValue, Record as SdkRecord};
use serde_dynamo::Item;
use serde_json::{Map, Value, json};

use super::stream::StreamError;

/// The JSON of a record inside a Lambda event (AWS Lambda, "Using AWS Lambda with Amazon DynamoDB",
/// example event).
///
/// # Errors
/// The engine omitted something that every record has.
pub fn to_lambda_record(record: SdkRecord, stream_arn: &str) -> Result<Value, StreamError> {
    let Some(change) = record.dynamodb else {
        return Err(StreamError::Stream("a record has no content".to_owned()));
    };
    let mut dynamodb = Map::new();
    let created = match &change.approximate_creation_date_time {
        Some(created) => created.as_secs_f64(),
        None => 0.0,
    };
    dynamodb.insert("ApproximateCreationDateTime".to_owned(), json!(created));
    for (name, item) in [
        ("Keys", change.keys),
        ("NewImage", change.new_image),
        ("OldImage", change.old_image),
    ] {
        if let Some(item) = item {
            dynamodb.insert(name.to_owned(), to_json(item)?);
        }
    }
    dynamodb.insert("SequenceNumber".to_owned(), json!(change.sequence_number));
    dynamodb.insert(
        "SizeBytes".to_owned(),
        json!(change.size_bytes.unwrap_or_default()),
    );
    dynamodb.insert(
        "StreamViewType".to_owned(),
        json!(change.stream_view_type.map(|kind| kind.as_str().to_owned())),
    );
    let mut event = json!({
        "eventID": record.event_id,
        "eventName": record.event_name.map(|name| name.as_str().to_owned()),
        "eventVersion": record.event_version,
        "eventSource": "aws:dynamodb",
        "awsRegion": record.aws_region,
        "eventSourceARN": stream_arn,
        "dynamodb": dynamodb,
    });
    // The engine marks deletions by TTL, but not in the service's form (docs/engines.md).
    if record.user_identity.is_some()
        && let Some(event) = event.as_object_mut()
    {
        let identity = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
        event.insert("userIdentity".to_owned(), identity);
    }
    Ok(event)
}

fn to_json(item: std::collections::HashMap<String, AttributeValue>) -> Result<Value, StreamError> {
    serde_json::to_value(Item::from(item)).map_err(|error| StreamError::Stream(error.to_string()))
}
