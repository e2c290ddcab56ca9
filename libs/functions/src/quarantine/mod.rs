//! The quarantine (a dead-letter store): it keeps poison records, which a handler can never
//! process.
//!
//! It uses the format of a batch that an event source mapping gave up on (AWS Lambda, "Retain
//! discarded records for a DynamoDB event source"), so readers of the quarantine handle one format.
//!
//! - `folder`: files, for one machine.
//! - `bucket`: objects in S3, where the mappings put theirs. Only with the feature `s3`: its client
//!   takes long to compile, and `pagemark` keeps its quarantine in a folder.
//! - `document`: the format, and the name of a batch.
//! - `contents`: the comments that a batch names, for the repair job.

#[cfg(feature = "s3")]
mod bucket;
mod contents;
mod document;
mod folder;

use std::{path::PathBuf, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "s3")]
use bucket::Bucket;
pub use contents::QuarantinedBatch;
use document::Document;
use process::{Store, StoreError};

/// Maximum retention time of a batch. It holds comment texts, and a deleted comment must not
/// outlive its deletion for ever. Alarms call a person long before. In S3 the bucket's lifecycle
/// rule removes the batch (`infra/template.yaml`).
pub const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QuarantineLocation {
    Folder(PathBuf),
    #[cfg(feature = "s3")]
    Bucket {
        bucket: String,
        prefix: String,
    },
    /// No separate store.
    Mapping,
}

impl FromStr for QuarantineLocation {
    type Err = String;

    /// Accepts `mapping`, `folder:` and a path, or `s3://`, a bucket and, after a slash, a prefix.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "mapping" => Ok(Self::Mapping),
            Some(("folder", path)) if !path.is_empty() => Ok(Self::Folder(path.into())),
            #[cfg(not(feature = "s3"))]
            Some(("s3", _)) => Err("this program has no S3 client: name a folder".to_owned()),
            #[cfg(feature = "s3")]
            Some(("s3", path)) => {
                let path = path.strip_prefix("//").ok_or_else(|| unknown(text))?;
                let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
                let prefix = prefix.trim_end_matches('/');
                let prefix = if prefix.is_empty() {
                    String::new()
                } else {
                    format!("{prefix}/")
                };
                if bucket.is_empty() {
                    return Err(unknown(text));
                }
                Ok(Self::Bucket {
                    bucket: bucket.to_owned(),
                    prefix,
                })
            }
            _ => Err(unknown(text)),
        }
    }
}

fn unknown(text: &str) -> String {
    format!("{text:?} is none of `mapping`, `s3://BUCKET`, `s3://BUCKET/PREFIX`, `folder:PATH`")
}

#[derive(Debug, Clone)]
pub enum Quarantine {
    Folder(PathBuf),
    #[cfg(feature = "s3")]
    Bucket(Bucket),
    /// No separate store. The handler reports the record as failed. After the last try, the event
    /// source mapping puts it into its on-failure destination.
    Mapping,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    pub function: String,
    /// The condition, such as the service's `RetryAttemptsExhausted`, or `MalformedRecord` of a
    /// handler.
    pub condition: String,
    pub detail: String,
    pub invoke_count: u32,
}

impl Quarantine {
    /// Opens the quarantine at its location. `s3_url` is the endpoint of an S3 other than AWS's.
    /// Sends nothing yet.
    #[cfg_attr(
        not(feature = "s3"),
        expect(unused_variables, reason = "only S3 has an endpoint")
    )]
    pub async fn connect(location: &QuarantineLocation, s3_url: Option<&str>) -> Self {
        match location {
            QuarantineLocation::Folder(folder) => Self::Folder(folder.clone()),
            #[cfg(feature = "s3")]
            QuarantineLocation::Bucket { bucket, prefix } => {
                Self::Bucket(Bucket::connect(bucket.clone(), prefix.clone(), s3_url).await)
            }
            QuarantineLocation::Mapping => Self::Mapping,
        }
    }

    /// Stores a batch. `event` is the Lambda event that holds its records.
    ///
    /// # Errors
    /// The batch was not stored; the caller must then not drop it.
    pub async fn put(&self, reason: &Reason, event: &Value) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => folder::put(folder, &Document::new(reason, event)),
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.put(&Document::new(reason, event)).await,
            Self::Mapping => Err(StoreError::unavailable(
                Store::Quarantine,
                "left to the event source mapping",
            )),
        }
    }

    /// At most `limit` batch names after `after`, in ascending order. A quarantine without a
    /// separate store has none.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Folder(folder) => folder::list(folder, after, limit),
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.list(after, limit).await,
            Self::Mapping => Ok(Vec::new()),
        }
    }

    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Folder(folder) => folder::get(folder, name),
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.get(name).await,
            Self::Mapping => Ok(None),
        }
    }

    pub async fn remove(&self, name: &str) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => folder::remove(folder, name),
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.remove(name).await,
            Self::Mapping => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(bucket: &str, prefix: &str) -> Result<QuarantineLocation, String> {
        Ok(QuarantineLocation::Bucket {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    #[test]
    fn a_location_is_the_mapping_a_folder_or_a_bucket_and_nothing_else() {
        assert_eq!("mapping".parse(), Ok(QuarantineLocation::Mapping));
        assert_eq!(
            "folder:/a/b".parse(),
            Ok(QuarantineLocation::Folder("/a/b".into()))
        );
        assert_eq!("s3://b".parse(), bucket("b", ""));
        assert_eq!("s3://b/".parse(), bucket("b", ""));
        assert_eq!("s3://b/p/q/".parse(), bucket("b", "p/q/"));
        for wrong in [
            "", "map", "folder:", "s3:", "s3:b", "s3://", "s3:///p", "mapping:", "/a/b",
        ] {
            assert!(wrong.parse::<QuarantineLocation>().is_err(), "{wrong}");
        }
    }
}
