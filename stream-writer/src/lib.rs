//! `stream-writer`: the fan-out. It reads the stream records of primary items and updates their
//! duplicates to match.
//!
//! **Invariant:** nothing is dropped silently. A record is applied, or reported for retry, or in
//! quarantine.

mod config;
mod plan;

use aws_lambda_events::dynamodb::Event;
use functions::{
    Quarantine,
    invocation::{Handled, Invocation},
    metrics::Metric,
};
use futures_util::{StreamExt, stream};
use table::{DuplicatesWritten, FailedWrites, Table};
use tokio::time::Instant;

pub use config::StreamWriterConfig;
pub use plan::plan_calls;

pub const FUNCTION: &str = "stream-writer";

/// The handler and its connections. A process creates it once, and every invocation uses it.
#[derive(Debug, Clone)]
pub struct StreamWriter {
    table: Table,
    quarantine: Quarantine,
    write_concurrency: usize,
}

impl StreamWriter {
    /// At most `write_concurrency` calls run in parallel.
    pub fn new(table: Table, quarantine: Quarantine, write_concurrency: usize) -> Self {
        Self {
            table,
            quarantine,
            write_concurrency: write_concurrency.max(1),
        }
    }

    /// Processes a batch. No call outlasts `deadline`, and none starts when less than the time of
    /// one attempt remains.
    ///
    /// The answer names the records to retry, for `ReportBatchItemFailures`.
    pub async fn handle(&self, event: &Event, deadline: Instant) -> Handled {
        let mut invocation = Invocation::begin(FUNCTION, event, deadline);
        let calls = plan_calls(&invocation.batch.changes);
        let planned = calls.iter().map(Vec::len).sum();

        let mut written = DuplicatesWritten::default();
        let writing = stream::iter(calls).map(|call| self.table.write_duplicates(call, deadline));
        let mut results = writing.buffer_unordered(self.write_concurrency);
        while let Some(result) = results.next().await {
            written.join(result);
        }
        invocation.metrics.add(Metric::Retries, written.retries);
        invocation
            .metrics
            .add(Metric::Unprocessed, written.unprocessed);

        let failed = written
            .failed
            .iter()
            .flat_map(|FailedWrites { keys, error }| {
                keys.iter()
                    .map(move |key| (&key.id, &key.filter_key.product, error))
            });
        invocation
            .end(&self.quarantine, planned, failed.collect())
            .await
    }
}
