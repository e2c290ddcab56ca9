//! `page-indexer`: reads the stream records of primary items and brings the base sets of the page index in line.
//!
//! **Invariant:** nothing is dropped silently. A record is applied, or reported for retry, or in quarantine.

mod config;
mod error;
mod plan;

use aws_lambda_events::{dynamodb::Event, streams::DynamoDbEventResponse};
use model::{plan::IndexEdit, record::decode_batch};
use stores::{PageIndex, Quarantine, StoreError, invocation::batch_response};
use tokio::time::Instant;

pub use config::Config;
pub use plan::plan_edits;

/// The name under which the function's records go to quarantine.
pub const FUNCTION: &str = "page-indexer";

/// The handler, with its connection: made once, used by every invocation.
#[derive(Debug, Clone)]
pub struct PageIndexer {
    index: PageIndex,
    quarantine: Quarantine,
}

impl PageIndexer {
    /// A handler that writes to `index`.
    pub fn new(index: PageIndex, quarantine: Quarantine) -> Self {
        Self { index, quarantine }
    }

    /// Processes a batch; no call is started after `deadline`.
    ///
    /// The answer names the records to retry, for `ReportBatchItemFailures`.
    pub async fn handle(&self, event: &Event, deadline: Instant) -> DynamoDbEventResponse {
        let batch = decode_batch(&event.records);
        let mut retry = self.quarantine.put_malformed(FUNCTION, event, &batch.malformed);
        if let Err(error) = self.apply(&plan_edits(&batch.changes), deadline).await {
            tracing::warn!(%error, comments = batch.changes.len(), "the page index could not be edited");
            // Edits are cheap and repeatable: the whole batch is tried again.
            retry.extend(batch.changes.into_iter().map(|change| change.first_sequence_number));
        }
        batch_response(retry)
    }

    async fn apply(&self, edits: &[IndexEdit], deadline: Instant) -> Result<(), StoreError> {
        loop {
            let applied = tokio::time::timeout_at(deadline, self.index.apply(edits)).await;
            match applied.unwrap_or_else(|_| Err(StoreError::index_timed_out())) {
                Err(error) if error::worth_another_try(&error, deadline) => {
                    tokio::time::sleep(error::RETRY_PAUSE).await
                }
                applied => return applied,
            }
        }
    }
}
