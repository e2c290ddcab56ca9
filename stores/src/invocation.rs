//! What the stream handlers share of a Lambda invocation: its event, its deadline and its answer.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lambda_events::{
    dynamodb::Event,
    streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse},
};
use model::{CommentId, ProductId, record::CommentChange};
use serde::{Deserialize, Deserializer, de::Error};
use tokio::time::Instant;

use crate::{
    error::{Remedy, StoreError},
    metrics::{Metric, Metrics},
    quarantine::Hopeless,
};

/// The event of an invocation.
///
/// **Invariant:** the error of one that cannot be read says where, never what stands there, which may be a comment's
/// text: the Lambda runtime logs the error and answers with it (`tests/deployed.rs`).
#[derive(Debug, Clone)]
pub struct StreamEvent(pub Event);

impl<'de> Deserialize<'de> for StreamEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let event = Event::deserialize(deserializer);
        event.map(Self).map_err(|_| D::Error::custom("this is not an event of a DynamoDB stream"))
    }
}

/// What is kept back for answering after the last call: the answer itself takes milliseconds, this allows for a
/// slow machine.
const RESERVE: Duration = Duration::from_millis(500);

/// Until when an invocation may start calls, from the deadline that the Lambda runtime gives it, in milliseconds
/// since 1970 (AWS Lambda, "Runtime API", `Lambda-Runtime-Deadline-Ms`).
pub fn deadline_at(deadline_epoch_ms: u64) -> Instant {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::now() + Duration::from_millis(deadline_epoch_ms).saturating_sub(now).saturating_sub(RESERVE)
}

/// What a stream handler made of a batch.
#[derive(Debug, Clone, Default)]
pub struct Handled {
    /// The answer to the service.
    pub response: DynamoDbEventResponse,
    /// What was counted.
    pub metrics: Metrics,
}

impl Handled {
    /// The end of an invocation that `began` at a time; the records to `retry` are named in the answer.
    pub fn new(retry: Vec<String>, mut metrics: Metrics, began: Instant) -> Self {
        metrics.add(Metric::ReportedForRetry, retry.len());
        metrics.add(Metric::Duration, began.elapsed().as_millis());
        Self { response: batch_response(retry), metrics }
    }
}

/// What a handler does about the comments of a batch whose writes did not all happen.
#[derive(Debug, Default)]
pub struct Failures {
    /// The sequence numbers to report: the first record of each comment that is not known to be right. The service
    /// retries everything from the lowest on.
    pub retry: Vec<String>,
    /// The records of comments that a store will never take.
    pub hopeless: Vec<Hopeless>,
}

impl Failures {
    /// Sorts the comments of a batch by what is wrong with them; each that is in line is logged.
    ///
    /// A comment with several failures is hopeless only when all of them are: otherwise it is retried, and when it
    /// comes again, only what is rejected is left.
    pub fn of<'failed>(
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
            let (comment, sequence_number) = (&change.id, &change.first_sequence_number);
            match errors.get(&(comment, &change.product)) {
                None => tracing::debug!(%comment, sequence_number, "the comment is in line"),
                Some(error) if error.remedy() == Remedy::Quarantine => {
                    failures.hopeless.extend(Hopeless::rejected(&change.places, error));
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

/// The metrics of an invocation that begins: how many records it has, and how old the last of them is.
pub fn metrics_of(event: &Event) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.add(Metric::Records, event.records.len());
    if let Some(last) = event.records.last() {
        let created_ms = last.change.approximate_creation_date_time.timestamp_millis();
        metrics.add(Metric::IteratorAge, u64::try_from(crate::now().epoch_ms() - created_ms).unwrap_or(0));
    }
    metrics
}

/// The answer that names the records to retry, for `ReportBatchItemFailures`. The service retries everything from the
/// lowest on; an empty sequence number makes it retry the whole batch.
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
    use crate::error::Store;

    #[test]
    fn a_comment_is_hopeless_only_when_every_failure_of_it_is() {
        let id = |text: &str| CommentId::parse(text).unwrap();
        let (product, elsewhere) = (ProductId::parse("p").unwrap(), ProductId::parse("elsewhere").unwrap());
        let change = |text: &str, place: usize| CommentChange {
            id: id(text),
            product: product.clone(),
            first_sequence_number: place.to_string(),
            places: vec![place, place + 10],
            last: None,
            seen: Vec::new(),
        };
        let mut changes = vec![
            change("fine", 0),
            change("passing", 1),
            change("both", 2),
            change("rejected", 3),
            change("rejected", 4),
        ];
        changes[4].product = elsewhere;
        let (passing, rejected) =
            (StoreError::past_deadline(Store::Table), StoreError::from(Malformed::new("item", "of no shape")));
        let (of_passing, of_both, of_rejected) = (id("passing"), id("both"), id("rejected"));
        let failed = [
            (&of_both, &product, &rejected),
            (&of_both, &product, &passing),
            (&of_both, &product, &rejected),
            (&of_passing, &product, &passing),
            (&of_rejected, &product, &rejected),
        ];
        let failures = Failures::of(failed, &changes);
        assert_eq!(failures.retry, ["1", "2"]);
        let places: Vec<usize> = failures.hopeless.iter().map(|hopeless| hopeless.place).collect();
        assert_eq!(places, [3, 13], "each record of the item, and none of the one in another product");
    }
}
