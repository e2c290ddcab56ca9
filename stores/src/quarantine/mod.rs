//! Where a handler puts a record that it can never process.
//!
//! The format is that of a batch which an event source mapping gave up on (AWS Lambda, "Retain discarded records
//! for a DynamoDB event source"), so whoever drains the quarantine reads one format.
//!
//! - `folder`: files, for one machine.
//! - `bucket`: objects in S3, where the mappings put theirs.
//! - `document`: the format, and the name of a batch.
//! - `contents`: what a batch names, for whoever works the quarantine off.

mod bucket;
mod contents;
mod document;
mod folder;

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use aws_lambda_events::dynamodb::Event;
use model::Malformed;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::{Store, StoreError};
use bucket::Bucket;
pub use contents::QuarantinedBatch;
use document::Document;

/// How long a batch is kept at most. It holds comments' texts, and a deleted comment must not outlive its deletion for
/// ever. Alarms have called for a person long before. In S3 the bucket's lifecycle rule removes it (`infra/template.yaml`).
pub const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Where the quarantine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuarantinePlace {
    /// Files below a folder.
    Folder(PathBuf),
    /// Objects in a bucket.
    Bucket {
        /// Its name.
        bucket: String,
        /// What their keys start with: empty, or something that ends with a slash.
        prefix: String,
    },
    /// No place of its own.
    Mapping,
}

impl FromStr for QuarantinePlace {
    type Err = String;

    /// `mapping`, `folder:` and a path, or `s3://`, a bucket and, after a slash, a prefix.
    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("{text:?} is none of `mapping`, `s3://BUCKET`, `s3://BUCKET/PREFIX`, `folder:PATH`");
        match text.split_once(':') {
            None if text == "mapping" => Ok(Self::Mapping),
            Some(("folder", path)) if !path.is_empty() => Ok(Self::Folder(path.into())),
            Some(("s3", place)) => {
                let place = place.strip_prefix("//").ok_or_else(unknown)?;
                let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
                let prefix = prefix.trim_end_matches('/');
                let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
                if bucket.is_empty() {
                    return Err(unknown());
                }
                Ok(Self::Bucket { bucket: bucket.to_owned(), prefix })
            }
            _ => Err(unknown()),
        }
    }
}

/// The quarantine.
#[derive(Debug, Clone)]
pub enum Quarantine {
    /// Files below a folder.
    Folder(PathBuf),
    /// Objects in a bucket of S3.
    Bucket(Bucket),
    /// No place of its own: the handler reports the record as failed, and the event source mapping puts it to its
    /// on-failure destination after the last try.
    Mapping,
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
    /// The quarantine at a place; `s3_url` is the endpoint of an S3 other than AWS's. Nothing is sent yet.
    pub async fn connect(place: &QuarantinePlace, s3_url: Option<&str>) -> Self {
        match place {
            QuarantinePlace::Folder(folder) => Self::Folder(folder.clone()),
            QuarantinePlace::Bucket { bucket, prefix } => {
                Self::Bucket(Bucket::connect(bucket.clone(), prefix.clone(), s3_url).await)
            }
            QuarantinePlace::Mapping => Self::Mapping,
        }
    }

    /// Puts a batch: `event` is the Lambda event that holds its records.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when it could not be kept; the caller must then not drop it.
    pub async fn put(&self, reason: &Reason, event: &Value) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => folder::put(folder, &Document::new(reason, event)),
            Self::Bucket(bucket) => bucket.put(&Document::new(reason, event)).await,
            Self::Mapping => Err(StoreError::unavailable(Store::Quarantine, "left to the event source mapping")),
        }
    }

    /// The names of batches, at most `limit`, ascending from after `after` on. A quarantine without a place of its own has
    /// none.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Folder(folder) => folder::list(folder, after, limit),
            Self::Bucket(bucket) => bucket.list(after, limit).await,
            Self::Mapping => Ok(Vec::new()),
        }
    }

    /// A batch by its name; `None` when it has gone.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Folder(folder) => folder::get(folder, name),
            Self::Bucket(bucket) => bucket.get(name).await,
            Self::Mapping => Ok(None),
        }
    }

    /// Removes a batch that nothing is left to do for.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn remove(&self, name: &str) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => folder::remove(folder, name),
            Self::Bucket(bucket) => bucket.remove(name).await,
            Self::Mapping => Ok(()),
        }
    }

    /// Puts records of a batch that can never be processed, each by itself, before `deadline`.
    pub async fn put_hopeless(&self, function: &str, event: &Event, hopeless: &[Hopeless], deadline: Instant) -> Put {
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
            if Instant::now() >= deadline {
                outcome.retry.push(sequence_number);
                continue;
            }
            let put = match serde_json::to_value(record) {
                Ok(record) => {
                    let event = json!({ "Records": [record] });
                    let put = tokio::time::timeout_at(deadline, self.put(&reason, &event)).await;
                    put.unwrap_or_else(|_| Err(StoreError::past_deadline(Store::Quarantine)))
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_mapping_a_folder_or_a_bucket_and_nothing_else() {
        let bucket = |bucket: &str, prefix: &str| {
            Ok(QuarantinePlace::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
        };
        assert_eq!("mapping".parse(), Ok(QuarantinePlace::Mapping));
        assert_eq!("folder:/a/b".parse(), Ok(QuarantinePlace::Folder("/a/b".into())));
        assert_eq!("s3://b".parse(), bucket("b", ""));
        assert_eq!("s3://b/".parse(), bucket("b", ""));
        assert_eq!("s3://b/p/q/".parse(), bucket("b", "p/q/"));
        for wrong in ["", "map", "folder:", "s3:", "s3:b", "s3://", "s3:///p", "mapping:", "/a/b"] {
            assert!(wrong.parse::<QuarantinePlace>().is_err(), "{wrong}");
        }
    }
}
