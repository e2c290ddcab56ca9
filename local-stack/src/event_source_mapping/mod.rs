//! An event source mapping: polls the stream and calls a handler the way the Lambda service does.
//!
//! - Only records of primary items reach the handler, as by the filter in the deployment template.
//! - Records of one item stay in order. The records of a poll are spread over `parallelization_factor` workers by
//!   partition and sort key, and a worker invokes the handler with one batch after the other. Records of different
//!   items come in any order, as from the service (AWS Lambda, "Polling and batching streams" of DynamoDB: "Lambda
//!   still ensures in-order processing at the item (partition and sort key) level").
//! - `stream_reader` reads the shards.
//! - `records` converts stream records to the form that the handlers get.
//! - `plan` decides what happens to a batch that failed: from where it is retried, when it is split, and when it goes
//!   to quarantine.
//!
//! Two settings are not imitated. The batching window only makes people wait on their own machine. The maximum age of a
//! record would put records into quarantine after a machine slept: here the number of tries is the only limit.
//!
//! **Invariant:** a record needs no further delivery only when it was processed or is in quarantine. The position is not
//! stored: after a restart, all records that were not trimmed are delivered again.

mod plan;
mod records;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::Arc,
    time::Duration,
};

use aws_lambda_events::{dynamodb::Event, streams::DynamoDbEventResponse};
use aws_sdk_dynamodbstreams::{Client, types::Record as SdkRecord};
use functions::{Quarantine, quarantine::Reason};
use futures_util::{StreamExt, future::BoxFuture, stream};
use model::FilterKey;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use plan::{Attempt, Next, Record, first_failed, next, sequence_number};
pub use records::to_lambda_record;

use crate::stream_reader::{Consumer, Pace, StreamError, StreamReader, last_of};

/// A function that processes a batch. It also gets the time until which the invocation may start calls.
pub type Handler = Arc<dyn Fn(Event, Instant) -> BoxFuture<'static, DynamoDbEventResponse> + Send + Sync>;

/// Pause before the first retry of a batch; doubled for each further one, up to [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries of a batch.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long an invocation may take, as in the template's functions.
const INVOCATION_TIMEOUT: Duration = Duration::from_secs(60);
/// A handler starts no further calls when less than this is left until that time-out.
const INVOCATION_RESERVE: Duration = Duration::from_secs(2);

/// The settings of a mapping that are imitated here. A test compares the constants with the deployment template
/// (`tests/template/mappings.rs`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingSettings {
    pub batch_size: usize,
    /// After so many retries a batch goes to quarantine.
    pub maximum_retry_attempts: u32,
    /// How many batches of one shard run in parallel. They are divided by item: partition and sort key.
    pub parallelization_factor: u32,
    /// Whether a batch that failed as a whole is split in two.
    pub bisect_batch_on_function_error: bool,
}

impl MappingSettings {
    pub const STREAM_WRITER: Self = Self {
        batch_size: 100,
        maximum_retry_attempts: 10_000,
        parallelization_factor: 10,
        bisect_batch_on_function_error: true,
    };

    pub const PAGE_INDEXER: Self = Self { parallelization_factor: 4, ..Self::STREAM_WRITER };
}

/// Whether a stream record, in the form that the handlers get, passes the filter of the mappings.
pub fn passes_filter(record: &Value) -> bool {
    let sort_key = record.pointer("/dynamodb/Keys/sk/S").and_then(Value::as_str);
    sort_key.is_some_and(|sort_key| sort_key.ends_with(FilterKey::PRIMARY_SUFFIX))
}

/// The progress of a mapping.
#[derive(Debug, Clone, Default)]
pub struct MappingState {
    /// The last record that needs no further delivery, in the shard that was read last. In a stream with one shard,
    /// such as the embedded engine's, everything up to it is done.
    pub processed: Option<String>,
    /// Every record that was written before this instant is done.
    pub caught_up_at: Option<Instant>,
    /// Batches given up and put into quarantine.
    pub quarantined: u64,
    /// Records given to the handler, retries not counted.
    pub records: u64,
}

/// An event source mapping.
pub struct EventSourceMapping {
    function: &'static str,
    settings: MappingSettings,
    client: Client,
    stream_arn: String,
    handler: Handler,
    quarantine: Quarantine,
    pace: Pace,
    state: watch::Sender<MappingState>,
}

impl EventSourceMapping {
    /// A mapping from a stream to a handler; `quarantine` is its on-failure destination. It polls four times a second, as
    /// the service does, unless there is more than one poll takes.
    pub fn new(
        function: &'static str,
        settings: MappingSettings,
        client: Client,
        stream_arn: String,
        handler: Handler,
        quarantine: Quarantine,
    ) -> Self {
        let (pace, state) = (Pace::Service, watch::Sender::default());
        Self { function, settings, client, stream_arn, handler, quarantine, pace, state }
    }

    /// The mapping, but it polls after each write, which changes `writes`, and while there is more. Without one it
    /// polls every five seconds, in case a write was not announced.
    pub fn woken_by(self, writes: watch::Receiver<()>) -> Self {
        Self { pace: Pace::Woken(writes), ..self }
    }

    /// The progress of the mapping.
    pub fn state(&self) -> watch::Receiver<MappingState> {
        self.state.subscribe()
    }

    /// Runs until it is dropped.
    pub async fn run(self) {
        let (client, stream_arn, pace) = (self.client.clone(), self.stream_arn.clone(), self.pace.clone());
        StreamReader { client, stream_arn, pace, consumer: self }.run([]).await;
    }

    /// Delivers the records of a poll, with all workers running concurrently.
    async fn deliver_all(&self, records: Vec<Record>) {
        let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        let mut by_worker: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
        for record in records {
            by_worker.entry(worker_of(&record, self.settings.parallelization_factor)).or_default().push(record);
        }
        stream::iter(by_worker.into_values()).for_each_concurrent(None, |records| self.deliver_in_order(records)).await;
        self.state.send_modify(|state| state.records += count);
    }

    async fn deliver_in_order(&self, records: Vec<Record>) {
        let batch_size = self.settings.batch_size.max(1);
        // The next attempt is the last of the list.
        let mut attempts: Vec<Attempt> =
            records.chunks(batch_size).rev().map(|batch| Attempt { records: batch.to_vec(), failures: 0 }).collect();
        while let Some(attempt) = attempts.pop() {
            if attempt.failures > 0 {
                let doublings = attempt.failures.saturating_sub(1).min(10);
                tokio::time::sleep((RETRY_PAUSE * 2_u32.pow(doublings)).min(RETRY_PAUSE_MAX)).await;
            }
            let answer = self.invoke(&attempt.records).await;
            let Some(failed_from) = first_failed(&attempt.records, answer.as_ref()) else { continue };
            match next(attempt, failed_from, &self.settings) {
                Next::Again(again) => attempts.extend(again.into_iter().rev()),
                Next::GiveUp(attempt) => self.give_up(attempt).await,
            }
        }
    }

    /// Calls the handler; `None` when it fails as a whole.
    async fn invoke(&self, records: &[Record]) -> Option<DynamoDbEventResponse> {
        let event: Event = serde_json::from_value(json!({ "Records": records }))
            .inspect_err(|error| tracing::error!(function = self.function, %error, "the runtime cannot read the event"))
            .ok()?;
        let deadline = Instant::now() + INVOCATION_TIMEOUT;
        // As in the service: in a separate task, so that a panic ends the invocation and not the stack. And in a set,
        // so that an invocation that timed out is ended.
        let mut invocation = JoinSet::new();
        invocation.spawn((self.handler)(event, deadline - INVOCATION_RESERVE));
        let Ok(Some(answered)) = tokio::time::timeout_at(deadline, invocation.join_next()).await else {
            tracing::error!(function = self.function, "the function timed out");
            return None;
        };
        answered.inspect_err(|error| tracing::error!(function = self.function, %error, "the function failed")).ok()
    }

    /// Puts a batch into quarantine. While that fails, the worker waits: nothing is dropped.
    async fn give_up(&self, attempt: Attempt) {
        let condition = "RetryAttemptsExhausted";
        let reason = Reason {
            function: self.function.to_owned(),
            condition: condition.to_owned(),
            detail: "Unhandled".to_owned(),
            invoke_count: attempt.failures,
        };
        tracing::error!(
            function = self.function,
            condition,
            records = attempt.records.len(),
            first = attempt.records.first().and_then(sequence_number),
            "a batch goes to quarantine"
        );
        let event = json!({ "Records": attempt.records });
        while let Err(error) = self.quarantine.put(&reason, &event).await {
            tracing::error!(function = self.function, %error, "trying again");
            tokio::time::sleep(RETRY_PAUSE_MAX).await;
        }
        self.state.send_modify(|state| state.quarantined += 1);
    }
}

/// The worker for a record, by the key of its item: the partition key and the sort key.
fn worker_of(record: &Record, workers: u32) -> u64 {
    let key = |name| record.pointer(name).and_then(Value::as_str);
    let keys = (key("/dynamodb/Keys/pk/S"), key("/dynamodb/Keys/sk/S"));
    BuildHasherDefault::<DefaultHasher>::new().hash_one(keys) % u64::from(workers.max(1))
}

impl Consumer for EventSourceMapping {
    fn name(&self) -> &str {
        self.function
    }

    /// The position is not stored.
    fn position(&self, _shard: &str) -> Option<String> {
        None
    }

    async fn deliver(&self, _shard: &str, records: Vec<SdkRecord>) -> Result<(), StreamError> {
        let last = last_of(&records);
        let mut accepted = Vec::new();
        for record in records {
            let record = to_lambda_record(record, &self.stream_arn)?;
            if passes_filter(&record) {
                accepted.push(record);
            }
        }
        self.deliver_all(accepted).await;
        self.state.send_modify(|state| state.processed = last);
        Ok(())
    }

    async fn described(&self, _shards: &BTreeSet<String>) {}

    async fn lost(&self, shard: &str, error: StreamError) {
        tracing::warn!(function = self.function, shard, %error, "going on with what the stream still has");
    }

    fn ended(&self, _shard: &str) {}

    fn caught_up(&self, at: Instant) {
        self.state.send_modify(|state| state.caught_up_at = Some(at));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_item_has_one_worker_and_the_items_of_a_partition_key_have_several() {
        let worker = |number: u32| {
            let (pk, sk) = ("COMMENT#c1", format!("PRODUCT#{number}/~/~"));
            worker_of(&json!({ "dynamodb": { "Keys": { "pk": { "S": pk }, "sk": { "S": sk } } } }), 10)
        };
        let workers = || (0..100).map(worker);
        assert!(workers().eq(workers()));
        assert!(workers().collect::<BTreeSet<_>>().len() > 1);
    }
}
