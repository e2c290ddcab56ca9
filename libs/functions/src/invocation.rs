//! The parts of a Lambda invocation that the stream handlers share: its event, its deadline and its
//! answer.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lambda_events::{
    dynamodb::{Event, EventRecord},
    streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse},
};
use model::{
    CommentId, ProductId,
    planted::{self, Bug},
    record::{CommentChange, DecodedBatch, decode_batch},
};
use process::{Remedy, Store, StoreError};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    metrics::{InvocationMetrics, Metric},
    quarantine::{Quarantine, Reason},
};

/// The event of an invocation.
///
/// **Invariant:** the error for an unreadable event does not repeat the content, which may be a
/// comment's text: the Lambda runtime logs the error and answers with it
/// (`tests/deployment/deployed.rs`).
#[derive(Debug, Clone)]
pub struct StreamEvent(pub Event);

impl<'de> Deserialize<'de> for StreamEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let event = Event::deserialize(deserializer);
        event
            .map(Self)
            .map_err(|_| D::Error::custom("this is not an event of a DynamoDB stream"))
    }
}

/// Time reserved for answering after the last call. The answer takes milliseconds; the rest is for
/// slow machines.
const RESERVE: Duration = Duration::from_millis(500);

/// The instant until which an invocation may start calls. The Lambda runtime gives the deadline in
/// milliseconds since 1970 (AWS Lambda, "Runtime API", `Lambda-Runtime-Deadline-Ms`).
pub fn deadline_at(deadline_epoch_ms: u64) -> Instant {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Instant::now()
        + Duration::from_millis(deadline_epoch_ms)
            .saturating_sub(now)
            .saturating_sub(RESERVE)
}

/// The outcome of a batch in a stream handler.
#[derive(Debug, Clone, Default)]
pub struct Handled {
    pub response: DynamoDbEventResponse,
    pub metrics: InvocationMetrics,
}

#[derive(Debug)]
pub struct Invocation<'event> {
    pub batch: DecodedBatch<'event>,
    pub metrics: InvocationMetrics,
    function: &'static str,
    event: &'event Event,
    deadline: Instant,
    began: Instant,
}

impl<'event> Invocation<'event> {
    pub fn begin(function: &'static str, event: &'event Event, deadline: Instant) -> Self {
        let began = Instant::now();
        let mut metrics = InvocationMetrics::default();
        metrics.add(Metric::Records, event.records.len());
        if let Some(last) = event.records.last() {
            let created_ms = last
                .change
                .approximate_creation_date_time
                .timestamp_millis();
            metrics.add(
                Metric::IteratorAge,
                u64::try_from(process::now().epoch_ms() - created_ms).unwrap_or(0),
            );
        }
        Self {
            batch: decode_batch(&event.records),
            metrics,
            function,
            event,
            deadline,
            began,
        }
    }

    /// Puts the poison records into quarantine and answers. `failed` has an entry for each of the
    /// `planned` writes that is not known to have happened.
    pub async fn end<'failed>(
        mut self,
        quarantine: &Quarantine,
        planned: usize,
        failed: Vec<(&'failed CommentId, &'failed ProductId, &'failed StoreError)>,
    ) -> Handled {
        let written = planned.saturating_sub(failed.len());
        let failures = Failures::of(failed, &self.batch.changes);
        let malformed = self
            .batch
            .malformed
            .iter()
            .map(|(index, malformed)| PoisonRecord {
                index: *index,
                condition: "MalformedRecord",
                detail: malformed.to_string(),
            });
        let poison = malformed.chain(failures.poison).collect();
        let not_stored = self.put_into_quarantine(quarantine, poison).await;
        let mut retry = [not_stored, failures.retry].concat();
        if planted::has(Bug::NothingIsRetried) {
            retry.clear();
        }

        self.metrics
            .add(Metric::CommentsChanged, self.batch.changes.len());
        self.metrics.add(Metric::Writes, written);
        self.metrics.add(Metric::ReportedForRetry, retry.len());
        self.metrics
            .add(Metric::Duration, self.began.elapsed().as_millis());
        Handled {
            response: batch_response(retry),
            metrics: self.metrics,
        }
    }

    /// Stores each poison record as a separate document. Returns the sequence numbers of the
    /// records that could not be stored.
    async fn put_into_quarantine(
        &mut self,
        quarantine: &Quarantine,
        poison: Vec<PoisonRecord>,
    ) -> Vec<String> {
        let function = self.function;
        let mut not_stored = Vec::new();
        for PoisonRecord {
            index,
            condition,
            detail,
        } in poison
        {
            let Some(record) = self.event.records.get(index) else {
                continue;
            };
            let sequence_number = record.change.sequence_number.clone().unwrap_or_default();
            tracing::error!(
                function,
                sequence_number,
                condition,
                detail,
                "a record can never be processed"
            );
            let reason = Reason {
                function: function.to_owned(),
                condition: condition.to_owned(),
                detail,
                invoke_count: 1,
            };
            match self.put_record(quarantine, &reason, record).await {
                Ok(()) => self.metrics.add(Metric::Quarantined, 1_u64),
                Err(error) => {
                    tracing::warn!(function, sequence_number, %error, "the record is reported for retry instead");
                    not_stored.push(sequence_number);
                }
            }
        }
        not_stored
    }

    async fn put_record(
        &self,
        quarantine: &Quarantine,
        reason: &Reason,
        record: &EventRecord,
    ) -> Result<(), StoreError> {
        if Instant::now() >= self.deadline {
            return Err(StoreError::past_deadline(Store::Quarantine));
        }
        let record = serde_json::to_value(record);
        let record = record
            .map_err(|error| StoreError::unavailable(Store::Quarantine, error.to_string()))?;
        let event = json!({ "Records": [record] });
        // Boxed, because the S3 client's futures are nested too deeply for the compiler's limit.
        let put = Box::pin(quarantine.put(reason, &event));
        tokio::time::timeout_at(self.deadline, put)
            .await
            .unwrap_or_else(|_| Err(StoreError::past_deadline(Store::Quarantine)))
    }
}

#[derive(Debug)]
struct PoisonRecord {
    /// Its index in the batch.
    index: usize,
    condition: &'static str,
    /// The problem, without any comment text.
    detail: String,
}

/// What a handler does about the comments of a batch that had failed writes.
#[derive(Debug, Default)]
struct Failures {
    /// The sequence numbers to report: the first record of each comment whose writes are not all
    /// known to be done. The service retries everything from the lowest number on.
    retry: Vec<String>,
    poison: Vec<PoisonRecord>,
}

impl Failures {
    /// Sorts the comments of a batch by their errors, and logs each comment without an error.
    ///
    /// A comment with several failures goes to quarantine only when a store rejects every one of
    /// these writes. Otherwise it is retried, and after that only the rejected writes remain.
    fn of<'failed>(
        failed: impl IntoIterator<Item = (&'failed CommentId, &'failed ProductId, &'failed StoreError)>,
        changes: &[CommentChange<'_>],
    ) -> Self {
        let mut errors: BTreeMap<(&CommentId, &ProductId), &StoreError> = BTreeMap::new();
        for (id, product, error) in failed {
            let worst = errors.entry((id, product)).or_insert(error);
            if worst.remedy() == Remedy::Quarantine {
                *worst = error;
            }
        }
        let mut failures = Self::default();
        for change in changes {
            let comment = &change.id;
            let sequence_number = &change.first_sequence_number;
            match errors.get(&(comment, &change.product)) {
                None => tracing::debug!(%comment, sequence_number, "the comment is in line"),
                Some(error) if error.remedy() == Remedy::Quarantine => {
                    failures
                        .poison
                        .extend(change.record_indexes.iter().map(|index| PoisonRecord {
                            index: *index,
                            condition: "RejectedByStore",
                            detail: error.to_string(),
                        }));
                }
                Some(error) => {
                    tracing::warn!(%comment, sequence_number, %error, "the comment is reported for retry");
                    failures.retry.push(sequence_number.clone());
                }
            }
        }
        failures
    }
}

/// The answer that names the records to retry, for `ReportBatchItemFailures`. The service retries
/// everything from the lowest number on; an empty sequence number makes it retry the whole batch.
pub fn batch_response(retry: Vec<String>) -> DynamoDbEventResponse {
    let mut response = DynamoDbEventResponse::default();
    for sequence_number in retry {
        let mut failure = DynamoDbBatchItemFailure::default();
        failure.item_identifier = Some(sequence_number);
        response.batch_item_failures.push(failure);
    }
    response
}

#[cfg(test)]
mod tests {
    use model::Malformed;

    use super::*;

    fn id(text: &str) -> CommentId {
        CommentId::parse(text).unwrap()
    }

    fn product_id(text: &str) -> ProductId {
        ProductId::parse(text).unwrap()
    }

    fn change(text: &str, index: usize) -> CommentChange<'static> {
        CommentChange {
            id: id(text),
            product: product_id("p"),
            first_sequence_number: index.to_string(),
            record_indexes: vec![index, index + 10],
            last: None,
            seen: Vec::new(),
        }
    }

    #[test]
    fn a_comment_is_poison_only_when_every_failure_of_it_is() {
        let product = product_id("p");
        let mut changes = vec![
            change("fine", 0),
            change("passing", 1),
            change("both", 2),
            change("rejected", 3),
            change("rejected", 4),
        ];
        changes[4].product = product_id("elsewhere");
        let passing = StoreError::past_deadline(Store::Table);
        let rejected = StoreError::from(Malformed::new("item", "of no shape"));
        let [of_passing, of_both, of_rejected] = ["passing", "both", "rejected"].map(id);
        let failed = [
            (&of_both, &product, &rejected),
            (&of_both, &product, &passing),
            (&of_both, &product, &rejected),
            (&of_passing, &product, &passing),
            (&of_rejected, &product, &rejected),
        ];
        let failures = Failures::of(failed, &changes);
        assert_eq!(failures.retry, ["1", "2"]);
        let indexes: Vec<usize> = failures.poison.iter().map(|poison| poison.index).collect();
        assert_eq!(
            indexes,
            [3, 13],
            "each record of the item, and none of the one in another product"
        );
    }
}
