//! Stands for [`Bucket`] in a program without the feature `s3`.
//!
//! The S3 client takes long to compile. `pagemark` keeps its quarantine in a folder and does without.

use process::{Store, StoreError};

use super::Document;

#[derive(Debug, Clone)]
pub struct Bucket;

const ABSENT: &str = "this program has no S3 client: name a folder, or build it with the feature s3";

impl Bucket {
    pub(super) async fn connect(_bucket: String, _prefix: String, _s3_url: Option<&str>) -> Self {
        Self
    }

    pub(super) async fn put(&self, _document: &Document) -> Result<(), StoreError> {
        Err(StoreError::refused(Store::Quarantine, ABSENT))
    }

    pub(super) async fn list(&self, _after: Option<&str>, _limit: usize) -> Result<Vec<String>, StoreError> {
        Err(StoreError::refused(Store::Quarantine, ABSENT))
    }

    pub(super) async fn get(&self, _name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Err(StoreError::refused(Store::Quarantine, ABSENT))
    }

    pub(super) async fn remove(&self, _name: &str) -> Result<(), StoreError> {
        Err(StoreError::refused(Store::Quarantine, ABSENT))
    }
}
