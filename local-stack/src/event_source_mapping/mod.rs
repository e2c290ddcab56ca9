//! An event source mapping: polls the stream and calls a handler the way the Lambda service does.
//!
//! - Only records of primary items reach the handler, as by the filter in the deployment template.
//! - Records of one item stay in order. The records of a poll are spread over
//!   `parallelization_factor` workers by partition and sort key, and a worker invokes the handler
//!   with one batch after the other. Records of different items come in any order, as from the
//!   service (AWS Lambda, "Polling and batching streams" of DynamoDB: "Lambda still ensures
//!   in-order processing at the item (partition and sort key) level").
//! - `stream` reads the stream. `shards` selects the shards to read: each is read separately, after
//!   its parent was read to the end. `pace` decides how long the mapping waits after a poll.
//! - `outage` decides how long it pauses after a call of the stream that failed, and what it says.
//! - `records` converts stream records to the form that the handlers get.
//! - `plan` decides what happens to a batch that failed: from where it is retried, when it is
//!   split, and when it goes to quarantine.
//!
//! Two settings are not imitated. The batching window only makes people wait on their own machine.
//! The maximum age of a record would put records into quarantine after a machine slept: here the
//! number of tries is the only limit.
//!
//! **Invariant:** a record needs no further delivery only when it was processed or is in
//! quarantine. The position in a shard advances only then, for every record of a poll. Not stored:
//! after a restart, all records that were not trimmed are delivered again.

mod outage;
mod pace;
mod plan;
mod records;
mod settings;
mod shards;
mod stream;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::Arc,
    time::Duration,
};

use aws_lambda_events::{dynamodb::Event, streams::DynamoDbEventResponse};
use aws_sdk_dynamodbstreams::Client;
use functions::{Quarantine, quarantine::Reason};
use futures_util::{
    StreamExt,
    future::BoxFuture,
    stream::{self as futures, FuturesUnordered},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::watch, task::JoinSet, time::Instant};

use outage::Outage;
use pace::Pace;
use plan::{Attempt, LambdaRecord, NextStep, first_failed, next, sequence_number};
pub use records::to_lambda_record;
pub use settings::{MappingSettings, passes_filter};
use shards::Shards;
use stream::{GET_RECORDS_LIMIT, Stream};
pub use stream::{StreamError, streams_client};

/// A function that processes a batch. It also gets the time until which the invocation may start
/// calls.
pub type Handler =
    Arc<dyn Fn(Event, Instant) -> BoxFuture<'static, DynamoDbEventResponse> + Send + Sync>;

/// Pause between two looks at a stream that has no shard yet.
const NO_SHARD_PAUSE: Duration = Duration::from_millis(250);
/// Interval between two looks for new shards. After the end of a shard the mapping looks at once;
/// otherwise new shards are rare.
const DESCRIBE_EVERY: Duration = Duration::from_secs(10);
/// Pause before the first retry of a batch; doubled for each further one, up to
/// [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries of a batch.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long an invocation may take, as in the template's functions.
const INVOCATION_TIMEOUT: Duration = Duration::from_secs(60);
/// A handler starts no further calls when less than this is left until that time-out.
const INVOCATION_RESERVE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Default)]
pub struct MappingState {
    /// The last record that needs no further delivery, in the shard that was read last. In a stream
    /// with one shard, such as the embedded engine's, everything up to it is done.
    pub processed: Option<String>,
    /// Every record that was written before this instant is done.
    pub caught_up_at: Option<Instant>,
    pub quarantined: u64,
    /// Records given to the handler, retries not counted.
    pub records: u64,
}

pub struct EventSourceMapping {
    function: &'static str,
    settings: MappingSettings,
    stream: Stream,
    handler: Handler,
    quarantine: Quarantine,
    pace: Pace,
    state: watch::Sender<MappingState>,
}

impl EventSourceMapping {
    /// A mapping from a stream to a handler; `quarantine` is its on-failure destination. With a
    /// value that changes after each write (`writes`) it polls then, and while there is more.
    /// Otherwise it polls four times a second, as the service does, unless there is more than one
    /// poll takes. Polls without a pause would keep an engine busy.
    pub fn new(
        function: &'static str,
        settings: MappingSettings,
        client: Client,
        stream_arn: String,
        handler: Handler,
        quarantine: Quarantine,
        writes: Option<watch::Receiver<()>>,
    ) -> Self {
        let stream = Stream {
            client,
            arn: stream_arn,
        };
        let pace = match writes {
            Some(writes) => Pace::Woken(writes),
            None => Pace::Service,
        };
        Self {
            function,
            settings,
            stream,
            handler,
            quarantine,
            pace,
            state: watch::Sender::default(),
        }
    }

    pub fn state(&self) -> watch::Receiver<MappingState> {
        self.state.subscribe()
    }

    /// Runs until it is dropped.
    pub async fn run(self) {
        let shards = Mutex::new(Shards::default());
        let mut readers = FuturesUnordered::new();
        let mut outage = Outage::default();
        loop {
            let began = Instant::now();
            let pause = match self.stream.describe().await {
                Ok(described) => {
                    outage.succeeded(self.function);
                    let ready = shards.lock().describe(described, began);
                    readers.extend(
                        ready
                            .into_iter()
                            .map(|shard_id| self.read_shard(shard_id, &shards)),
                    );
                    self.publish(&shards);
                    if shards.lock().is_empty() {
                        NO_SHARD_PAUSE
                    } else {
                        DESCRIBE_EVERY
                    }
                }
                Err(error) => outage.failed(self.function, &error.to_string()),
            };
            // A shard that has ended may have children.
            tokio::select! {
                Some(()) = readers.next() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Reads a shard to its end, which only comes when the shard is closed.
    async fn read_shard(&self, shard_id: String, shards: &Mutex<Shards>) {
        let mut iterator = None;
        let mut processed = None;
        let mut pace = self.pace.clone();
        let mut outage = Outage::default();
        loop {
            // Before the poll: a write during the poll may be missed by it.
            pace.poll_begins();
            let began = Instant::now();
            match self.poll(&shard_id, &mut iterator, &mut processed).await {
                Ok(count) => {
                    outage.succeeded(self.function);
                    if count == 0 {
                        shards.lock().caught_up(&shard_id, began);
                    }
                    if iterator.is_none() {
                        return shards.lock().ended(&shard_id);
                    }
                    if count == 0 {
                        self.publish(shards);
                    }
                    pace.wait(count > 0, count >= usize::from(GET_RECORDS_LIMIT))
                        .await;
                }
                Err(error) => {
                    let pause = outage.failed(self.function, &error.to_string());
                    match error {
                        StreamError::Gone => return shards.lock().ended(&shard_id),
                        StreamError::Trimmed => processed = None,
                        StreamError::Stream(_) => {}
                    }
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Publishes up to when everything in all shards is done.
    fn publish(&self, shards: &Mutex<Shards>) {
        if let Some(caught_up_at) = shards.lock().caught_up_at() {
            self.state
                .send_modify(|state| state.caught_up_at = Some(caught_up_at));
        }
    }

    /// Polls a shard, and delivers what it finds. Returns how many records that is.
    async fn poll(
        &self,
        shard_id: &str,
        iterator: &mut Option<String>,
        processed: &mut Option<String>,
    ) -> Result<usize, StreamError> {
        let (records, next) = self
            .stream
            .poll(shard_id, iterator.take(), processed.as_deref())
            .await?;
        let count = records.len();
        if let Some(last) = records.last() {
            let last = last
                .dynamodb
                .as_ref()
                .and_then(|last| last.sequence_number.clone());
            let mut accepted = Vec::new();
            for record in records {
                let record = to_lambda_record(record, &self.stream.arn)?;
                if passes_filter(&record) {
                    accepted.push(record);
                }
            }
            self.deliver_all(accepted).await;
            self.state
                .send_modify(|state| state.processed.clone_from(&last));
            *processed = last;
        }
        *iterator = next;
        Ok(count)
    }

    /// Delivers the records of a poll, with all workers running concurrently.
    async fn deliver_all(&self, records: Vec<LambdaRecord>) {
        let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        let mut by_worker: BTreeMap<u64, Vec<LambdaRecord>> = BTreeMap::new();
        for record in records {
            by_worker
                .entry(worker_of(&record, self.settings.parallelization_factor))
                .or_default()
                .push(record);
        }
        futures::iter(by_worker.into_values())
            .for_each_concurrent(None, |records| self.deliver_in_order(records))
            .await;
        self.state.send_modify(|state| state.records += count);
    }

    async fn deliver_in_order(&self, records: Vec<LambdaRecord>) {
        let batch_size = self.settings.batch_size.max(1);
        // The next attempt is the last of the list.
        let mut attempts: Vec<Attempt> = records
            .chunks(batch_size)
            .rev()
            .map(|batch| Attempt {
                records: batch.to_vec(),
                failures: 0,
            })
            .collect();
        while let Some(attempt) = attempts.pop() {
            if attempt.failures > 0 {
                let doublings = attempt.failures.saturating_sub(1).min(10);
                tokio::time::sleep((RETRY_PAUSE * 2_u32.pow(doublings)).min(RETRY_PAUSE_MAX)).await;
            }
            let answer = self.invoke(&attempt.records).await;
            let Some(failed_from) = first_failed(&attempt.records, answer.as_ref()) else {
                continue;
            };
            match next(attempt, failed_from, &self.settings) {
                NextStep::Again(again) => attempts.extend(again.into_iter().rev()),
                NextStep::GiveUp(attempt) => self.give_up(attempt).await,
            }
        }
    }

    /// Calls the handler; `None` when it fails as a whole.
    async fn invoke(&self, records: &[LambdaRecord]) -> Option<DynamoDbEventResponse> {
        let event: Event = serde_json::from_value(json!({ "Records": records }))
            .inspect_err(|error| tracing::error!(function = self.function, %error, "the runtime cannot read the event"))
            .ok()?;
        let deadline = Instant::now() + INVOCATION_TIMEOUT;
        // As in the service: in a separate task, so that a panic ends the invocation and not the
        // stack. And in a set, so that an invocation that timed out is ended.
        let mut invocation = JoinSet::new();
        invocation.spawn((self.handler)(event, deadline - INVOCATION_RESERVE));
        let Ok(Some(answered)) = tokio::time::timeout_at(deadline, invocation.join_next()).await
        else {
            tracing::error!(function = self.function, "the function timed out");
            return None;
        };
        answered
            .inspect_err(
                |error| tracing::error!(function = self.function, %error, "the function failed"),
            )
            .ok()
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
fn worker_of(record: &LambdaRecord, workers: u32) -> u64 {
    let keys = record.pointer("/dynamodb/Keys");
    BuildHasherDefault::<DefaultHasher>::new().hash_one(keys) % u64::from(workers.max(1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The worker of an item with this sort key, and the partition key of all.
    fn worker_of_item(number: u32) -> u64 {
        let sk = format!("PRODUCT#{number}/~/~");
        let keys = json!({ "pk": { "S": "COMMENT#c1" }, "sk": { "S": sk } });
        worker_of(&json!({ "dynamodb": { "Keys": keys } }), 10)
    }

    #[test]
    fn an_item_has_one_worker_and_the_items_of_a_partition_key_have_several() {
        let workers: Vec<u64> = (0..100).map(worker_of_item).collect();
        let again: Vec<u64> = (0..100).map(worker_of_item).collect();
        assert_eq!(workers, again);
        assert!(workers.into_iter().collect::<BTreeSet<_>>().len() > 1);
    }
}
