//! `stream-writer`: the fan-out. It reads the stream records of primary items and updates their duplicates to match.
//!
//! **Invariant:** nothing is dropped silently. A record is applied, or reported for retry, or in quarantine.

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

pub use config::{Config, FanOut};
pub use plan::{Call, plan_calls};

pub const FUNCTION: &str = "stream-writer";

/// The handler and its connections. A process creates it once, and every invocation uses it.
#[derive(Debug, Clone)]
pub struct StreamWriter {
    table: Table,
    quarantine: Quarantine,
    fan_out: FanOut,
    write_concurrency: usize,
}

impl StreamWriter {
    /// A handler that writes to `table` with `write_concurrency` calls in parallel.
    pub fn new(table: Table, quarantine: Quarantine, fan_out: FanOut, write_concurrency: usize) -> Self {
        Self { table, quarantine, fan_out, write_concurrency: write_concurrency.max(1) }
    }

    /// Processes a batch. No call outlasts `deadline`, and none starts when less than the time of one attempt is left.
    ///
    /// The answer names the records to retry, for `ReportBatchItemFailures`.
    pub async fn handle(&self, event: &Event, deadline: Instant) -> Handled {
        let mut invocation = Invocation::begin(FUNCTION, event, deadline);
        let calls = plan_calls(&invocation.batch.changes, self.fan_out);
        let planned = calls.iter().map(|call| call.writes().len()).sum();

        let mut written = DuplicatesWritten::default();
        let mut results =
            stream::iter(calls).map(|call| self.write(call, deadline)).buffer_unordered(self.write_concurrency);
        while let Some(result) = results.next().await {
            written.join(result);
        }
        invocation.metrics.add(Metric::Retries, written.retries);
        invocation.metrics.add(Metric::Unprocessed, written.unprocessed);

        let failed = written.failed.iter().flat_map(|FailedWrites { keys, error }| {
            keys.iter().map(move |key| (&key.id, &key.filter_key.product, error))
        });
        invocation.end(&self.quarantine, planned, failed.collect()).await
    }

    async fn write(&self, call: Call, deadline: Instant) -> DuplicatesWritten {
        match call {
            Call::Batch(writes) => self.table.write_duplicates(writes, deadline).await,
            Call::Transaction(writes) => self.table.transact_duplicates(writes, deadline).await,
        }
    }
}
