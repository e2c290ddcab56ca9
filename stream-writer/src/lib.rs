//! `stream-writer`: the fan-out. Reads the stream records of primary items and brings their duplicates in line.
//!
//! **Invariant:** nothing is dropped silently. A record is applied, or reported for retry, or in quarantine.

mod config;
mod error;
mod plan;

use std::collections::BTreeSet;

use aws_lambda_events::{dynamodb::Event, streams::DynamoDbEventResponse};
use futures_util::{StreamExt, stream};
use model::{CommentId, record::decode_batch};
use stores::{Quarantine, Table, invocation::batch_response};
use tokio::time::Instant;

pub use config::Config;
pub use plan::plan_calls;

/// The name under which the function's records go to quarantine.
pub const FUNCTION: &str = "stream-writer";

/// The handler, with its connections: made once, used by every invocation.
#[derive(Debug, Clone)]
pub struct StreamWriter {
    table: Table,
    quarantine: Quarantine,
    write_concurrency: usize,
}

impl StreamWriter {
    /// A handler that writes to `table`, `write_concurrency` calls at the same time.
    pub fn new(table: Table, quarantine: Quarantine, write_concurrency: usize) -> Self {
        Self { table, quarantine, write_concurrency: write_concurrency.max(1) }
    }

    /// Processes a batch; no write is started after `deadline`.
    ///
    /// The answer names the records to retry, for `ReportBatchItemFailures`.
    pub async fn handle(&self, event: &Event, deadline: Instant) -> DynamoDbEventResponse {
        let batch = decode_batch(&event.records);
        let mut retry = self.quarantine.put_malformed(FUNCTION, event, &batch.malformed);
        let calls = plan_calls(&batch.changes);
        let results: Vec<_> = stream::iter(calls)
            .map(|call| self.table.write_duplicates(call, deadline))
            .buffer_unordered(self.write_concurrency)
            .collect()
            .await;
        let mut failed: BTreeSet<CommentId> = BTreeSet::new();
        for failure in results.into_iter().filter_map(Result::err) {
            tracing::warn!(error = %failure.error, writes = failure.keys.len(), "duplicates could not be written");
            failed.extend(failure.keys.into_iter().map(|key| key.id));
        }
        retry.extend(error::sequence_numbers_to_retry(&batch.changes, &failed));
        batch_response(retry)
    }
}
