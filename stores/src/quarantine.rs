//! Where a handler puts a record that it can never process.
//!
//! The format is that of a batch which an event source mapping gave up on (AWS Lambda, "Retain discarded records
//! for a DynamoDB event source"), so whoever drains the quarantine reads one format.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use aws_lambda_events::dynamodb::Event;
use model::Malformed;
use serde_json::{Value, json};

use crate::{
    error::{Store, StoreError},
    now,
};

/// The quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quarantine {
    /// Files below a folder.
    Folder(PathBuf),
    /// No place of its own: the handler reports the record as failed, and the event source mapping puts it to its
    /// on-failure destination after the last try.
    Mapping,
}

impl FromStr for Quarantine {
    type Err = String;

    /// `mapping`, or `folder:` and a path.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "mapping" => Ok(Self::Mapping),
            Some(("folder", path)) if !path.is_empty() => Ok(Self::Folder(path.into())),
            _ => Err(format!("{text:?} is neither `mapping` nor `folder:PATH`")),
        }
    }
}

/// Why a batch is in quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The function that did not process it.
    pub function: String,
    /// The condition, such as `RetryAttemptsExhausted` or `MalformedRecord`.
    pub condition: String,
    /// What the last try answered.
    pub detail: String,
    /// How often it was tried.
    pub invoke_count: u32,
}

impl Quarantine {
    /// Puts a batch: `event` is the Lambda event that holds its records.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when it could not be kept; the caller must then not drop it.
    pub fn put(&self, reason: &Reason, event: &Value) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => put_file(folder, reason, event),
            Self::Mapping => Err(StoreError::unavailable(Store::Quarantine, "left to the event source mapping")),
        }
    }

    /// Puts the records of a batch that can never be processed, each by itself: `malformed` are their places.
    /// Returns the sequence numbers of those that could not be put, which the handler must report for retry.
    pub fn put_malformed(&self, function: &str, event: &Event, malformed: &[(usize, Malformed)]) -> Vec<String> {
        let mut retry = Vec::new();
        for (place, malformed) in malformed {
            let Some(record) = event.records.get(*place) else { continue };
            let sequence_number = record.change.sequence_number.clone().unwrap_or_default();
            tracing::error!(function, sequence_number, %malformed, "a record can never be processed");
            let reason = Reason {
                function: function.to_owned(),
                condition: "MalformedRecord".to_owned(),
                detail: malformed.to_string(),
                invoke_count: 1,
            };
            let put = serde_json::to_value(record)
                .map_err(|error| StoreError::unavailable(Store::Quarantine, error.to_string()))
                .and_then(|record| self.put(&reason, &json!({ "Records": [record] })));
            if let Err(error) = put {
                tracing::warn!(function, sequence_number, %error, "the record is reported for retry instead");
                retry.push(sequence_number);
            }
        }
        retry
    }
}

fn put_file(folder: &Path, reason: &Reason, event: &Value) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::Unavailable {
        store: Store::Quarantine,
        detail: format!("{}: {error}", folder.display()),
        source: Some(Box::new(error)),
    };
    let instant = now().to_string();
    let id = crate::new_ulid();
    // As the service does it: <prefix>/<mapping>/YYYY/MM/DD/….
    let day = instant.get(..10).unwrap_or(&instant).replace('-', "/");
    let directory = folder.join("aws/lambda").join(&reason.function).join(day);
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let record = invocation_record(reason, event, &instant, &id);
    // By what it holds, so that a batch that is delivered and put again replaces itself.
    let number = |name: &str| record.pointer(name).and_then(Value::as_str).unwrap_or("none").to_owned();
    let (first, last) =
        (number("/DDBStreamBatchInfo/startSequenceNumber"), number("/DDBStreamBatchInfo/endSequenceNumber"));
    let name = format!("{first}-{last}");
    let body = record.to_string();
    // A reader sees the whole file or none.
    let partial = directory.join(format!(".{name}.partial"));
    std::fs::write(&partial, body).map_err(failed)?;
    std::fs::rename(&partial, directory.join(name)).map_err(failed)
}

/// The JSON document that describes a batch in quarantine.
pub fn invocation_record(reason: &Reason, event: &Value, timestamp: &str, request_id: &str) -> Value {
    let empty = Vec::new();
    let records = event.get("Records").and_then(Value::as_array).unwrap_or(&empty);
    let sequence_number = |record: Option<&Value>| record.and_then(|r| r.pointer("/dynamodb/SequenceNumber")).cloned();
    json!({
        "requestContext": {
            "requestId": request_id,
            "functionArn": reason.function,
            "condition": reason.condition,
            "approximateInvokeCount": reason.invoke_count,
        },
        "responseContext": { "statusCode": 200, "executedVersion": "$LATEST", "functionError": reason.detail },
        "version": "1.0",
        "timestamp": timestamp,
        "DDBStreamBatchInfo": {
            "startSequenceNumber": sequence_number(records.first()),
            "endSequenceNumber": sequence_number(records.last()),
            "batchSize": records.len(),
            "streamArn": records.first().and_then(|record| record.get("eventSourceARN")).cloned(),
        },
        "payload": event.to_string(),
    })
}
