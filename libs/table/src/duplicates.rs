//! Writes duplicates in batches (`BatchWriteItem`): up to 25 writes of any comments per call, which
//! happen one by one.
//!
//! **Invariant:** every requested write has happened, or is in [`DuplicatesWritten`] as failed.

use aws_sdk_dynamodb::types::{
    Delete, DeleteRequest, Put, PutRequest, TransactWriteItem, WriteRequest,
};
use model::{
    FilterKey,
    item::{comment_id_of_pk, comment_pk},
    plan::{DuplicateKey, DuplicateWrite},
};
use process::StoreError;

use crate::{
    error::refused,
    item::{ItemKey, SdkItem, item_key},
};

/// Writes that did not happen, or may not have.
#[derive(Debug)]
pub struct FailedWrites {
    pub keys: Vec<DuplicateKey>,
    pub error: StoreError,
}

#[derive(Debug, Default)]
#[must_use]
pub struct DuplicatesWritten {
    /// Writes that did not happen. Sending them again is harmless; the error says whether it makes
    /// sense.
    pub failed: Vec<FailedWrites>,
    /// Repeated calls, without the SDK's own attempts.
    pub retries: u64,
    /// Writes that DynamoDB returned as unprocessed, counted each time.
    pub unprocessed: u64,
}

impl DuplicatesWritten {
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty()
    }

    pub fn join(&mut self, other: Self) {
        self.failed.extend(other.failed);
        self.retries += other.retries;
        self.unprocessed += other.unprocessed;
    }
}

fn key_item(key: &DuplicateKey) -> SdkItem {
    item_key(comment_pk(&key.id), key.filter_key.to_string())
}

pub(crate) fn to_request(write: DuplicateWrite) -> Result<WriteRequest, StoreError> {
    Ok(match write {
        DuplicateWrite::Put { item, .. } => {
            let put = PutRequest::builder()
                .set_item(Some(item.into()))
                .build()
                .map_err(refused)?;
            WriteRequest::builder().put_request(put).build()
        }
        DuplicateWrite::Delete { key } => {
            let delete = DeleteRequest::builder()
                .set_key(Some(key_item(&key)))
                .build()
                .map_err(refused)?;
            WriteRequest::builder().delete_request(delete).build()
        }
    })
}

pub(crate) fn to_action(
    write: DuplicateWrite,
    table: &str,
) -> Result<TransactWriteItem, StoreError> {
    Ok(match write {
        DuplicateWrite::Put { item, .. } => {
            let put = Put::builder()
                .table_name(table)
                .set_item(Some(item.into()))
                .build()
                .map_err(refused)?;
            TransactWriteItem::builder().put(put).build()
        }
        DuplicateWrite::Delete { key } => {
            let delete = Delete::builder()
                .table_name(table)
                .set_key(Some(key_item(&key)))
                .build()
                .map_err(refused)?;
            TransactWriteItem::builder().delete(delete).build()
        }
    })
}

/// The key of the duplicate that a request writes.
pub(crate) fn key_of_request(request: &WriteRequest) -> Option<DuplicateKey> {
    let ItemKey { pk, sk } = match (&request.put_request, &request.delete_request) {
        (Some(put), _) => ItemKey::of(&put.item),
        (_, Some(delete)) => ItemKey::of(&delete.key),
        _ => return None,
    };
    Some(DuplicateKey {
        id: comment_id_of_pk(&pk)?,
        filter_key: FilterKey::parse(&sk).ok()?,
    })
}
