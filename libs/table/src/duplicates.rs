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
    planted::{self, Bug},
};
use process::{Backoff, Remedy, Store, StoreError, aws::Calls};
use tokio::time::Instant;

use crate::{
    Table,
    error::{refused, store_error},
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

impl Table {
    /// Maximum number of writes in one batch (AWS: `BatchWriteItem`).
    pub const BATCH_MAX: usize = 25;

    /// Writes a batch of at most [`Table::BATCH_MAX`] duplicates with different keys. No call
    /// outlasts `deadline`, and none starts when less than the time of one attempt remains.
    ///
    /// Unprocessed writes are sent again with jittered back-off. DynamoDB rejects a whole batch
    /// when it rejects one write. Such a batch is halved until the rejected write is alone, which
    /// takes at most twice as many calls as there are writes.
    pub async fn write_duplicates(
        &self,
        batch: Vec<DuplicateWrite>,
        deadline: Instant,
    ) -> DuplicatesWritten {
        let mut written = DuplicatesWritten::default();
        let mut pending = Vec::with_capacity(batch.len());
        for write in batch {
            let key = write.key().clone();
            match to_request(write) {
                Ok(request) => pending.push((key, request)),
                Err(error) => written.failed.push(FailedWrites {
                    keys: vec![key],
                    error,
                }),
            }
        }
        let mut parts = vec![pending];
        while let Some(mut part) = parts.pop() {
            let Err(error) = self.write_part(&mut part, deadline, &mut written).await else {
                continue;
            };
            if error.remedy() == Remedy::Quarantine && part.len() > 1 {
                parts.push(part.split_off(part.len() / 2));
                parts.push(part);
                continue;
            }
            written.failed.push(FailedWrites {
                keys: part.into_iter().map(|(key, _)| key).collect(),
                error,
            });
        }
        written
    }

    async fn write_part(
        &self,
        pending: &mut Vec<(DuplicateKey, WriteRequest)>,
        deadline: Instant,
        written: &mut DuplicatesWritten,
    ) -> Result<(), StoreError> {
        let attempt_time = self
            .config
            .calls
            .attempt_timeout
            .min(Calls::PROMPT.attempt_timeout);
        let last_start = deadline.checked_sub(attempt_time).unwrap_or(deadline);
        let mut backoff = Backoff::until(last_start);
        while !pending.is_empty() {
            if Instant::now() >= last_start {
                return Err(StoreError::past_deadline(Store::Table));
            }
            let requests = pending.iter().map(|(_, request)| request.clone()).collect();
            let call = self
                .client
                .batch_write_item()
                .request_items(self.name(), requests);
            let sent = call
                .set_return_consumed_capacity(self.meter.report())
                .send();
            let answer = match tokio::time::timeout_at(deadline, sent).await {
                Ok(answer) => answer.map_err(store_error),
                Err(_) => Err(StoreError::past_deadline(Store::Table)),
            };
            let error = match answer {
                Ok(answer) => {
                    self.meter.write.charge(answer.consumed_capacity());
                    let unprocessed = answer
                        .unprocessed_items
                        .unwrap_or_default()
                        .remove(self.name())
                        .unwrap_or_default();
                    let unprocessed: Vec<_> =
                        unprocessed.iter().filter_map(key_of_request).collect();
                    pending.retain(|(key, _)| is_still_pending(key, &unprocessed));
                    if pending.is_empty() {
                        return Ok(());
                    }
                    written.unprocessed += u64::try_from(pending.len()).unwrap_or(u64::MAX);
                    StoreError::unavailable(Store::Table, "it left writes of a batch unprocessed")
                }
                Err(error) => error,
            };
            if !error.is_unavailable() || !backoff.wait().await {
                return Err(error);
            }
            written.retries += 1;
        }
        Ok(())
    }
}

/// A write that DynamoDB did not process is not done.
fn is_still_pending(key: &DuplicateKey, unprocessed: &[DuplicateKey]) -> bool {
    if planted::has(Bug::UnprocessedIsDone) {
        return false;
    }
    unprocessed.contains(key)
}

fn key_item(key: &DuplicateKey) -> SdkItem {
    item_key(comment_pk(&key.id), key.filter_key.to_string())
}

fn to_request(write: DuplicateWrite) -> Result<WriteRequest, StoreError> {
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
fn key_of_request(request: &WriteRequest) -> Option<DuplicateKey> {
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
