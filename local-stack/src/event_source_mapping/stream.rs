//! The calls that read a stream of DynamoDB.

use std::{collections::BTreeMap, error::Error};

use aws_sdk_dynamodbstreams::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    types::{Record, ShardIteratorType},
};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use process::aws::{Calls, describe, dynamodb_config};
use thiserror::Error;

/// Records asked for in one `GetRecords`; the most that DynamoDB allows.
pub(super) const GET_RECORDS_LIMIT: u16 = 1_000;
/// The most calls that listing a stream's shards may take, at 100 shards an answer. A stream of 24
/// hours has a few shards for each partition of its table.
const DESCRIBE_CALLS_MAX: usize = 1_000;

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

pub async fn streams_client(endpoint: &str, http_client: SharedHttpClient) -> Client {
    Client::new(&dynamodb_config(Some(endpoint), http_client, Calls::PATIENT).await)
}

pub(super) struct Stream {
    pub(super) client: Client,
    pub(super) arn: String,
}

impl Stream {
    pub(super) async fn describe(&self) -> Result<BTreeMap<String, Option<String>>, StreamError> {
        let mut described = BTreeMap::new();
        let mut start = None;
        for _ in 0..DESCRIBE_CALLS_MAX {
            let call = self
                .client
                .describe_stream()
                .stream_arn(&self.arn)
                .set_exclusive_start_shard_id(start);
            let stream = call.send().await.map_err(stream_error)?.stream_description;
            let stream =
                stream.ok_or_else(|| StreamError::Stream("it has no description".to_owned()))?;
            for shard in stream.shards.unwrap_or_default() {
                let id = shard
                    .shard_id
                    .ok_or_else(|| StreamError::Stream("a shard has no id".to_owned()))?;
                described.insert(id, shard.parent_shard_id);
            }
            start = stream.last_evaluated_shard_id;
            if start.is_none() {
                return Ok(described);
            }
        }
        Err(StreamError::Stream(format!(
            "its shards do not fit into {DESCRIBE_CALLS_MAX} answers"
        )))
    }

    /// One poll of a shard: from an iterator, else after the last record that was processed, else
    /// from the beginning. Returns also the next iterator; `None` when the shard is closed and has
    /// been read to its end.
    pub(super) async fn poll(
        &self,
        shard_id: &str,
        iterator: Option<String>,
        processed: Option<&str>,
    ) -> Result<(Vec<Record>, Option<String>), StreamError> {
        let iterator = match iterator {
            Some(iterator) => iterator,
            None => self.iterator(shard_id, processed).await?,
        };
        let call = self
            .client
            .get_records()
            .shard_iterator(iterator)
            .limit(GET_RECORDS_LIMIT.into());
        let answer = call.send().await.map_err(stream_error)?;
        Ok((
            answer.records.unwrap_or_default(),
            answer.next_shard_iterator,
        ))
    }

    async fn iterator(
        &self,
        shard_id: &str,
        processed: Option<&str>,
    ) -> Result<String, StreamError> {
        let kind = match processed {
            Some(_) => ShardIteratorType::AfterSequenceNumber,
            None => ShardIteratorType::TrimHorizon,
        };
        let answer = self
            .client
            .get_shard_iterator()
            .stream_arn(&self.arn)
            .shard_id(shard_id)
            .shard_iterator_type(kind)
            .set_sequence_number(processed.map(str::to_owned))
            .send()
            .await
            .map_err(stream_error)?;
        answer
            .shard_iterator
            .ok_or_else(|| StreamError::Stream("it gave no shard iterator".to_owned()))
    }
}

fn stream_error<E>(error: SdkError<E>) -> StreamError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error.code() {
        Some("TrimmedDataAccessException") => StreamError::Trimmed,
        Some("ResourceNotFoundException") => StreamError::Gone,
        _ => StreamError::Stream(describe(&error)),
    }
}
