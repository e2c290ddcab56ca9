//! Writes duplicates with batch calls.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::WriteRequest;
use model::{
    item::{attribute, comment_pk},
    plan::{DuplicateKey, DuplicateWrite},
};
use process::{Backoff, Remedy, Store, StoreError};
use tokio::time::Instant;

use super::{DuplicatesWritten, FailedWrites, to_request};
use crate::Table;
use crate::error::store_error;

type Pending = HashMap<(String, String), (DuplicateKey, WriteRequest)>;

impl Table {
    /// Maximum number of writes in one batch (AWS: `BatchWriteItem`).
    pub const BATCH_MAX: usize = 25;

    /// Writes a batch of at most [`Table::BATCH_MAX`] duplicates with different keys. No call outlasts `deadline`, and
    /// none starts when less than the time of one attempt is left.
    ///
    /// Unprocessed writes are sent again with jittered back-off. DynamoDB rejects a whole batch when it rejects one
    /// write. Such a batch is halved until the rejected write is alone, which takes at most twice as many calls as
    /// there are writes.
    pub async fn write_duplicates(&self, batch: Vec<DuplicateWrite>, deadline: Instant) -> DuplicatesWritten {
        let mut written = DuplicatesWritten::default();
        let mut pending = Pending::new();
        for write in batch {
            let key = write.key().clone();
            match to_request(write) {
                Ok(request) => {
                    pending.insert((comment_pk(&key.id), key.filter_key.to_string()), (key, request));
                }
                Err(error) => written.failed.push(FailedWrites { keys: vec![key], error }),
            }
        }
        let mut parts = vec![pending];
        while let Some(mut part) = parts.pop() {
            let Err(error) = self.write_part(&mut part, deadline, &mut written).await else { continue };
            if error.remedy() == Remedy::Quarantine && part.len() > 1 {
                let half = part.len() / 2;
                let mut writes = part.into_iter();
                parts.push(writes.by_ref().take(half).collect());
                parts.push(writes.collect());
                continue;
            }
            written.failed.push(FailedWrites { keys: part.into_values().map(|(key, _)| key).collect(), error });
        }
        written
    }

    async fn write_part(
        &self,
        pending: &mut Pending,
        deadline: Instant,
        written: &mut DuplicatesWritten,
    ) -> Result<(), StoreError> {
        let last_start = self.last_start(deadline);
        let mut backoff = Backoff::until(last_start);
        while !pending.is_empty() {
            if Instant::now() >= last_start {
                return Err(StoreError::past_deadline(Store::Table));
            }
            let requests = pending.values().map(|(_, request)| request.clone()).collect();
            let call = self.client.batch_write_item().request_items(&self.name, requests);
            let sent = call.set_return_consumed_capacity(self.wants_capacity()).send();
            let answer = match tokio::time::timeout_at(deadline, sent).await {
                Ok(answer) => answer.map_err(store_error),
                Err(_) => Err(StoreError::past_deadline(Store::Table)),
            };
            let error = match answer {
                Ok(answer) => {
                    self.charge_write(answer.consumed_capacity());
                    let left = answer.unprocessed_items.unwrap_or_default().remove(&self.name).unwrap_or_default();
                    let left: Vec<_> = left.iter().filter_map(key_of).collect();
                    pending.retain(|key, _| left.contains(key));
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

fn key_of(request: &WriteRequest) -> Option<(String, String)> {
    let attributes = match (&request.put_request, &request.delete_request) {
        (Some(put), _) => &put.item,
        (_, Some(delete)) => &delete.key,
        _ => return None,
    };
    let text = |name: &str| attributes.get(name)?.as_s().ok().cloned();
    Some((text(attribute::PK)?, text(attribute::SK)?))
}
