//! `stream-writer`: the fan-out. It reads the stream records of primary items and updates their duplicates to match.
//!
//! **Invariant:** nothing is dropped silently. A record is applied, or reported for retry, or in quarantine.

mod config;
mod error;
mod plan;

use aws_lambda_events::dynamodb::Event;
use functions::{
    Quarantine,
    invocation::{Handled, metrics_of},
    metrics::Metric,
    quarantine::PoisonRecord,
};
use futures_util::{StreamExt, stream};
use model::record::decode_batch;
use table::{DuplicatesWritten, Table};
use tokio::time::Instant;

pub use config::{Config, FanOut};
pub use plan::{Call, plan_calls};

/// The name under which the function's records go to quarantine.
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

    /// Processes a batch. Starts no write after `deadline`.
    ///
    /// The answer names the records to retry, for `ReportBatchItemFailures`.
    pub async fn handle(&self, event: &Event, deadline: Instant) -> Handled {
        let began = Instant::now();
        let mut metrics = metrics_of(event);
        let batch = decode_batch(&event.records);
        let calls = plan_calls(&batch.changes, self.fan_out);
        let planned: usize = calls.iter().map(Call::len).sum();

        let mut written = DuplicatesWritten::default();
        let mut results =
            stream::iter(calls).map(|call| self.write(call, deadline)).buffer_unordered(self.write_concurrency);
        while let Some(result) = results.next().await {
            written.join(result);
        }

        let not_written: usize = written.failed.iter().map(|failed| failed.keys.len()).sum();
        let failures = error::failures(&written.failed, &batch.changes);
        let mut poison = PoisonRecord::malformed(&batch.malformed);
        poison.extend(failures.poison);
        let put = self.quarantine.put_poison_records(FUNCTION, event, &poison, deadline).await;

        metrics.add(Metric::CommentsChanged, batch.changes.len());
        metrics.add(Metric::Writes, planned.saturating_sub(not_written));
        metrics.add(Metric::Retries, written.retries);
        metrics.add(Metric::Unprocessed, written.unprocessed);
        metrics.add(Metric::Quarantined, put.stored);
        Handled::new([put.retry, failures.retry].concat(), metrics, began)
    }

    async fn write(&self, call: Call, deadline: Instant) -> DuplicatesWritten {
        match call {
            Call::Batch(writes) => self.table.write_duplicates(writes, deadline).await,
            Call::Transaction(writes) => self.table.transact_duplicates(writes, deadline).await,
        }
    }
}
