//! Where a handler puts a record that it can never process.
//!
//! The format is that of a batch which an event source mapping gave up on (AWS Lambda, "Retain discarded records
//! for a DynamoDB event source"), so whoever drains the quarantine reads one format.

use std::{
    fmt,
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
    /// The condition, such as the service's `RetryAttemptsExhausted`, or one of [`Condition`].
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
    pub async fn put(&self, reason: &Reason, event: &Value) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => put_file(folder, reason, event),
            Self::Mapping => Err(StoreError::unavailable(Store::Quarantine, "left to the event source mapping")),
        }
    }

    /// Puts records of a batch that can never be processed, each by itself.
    pub async fn put_hopeless(&self, function: &str, event: &Event, hopeless: &[Hopeless]) -> Put {
        let mut outcome = Put::default();
        for hopeless in hopeless {
            let Some(record) = event.records.get(hopeless.place) else { continue };
            let sequence_number = record.change.sequence_number.clone().unwrap_or_default();
            let condition = hopeless.condition;
            let reason = Reason {
                function: function.to_owned(),
                condition: condition.to_string(),
                detail: hopeless.detail.clone(),
                invoke_count: 1,
            };
            let detail = &hopeless.detail;
            tracing::error!(function, sequence_number, %condition, detail, "a record can never be processed");
            let put = match serde_json::to_value(record) {
                Ok(record) => self.put(&reason, &json!({ "Records": [record] })).await,
                Err(error) => Err(StoreError::unavailable(Store::Quarantine, error.to_string())),
            };
            match put {
                Ok(()) => outcome.kept += 1,
                Err(error) => {
                    tracing::warn!(function, sequence_number, %error, "the record is reported for retry instead");
                    outcome.retry.push(sequence_number);
                }
            }
        }
        outcome
    }
}

/// Why a record can never be processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It does not have the shape that it must have.
    MalformedRecord,
    /// A store rejects what it says.
    RejectedByStore,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MalformedRecord => "MalformedRecord",
            Self::RejectedByStore => "RejectedByStore",
        })
    }
}

/// A record that can never be processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hopeless {
    /// Its place in the batch.
    pub place: usize,
    /// Why.
    pub condition: Condition,
    /// What is wrong with it, without a comment's text.
    pub detail: String,
}

impl Hopeless {
    /// The malformed records of a batch: their places, and what is wrong with them.
    pub fn malformed(malformed: &[(usize, Malformed)]) -> Vec<Self> {
        let hopeless = |(place, malformed): &(usize, Malformed)| Self {
            place: *place,
            condition: Condition::MalformedRecord,
            detail: malformed.to_string(),
        };
        malformed.iter().map(hopeless).collect()
    }

    /// The records of a comment that a store rejects.
    pub fn rejected<'place>(places: &'place [usize], error: &StoreError) -> impl Iterator<Item = Self> + use<'place> {
        let detail = error.to_string();
        places.iter().map(move |place| Self {
            place: *place,
            condition: Condition::RejectedByStore,
            detail: detail.clone(),
        })
    }
}

/// What became of records that were to be put into quarantine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Put {
    /// How many are there now.
    pub kept: usize,
    /// The sequence numbers of the others, which the handler must report for retry.
    pub retry: Vec<String>,
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
