//! Batch writes of duplicates.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, DeleteRequest, PutRequest, WriteRequest};
use model::{
    item::{attribute, comment_pk},
    plan::{DuplicateKey, DuplicateWrite},
};
use tokio::time::Instant;

use super::{SdkItem, Table};
use crate::{
    error::{Store, StoreError},
    retry::Backoff,
};

/// Writes of a batch that did not happen, or may not have.
#[derive(Debug)]
pub struct FailedWrites {
    /// Their keys.
    pub keys: Vec<DuplicateKey>,
    /// Why.
    pub error: StoreError,
}

impl Table {
    /// The most writes that one batch may hold (AWS: `BatchWriteItem`).
    pub const BATCH_MAX: usize = 25;

    /// Writes a batch of at most [`Table::BATCH_MAX`] duplicates, no key twice. What DynamoDB leaves unprocessed is
    /// sent again with jittered back-off until `deadline`.
    ///
    /// # Errors
    /// The writes that are not known to have happened. Sending them again is harmless.
    pub async fn write_duplicates(&self, batch: Vec<DuplicateWrite>, deadline: Instant) -> Result<(), FailedWrites> {
        let mut pending: HashMap<(String, String), (DuplicateKey, WriteRequest)> = HashMap::new();
        let keys: Vec<DuplicateKey> = batch.iter().map(|write| write.key().clone()).collect();
        for write in batch {
            let key = write.key().clone();
            let request = to_request(write).map_err(|error| FailedWrites { keys: keys.clone(), error })?;
            pending.insert((comment_pk(&key.id), key.filter_key.to_string()), (key, request));
        }
        let mut backoff = Backoff::until(deadline);
        while !pending.is_empty() {
            let requests = pending.values().map(|(_, request)| request.clone()).collect();
            let sent = self.client.batch_write_item().request_items(&self.name, requests).send();
            let answer = match tokio::time::timeout_at(deadline, sent).await {
                Ok(answer) => answer.map_err(StoreError::of_sdk),
                Err(_) => Err(StoreError::unavailable(Store::Table, "no answer before the deadline")),
            };
            let error = match answer {
                Ok(answer) => {
                    let left = answer.unprocessed_items.unwrap_or_default().remove(&self.name).unwrap_or_default();
                    let left: Vec<_> = left.iter().filter_map(key_of).collect();
                    pending.retain(|key, _| left.contains(key));
                    StoreError::unavailable(Store::Table, "it left writes of a batch unprocessed")
                }
                Err(error) => error,
            };
            if !pending.is_empty() && (!error.is_unavailable() || !backoff.wait().await) {
                return Err(FailedWrites { keys: pending.into_values().map(|(key, _)| key).collect(), error });
            }
        }
        Ok(())
    }
}

fn to_request(write: DuplicateWrite) -> Result<WriteRequest, StoreError> {
    let refused = |error: aws_sdk_dynamodb::error::BuildError| StoreError::refused(Store::Table, error.to_string());
    Ok(match write {
        DuplicateWrite::Put { item, .. } => {
            let put = PutRequest::builder().set_item(Some(item.into())).build().map_err(refused)?;
            WriteRequest::builder().put_request(put).build()
        }
        DuplicateWrite::Delete { key } => {
            let key: SdkItem = [
                (attribute::PK.to_owned(), AttributeValue::S(comment_pk(&key.id))),
                (attribute::SK.to_owned(), AttributeValue::S(key.filter_key.to_string())),
            ]
            .into();
            let delete = DeleteRequest::builder().set_key(Some(key)).build().map_err(refused)?;
            WriteRequest::builder().delete_request(delete).build()
        }
    })
}

fn key_of(request: &WriteRequest) -> Option<(String, String)> {
    let attributes = match (&request.put_request, &request.delete_request) {
        (Some(put), _) => &put.item,
        (_, Some(delete)) => &delete.key,
        _ => return None,
    };
    let text = |name: &str| attributes.get(name)?.as_s().ok().cloned();
    Some((text(attribute::PK)?, text(attribute::SK)?))
}
