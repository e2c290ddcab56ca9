//! An event source mapping: polls the stream and calls a handler the way the Lambda service does.
//!
//! - Records that the template's filter does not accept never reach the handler.
//! - Records of one comment stay in order: the records of a poll are spread over `parallelization_factor` lanes by
//!   their partition key, and a lane invokes the handler with one batch after the other.
//! - `plan` decides what happens to a batch that failed: from where it is retried, when it is split, when it goes to
//!   quarantine.
//!
//! What is not imitated: the batching window (whoever works on their own machine does not want to wait for it).
//!
//! **Invariant:** the position in the stream moves on only when every record of a poll was processed or is in
//! quarantine. It is not kept: after a restart, what was not trimmed is delivered again.

mod plan;
mod records;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lambda_events::{dynamodb::Event, streams::DynamoDbEventResponse};
use aws_sdk_dynamodbstreams::{Client, types::ShardIteratorType};
use futures_util::{StreamExt, future::BoxFuture, stream};
use infra::MappingSettings;
use serde_json::json;
use stores::{Quarantine, quarantine::Reason};
use thiserror::Error;
use tokio::{sync::watch, task::JoinSet, time::Instant};

use plan::{Attempt, Next, Record, judge, next, sequence_number};
pub use records::to_lambda_record;

/// What is called with a batch, and the time until which the invocation may start calls.
pub type Handler = Arc<dyn Fn(Event, Instant) -> BoxFuture<'static, DynamoDbEventResponse> + Send + Sync>;

/// Records asked for in one `GetRecords`; the most that DynamoDB allows.
const GET_RECORDS_LIMIT: i32 = 1_000;
/// Between two polls of a stream that has nothing new. The service polls four times a second; nobody wants to wait for
/// that on their own machine.
const IDLE_PAUSE: Duration = Duration::from_millis(25);
/// After a poll that failed.
const ERROR_PAUSE: Duration = Duration::from_millis(250);
/// Before the first retry of a batch; doubled for each further one, up to [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries of a batch.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long an invocation may take, as in the template's functions.
const INVOCATION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long before that time-out a handler must start no further call.
const INVOCATION_RESERVE: Duration = Duration::from_secs(2);

/// Why a mapping cannot read its stream.
#[derive(Debug, Error)]
pub enum MappingError {
    /// The engine does not answer as it should.
    #[error("the stream cannot be read: {0}")]
    Stream(String),
}

/// How far a mapping is.
#[derive(Debug, Clone, Default)]
pub struct MappingState {
    /// The last record of the stream that needs no further delivery.
    pub processed: Option<String>,
    /// When the last poll began that found nothing new.
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
    state: watch::Sender<MappingState>,
}

impl std::fmt::Debug for EventSourceMapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventSourceMapping").field("function", &self.function).finish_non_exhaustive()
    }
}

impl EventSourceMapping {
    /// A mapping from a stream to a handler; `quarantine` is its on-failure destination.
    pub fn new(
        function: &'static str,
        settings: MappingSettings,
        client: Client,
        stream_arn: String,
        handler: Handler,
        quarantine: Quarantine,
    ) -> Self {
        Self { function, settings, client, stream_arn, handler, quarantine, state: watch::Sender::default() }
    }

    /// How far the mapping is.
    pub fn state(&self) -> watch::Receiver<MappingState> {
        self.state.subscribe()
    }

    /// Runs until it is dropped.
    pub async fn run(self) {
        let mut iterator = None;
        loop {
            match self.poll(iterator.take()).await {
                Ok(next) => iterator = next,
                Err(error) => {
                    tracing::warn!(function = self.function, %error, "polling again");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    /// One poll; returns the iterator for the next, `None` to ask for a new one.
    async fn poll(&self, iterator: Option<String>) -> Result<Option<String>, MappingError> {
        let iterator = match iterator {
            Some(iterator) => iterator,
            None => self.iterator().await?,
        };
        let began = Instant::now();
        let answer = self
            .client
            .get_records()
            .shard_iterator(iterator)
            .limit(GET_RECORDS_LIMIT)
            .send()
            .await
            .map_err(stream_error)?;
        let records = answer.records.unwrap_or_default();
        let Some(last) = records.last().and_then(|record| record.dynamodb.as_ref()?.sequence_number.clone()) else {
            self.state.send_modify(|state| state.caught_up_at = Some(began));
            tokio::time::sleep(IDLE_PAUSE).await;
            return Ok(answer.next_shard_iterator);
        };
        let mut accepted = Vec::new();
        for record in records {
            let record = to_lambda_record(record, &self.stream_arn)?;
            if self.settings.filter.matches(&record) {
                accepted.push(record);
            }
        }
        self.deliver(accepted).await;
        self.state.send_modify(|state| state.processed = Some(last));
        Ok(answer.next_shard_iterator)
    }

    async fn iterator(&self) -> Result<String, MappingError> {
        let described =
            self.client.describe_stream().stream_arn(&self.stream_arn).send().await.map_err(stream_error)?;
        let shards = described.stream_description.and_then(|stream| stream.shards).unwrap_or_default();
        // The engine keeps one shard for ever.
        let [shard] = shards.as_slice() else {
            return Err(MappingError::Stream(format!("it has {} shards, the engine should have one", shards.len())));
        };
        let processed = self.state.borrow().processed.clone();
        let kind = match processed {
            Some(_) => ShardIteratorType::AfterSequenceNumber,
            None => ShardIteratorType::TrimHorizon,
        };
        let answer = self
            .client
            .get_shard_iterator()
            .stream_arn(&self.stream_arn)
            .set_shard_id(shard.shard_id.clone())
            .shard_iterator_type(kind)
            .set_sequence_number(processed)
            .send()
            .await
            .map_err(stream_error)?;
        answer.shard_iterator.ok_or_else(|| MappingError::Stream("it gave no shard iterator".to_owned()))
    }

    /// Delivers the records of a poll, the lanes at the same time.
    async fn deliver(&self, records: Vec<Record>) {
        let lanes = usize::try_from(self.settings.parallelization_factor).unwrap_or(1).max(1);
        let mut by_lane: Vec<Vec<Record>> = vec![Vec::new(); lanes];
        let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        for record in records {
            let lane = lane_of(&record, lanes);
            if let Some(lane) = by_lane.get_mut(lane) {
                lane.push(record);
            }
        }
        stream::iter(by_lane).for_each_concurrent(None, |lane| self.deliver_lane(lane)).await;
        self.state.send_modify(|state| state.records += count);
    }

    async fn deliver_lane(&self, records: Vec<Record>) {
        let batch_size = usize::try_from(self.settings.batch_size).unwrap_or(1).max(1);
        // The next attempt is the last of the list.
        let mut attempts: Vec<Attempt> =
            records.chunks(batch_size).rev().map(|batch| Attempt { records: batch.to_vec(), failures: 0 }).collect();
        while let Some(attempt) = attempts.pop() {
            if attempt.failures > 0 {
                let doublings = attempt.failures.saturating_sub(1).min(10);
                tokio::time::sleep((RETRY_PAUSE * 2_u32.pow(doublings)).min(RETRY_PAUSE_MAX)).await;
            }
            if self.is_too_old(&attempt) {
                self.give_up(attempt, "RecordAgeExceeded").await;
                continue;
            }
            let answer = self.invoke(&attempt.records).await;
            let verdict = judge(&attempt.records, answer.as_ref(), &self.settings);
            match next(attempt, verdict, &self.settings) {
                Next::Done => {}
                Next::Again(again) => attempts.extend(again.into_iter().rev()),
                Next::GiveUp(attempt) => self.give_up(attempt, "RetryAttemptsExhausted").await,
            }
        }
    }

    fn is_too_old(&self, attempt: &Attempt) -> bool {
        let (Some(maximum), Some(first)) = (self.settings.maximum_record_age_seconds, attempt.records.first()) else {
            return false;
        };
        let created = first.pointer("/dynamodb/ApproximateCreationDateTime").and_then(serde_json::Value::as_f64);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        created.is_some_and(|created| now.as_secs_f64() - created > f64::from(maximum))
    }

    /// Calls the handler; `None` when it fails as a whole.
    async fn invoke(&self, records: &[Record]) -> Option<DynamoDbEventResponse> {
        let event: Event = match serde_json::from_value(json!({ "Records": records })) {
            Ok(event) => event,
            Err(error) => {
                tracing::error!(function = self.function, %error, "the runtime cannot read the event");
                return None;
            }
        };
        let deadline = Instant::now() + INVOCATION_TIMEOUT;
        // In a task of its own, so that a panic ends the invocation and not the stack, as in the service; in a set,
        // so that one that is not waited for any more is ended, as in the service too.
        let mut invocation = JoinSet::new();
        invocation.spawn((self.handler)(event, deadline - INVOCATION_RESERVE));
        match tokio::time::timeout_at(deadline, invocation.join_next()).await {
            Ok(Some(Ok(answer))) => Some(answer),
            Ok(Some(Err(error))) => {
                tracing::error!(function = self.function, %error, "the function failed");
                None
            }
            Ok(None) | Err(_) => {
                tracing::error!(function = self.function, "the function timed out");
                None
            }
        }
    }

    /// Puts a batch into quarantine. While that fails, the lane stands still: nothing is dropped.
    async fn give_up(&self, attempt: Attempt, condition: &str) {
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

/// The lane of a record, by its partition key.
fn lane_of(record: &Record, lanes: usize) -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    record.pointer("/dynamodb/Keys/pk/S").and_then(serde_json::Value::as_str).hash(&mut hasher);
    usize::try_from(hasher.finish() % u64::try_from(lanes).unwrap_or(1)).unwrap_or(0)
}

fn stream_error<E>(error: aws_sdk_dynamodbstreams::error::SdkError<E>) -> MappingError
where
    E: std::error::Error + Send + Sync + 'static,
{
    MappingError::Stream(aws_sdk_dynamodb::error::DisplayErrorContext(error).to_string())
}
