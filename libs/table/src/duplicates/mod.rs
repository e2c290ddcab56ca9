//! Writes duplicates in batches (`BatchWriteItem`): up to 25 writes of any comments per call, which happen one by one.
//!
//! **Invariant:** every requested write has happened, or is in [`DuplicatesWritten`] as failed.

mod batch;

use aws_sdk_dynamodb::types::{Delete, DeleteRequest, Put, PutRequest, TransactWriteItem, WriteRequest};
use model::{
    item::comment_pk,
    plan::{DuplicateKey, DuplicateWrite},
};
use process::StoreError;

use super::{SdkItem, error::refused, item_key::item_key};

/// Writes that did not happen, or may not have.
#[derive(Debug)]
pub struct FailedWrites {
    /// Their keys.
    pub keys: Vec<DuplicateKey>,
    /// Why.
    pub error: StoreError,
}

/// The result of a call's writes.
#[derive(Debug, Default)]
#[must_use]
pub struct DuplicatesWritten {
    /// Writes that did not happen. Sending them again is harmless; the error says whether it makes sense.
    pub failed: Vec<FailedWrites>,
    /// Repeated calls, without the SDK's own attempts.
    pub retries: u64,
    /// Writes that DynamoDB returned as unprocessed, counted each time.
    pub unprocessed: u64,
}

impl DuplicatesWritten {
    /// Whether every write has happened.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty()
    }

    /// Adds the result of other writes.
    pub fn join(&mut self, other: Self) {
        self.failed.extend(other.failed);
        self.retries += other.retries;
        self.unprocessed += other.unprocessed;
    }
}

fn key_item(key: &DuplicateKey) -> SdkItem {
    item_key(comment_pk(&key.id), key.filter_key.to_string())
}

/// A write in the form that a batch takes.
fn to_request(write: DuplicateWrite) -> Result<WriteRequest, StoreError> {
    Ok(match write {
        DuplicateWrite::Put { item, .. } => {
            let put = PutRequest::builder().set_item(Some(item.into())).build().map_err(refused)?;
            WriteRequest::builder().put_request(put).build()
        }
        DuplicateWrite::Delete { key } => {
            let delete = DeleteRequest::builder().set_key(Some(key_item(&key))).build().map_err(refused)?;
            WriteRequest::builder().delete_request(delete).build()
        }
    })
}

/// A write in the form that a transaction takes.
pub(super) fn to_action(write: DuplicateWrite, table: &str) -> Result<TransactWriteItem, StoreError> {
    Ok(match write {
        DuplicateWrite::Put { item, .. } => {
            let put = Put::builder().table_name(table).set_item(Some(item.into())).build().map_err(refused)?;
            TransactWriteItem::builder().put(put).build()
        }
        DuplicateWrite::Delete { key } => {
            let delete = Delete::builder().table_name(table).set_key(Some(key_item(&key))).build().map_err(refused)?;
            TransactWriteItem::builder().delete(delete).build()
        }
    })
}
