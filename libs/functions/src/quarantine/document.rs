//! The document that the quarantine stores for a batch.

use process::now;
use serde_json::{Value, json};

use super::Reason;

/// Beginning of all names of batches. The service uses this layout:
/// `aws/lambda/<mapping>/YYYY/MM/DD/…`.
pub(super) const BATCHES: &str = "aws/lambda/";

/// Maximum length of an event id in a name. The service's ids have 32 characters.
const EVENT_ID_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Document {
    /// The document's name inside the quarantine. It depends on the batch's content, so a batch
    /// that is delivered and stored again on the same day replaces itself. The id of the first
    /// event distinguishes batches of different shards, and records without a sequence number.
    pub(super) name: String,
    pub(super) body: String,
}

impl Document {
    pub(super) fn new(reason: &Reason, event: &Value) -> Self {
        let instant = now().to_string();
        let records: &[Value] = match event.get("Records") {
            Some(Value::Array(records)) => records,
            Some(_) | None => &[],
        };
        let first = records.first().and_then(sequence_number);
        let last = records.last().and_then(sequence_number);
        let body = json!({
            "requestContext": {
                "requestId": process::new_ulid(),
                "functionArn": reason.function,
                "condition": reason.condition,
                "approximateInvokeCount": reason.invoke_count,
            },
            "responseContext": { "statusCode": 200, "executedVersion": "$LATEST", "functionError": reason.detail },
            "version": "1.0",
            "timestamp": instant,
            "DDBStreamBatchInfo": {
                "startSequenceNumber": first,
                "endSequenceNumber": last,
                "batchSize": records.len(),
                "streamArn": records.first().and_then(|record| record.get("eventSourceARN")).cloned(),
            },
            "payload": event.to_string(),
        });

        let day = instant.get(..10).unwrap_or(&instant).replace('-', "/");
        let [first, last] =
            [first, last].map(|number| number.and_then(Value::as_str).unwrap_or("none"));
        let event_id = event
            .pointer("/Records/0/eventID")
            .and_then(Value::as_str)
            .unwrap_or("none");
        // The id comes from the service, or from a record that the service did not make.
        let event_id: String = event_id
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(EVENT_ID_MAX)
            .collect();
        let name = format!(
            "{BATCHES}{}/{day}/{first}-{last}-{event_id}",
            reason.function
        );
        Self {
            name,
            body: body.to_string(),
        }
    }
}

fn sequence_number(record: &Value) -> Option<&Value> {
    record.pointer("/dynamodb/SequenceNumber")
}
