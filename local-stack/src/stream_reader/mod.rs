//! Reads a stream of DynamoDB, and hands its records to a consumer.
//!
//! - `shards` selects the shards to read: each is read separately, after its parent was read to the end.
//! - `pace` decides how long a reader waits after a poll.
//!
//! **Invariant:** the position in a shard advances only when the consumer is done with every record of a poll.

mod pace;
mod shards;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aws_sdk_dynamodbstreams::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    types::{Record, ShardIteratorType},
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use thiserror::Error;
use tokio::time::Instant;

pub(crate) use pace::Pace;
use shards::Shards;

/// Records asked for in one `GetRecords`; the most that DynamoDB allows.
const GET_RECORDS_LIMIT: i32 = 1_000;
/// Pause after a call that failed, and between two looks at a stream that has no shard yet.
const ERROR_PAUSE: Duration = Duration::from_millis(250);
/// Interval between two looks for new shards. After the end of a shard the reader looks at once; otherwise new shards
/// are rare.
const DESCRIBE_EVERY: Duration = Duration::from_secs(10);
/// The most calls that listing a stream's shards may take, at 100 shards an answer. A stream of 24 hours has a few
/// shards for each partition of its table.
const DESCRIBE_CALLS_MAX: usize = 1_000;

/// Why a stream cannot be read.
#[derive(Debug, Error)]
pub enum StreamError {
    /// The engine fails, or its answer is not valid.
    #[error("the stream cannot be read: {0}")]
    Stream(String),
    /// The reader's position is older than the oldest record that the stream still holds.
    #[error("the stream has forgotten the records after the last one that was processed")]
    Trimmed,
    /// The stream no longer has the shard and its records, or the stream itself is deleted.
    #[error("there is no such stream or shard any more")]
    Gone,
}

/// What becomes of the records of a stream.
pub(crate) trait Consumer: Send + Sync {
    /// The name of the consumer, for the log.
    fn name(&self) -> &str;

    /// The last record of a shard that needs no further delivery; `None` to read the shard from its beginning.
    fn position(&self, shard: &str) -> Option<String>;

    /// Processes the records of a poll. Returns when none needs another delivery.
    ///
    /// # Errors
    /// A record is not valid. The reader polls again.
    fn deliver(&self, shard: &str, records: Vec<Record>) -> impl Future<Output = Result<(), StreamError>> + Send;

    /// The stream has these shards now.
    fn described(&self, shards: &BTreeSet<String>) -> impl Future<Output = ()> + Send;

    /// The records of a shard after the position are lost. The reader goes on with what the stream still has.
    fn lost(&self, shard: &str, error: StreamError) -> impl Future<Output = ()> + Send;

    /// Every record of a shard is processed, and the shard gets no more.
    fn ended(&self, shard: &str);

    /// Every record that was written before this instant is processed.
    fn caught_up(&self, at: Instant);
}

/// A reader of a stream.
pub(crate) struct StreamReader<C> {
    pub(crate) client: Client,
    pub(crate) stream_arn: String,
    pub(crate) pace: Pace,
    pub(crate) consumer: C,
}

impl<C: Consumer> StreamReader<C> {
    /// Runs until it is dropped. Shards that were read to their ends before are not read again.
    pub(crate) async fn run(self, ended: impl IntoIterator<Item = String>) {
        let shards = Mutex::new(Shards::with_ended(ended));
        let mut readers = FuturesUnordered::new();
        loop {
            let began = Instant::now();
            let pause = match self.describe().await {
                Ok(described) => {
                    self.consumer.described(&described.keys().cloned().collect()).await;
                    let ready = locked(&shards).describe(described, began);
                    readers.extend(ready.into_iter().map(|shard_id| self.read_shard(shard_id, &shards)));
                    self.publish(&shards);
                    if locked(&shards).is_empty() { ERROR_PAUSE } else { DESCRIBE_EVERY }
                }
                Err(error) => {
                    tracing::warn!(consumer = self.consumer.name(), %error, "looking for shards again");
                    ERROR_PAUSE
                }
            };
            // A shard that has ended may have children.
            tokio::select! {
                Some(()) = readers.next() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// The shards of the stream, with their parents.
    async fn describe(&self) -> Result<BTreeMap<String, Option<String>>, StreamError> {
        let (mut described, mut start) = (BTreeMap::new(), None);
        for _ in 0..DESCRIBE_CALLS_MAX {
            let call = self.client.describe_stream().stream_arn(&self.stream_arn).set_exclusive_start_shard_id(start);
            let stream = call.send().await.map_err(stream_error)?.stream_description;
            let stream = stream.ok_or_else(|| StreamError::Stream("it has no description".to_owned()))?;
            for shard in stream.shards.unwrap_or_default() {
                let id = shard.shard_id.ok_or_else(|| StreamError::Stream("a shard has no id".to_owned()))?;
                described.insert(id, shard.parent_shard_id);
            }
            start = stream.last_evaluated_shard_id;
            if start.is_none() {
                return Ok(described);
            }
        }
        Err(StreamError::Stream(format!("its shards do not fit into {DESCRIBE_CALLS_MAX} answers")))
    }

    /// Reads a shard to its end, which only comes when the shard is closed.
    async fn read_shard(&self, shard_id: String, shards: &Mutex<Shards>) {
        let mut iterator = None;
        let mut processed = self.consumer.position(&shard_id);
        let mut pace = self.pace.clone();
        loop {
            // Before the poll: a write during the poll may be missed by it.
            pace.poll_begins();
            let began = Instant::now();
            match self.poll(&shard_id, iterator.take(), processed.as_deref()).await {
                Ok(Polled { next, last, full }) => {
                    let found = last.is_some();
                    match last {
                        Some(last) => processed = Some(last),
                        None => locked(shards).caught_up(&shard_id, began),
                    }
                    if next.is_none() {
                        return self.end(&shard_id, shards);
                    }
                    iterator = next;
                    if !found {
                        self.publish(shards);
                    }
                    pace.wait(found, full).await;
                }
                Err(error @ StreamError::Gone) => {
                    self.consumer.lost(&shard_id, error).await;
                    return self.end(&shard_id, shards);
                }
                Err(error @ StreamError::Trimmed) => {
                    self.consumer.lost(&shard_id, error).await;
                    processed = None;
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
                Err(error @ StreamError::Stream(_)) => {
                    tracing::warn!(consumer = self.consumer.name(), %error, "polling again");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    fn end(&self, shard_id: &str, shards: &Mutex<Shards>) {
        self.consumer.ended(shard_id);
        locked(shards).ended(shard_id);
    }

    /// Publishes the progress of the shards.
    fn publish(&self, shards: &Mutex<Shards>) {
        if let Some(caught_up_at) = locked(shards).caught_up_at() {
            self.consumer.caught_up(caught_up_at);
        }
    }

    /// One poll of a shard: from an iterator, else after the last record that was processed, else from the beginning.
    async fn poll(
        &self,
        shard_id: &str,
        iterator: Option<String>,
        processed: Option<&str>,
    ) -> Result<Polled, StreamError> {
        let iterator = match iterator {
            Some(iterator) => iterator,
            None => self.iterator(shard_id, processed).await?,
        };
        let call = self.client.get_records().shard_iterator(iterator).limit(GET_RECORDS_LIMIT);
        let answer = call.send().await.map_err(stream_error)?;
        let records = answer.records.unwrap_or_default();
        let full = records.len() >= usize::try_from(GET_RECORDS_LIMIT).unwrap_or(usize::MAX);
        let last = last_of(&records);
        if !records.is_empty() {
            self.consumer.deliver(shard_id, records).await?;
        }
        Ok(Polled { next: answer.next_shard_iterator, last, full })
    }

    async fn iterator(&self, shard_id: &str, processed: Option<&str>) -> Result<String, StreamError> {
        let kind = match processed {
            Some(_) => ShardIteratorType::AfterSequenceNumber,
            None => ShardIteratorType::TrimHorizon,
        };
        let answer = self
            .client
            .get_shard_iterator()
            .stream_arn(&self.stream_arn)
            .shard_id(shard_id)
            .shard_iterator_type(kind)
            .set_sequence_number(processed.map(str::to_owned))
            .send()
            .await
            .map_err(stream_error)?;
        answer.shard_iterator.ok_or_else(|| StreamError::Stream("it gave no shard iterator".to_owned()))
    }
}

/// The result of a poll, after its records have been delivered.
struct Polled {
    /// The next iterator; `None` when the shard is closed and has been read to its end.
    next: Option<String>,
    /// The last record; `None` without new records.
    last: Option<String>,
    /// Whether there were as many records as one poll takes.
    full: bool,
}

/// The sequence number of the last of these records.
pub(crate) fn last_of(records: &[Record]) -> Option<String> {
    records.last()?.dynamodb.as_ref()?.sequence_number.clone()
}

fn locked(shards: &Mutex<Shards>) -> MutexGuard<'_, Shards> {
    // Every change leaves the shards whole, so a panic elsewhere does not spoil them.
    shards.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stream_error<E>(error: SdkError<E>) -> StreamError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match error.code() {
        Some("TrimmedDataAccessException") => StreamError::Trimmed,
        Some("ResourceNotFoundException") => StreamError::Gone,
        _ => StreamError::Stream(aws_sdk_dynamodb::error::DisplayErrorContext(error).to_string()),
    }
}
