//! Writes duplicates with transactions.

use aws_sdk_dynamodb::types::TransactWriteItem;
use model::plan::{DuplicateKey, DuplicateWrite};
use process::{Remedy, Store, StoreError};
use tokio::time::Instant;

use super::{DuplicatesWritten, FailedWrites, to_action};
use crate::{Guarded, Table};

impl Table {
    /// Writes duplicates in one transaction: all of them, or none. There are at most [`Table::TRANSACTION_MAX`] writes
    /// with different keys. No call outlasts `deadline`, and none
    /// starts when less than the time of one attempt is left.
    ///
    /// DynamoDB may reject the transaction because one item, or all of them together (4 MB), are too large. Then the
    /// writes are sent as batches, which show the write that is rejected.
    pub async fn transact_duplicates(&self, writes: Vec<DuplicateWrite>, deadline: Instant) -> DuplicatesWritten {
        let mut written = DuplicatesWritten::default();
        let keys = || -> Vec<DuplicateKey> { writes.iter().map(|write| write.key().clone()).collect() };
        let actions: Result<Vec<TransactWriteItem>, StoreError> =
            writes.iter().map(|write| to_action(write.clone(), &self.name)).collect();
        let outcome = match actions {
            Ok(actions) => {
                self.transact_until((self.last_start(deadline), deadline), actions, &mut written.retries).await
            }
            Err(error) => Err(error),
        };
        let error = match outcome {
            Ok(Guarded::Done) => return written,
            // The writes have no conditions.
            Ok(Guarded::Changed) => StoreError::refused(Store::Table, "a condition failed that nobody set"),
            Err(error) => error,
        };
        match error.remedy() {
            Remedy::TryAgain | Remedy::CallOperator => {
                written.failed.push(FailedWrites { keys: keys(), error });
            }
            Remedy::Quarantine => {
                tracing::warn!(%error, "a transaction of duplicates is written as batches instead");
                for batch in writes.chunks(Self::BATCH_MAX) {
                    written.join(self.write_duplicates(batch.to_vec(), deadline).await);
                }
            }
        }
        written
    }
}
