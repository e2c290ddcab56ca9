//! Plans the next step of an event source mapping after an invocation. No I/O, no clock.
//!
//! The rules are the service's (AWS Lambda, "Configuring partial batch response with DynamoDB and
//! Lambda" and "Retain discarded records for a DynamoDB event source"):
//!
//! - The lowest reported sequence number is the checkpoint.
//! - An answer that names no record of the batch is a complete failure.
//! - A mapping that bisects splits a failed batch in two, which does not count as a try.
//! - A batch that cannot be split is tried a bounded number of times.

use aws_lambda_events::streams::DynamoDbEventResponse;
use serde_json::Value;

use super::MappingSettings;

/// A stream record in the shape of a Lambda event.
pub(super) type LambdaRecord = Value;

/// A batch, and the number of its failures without being split or shortened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attempt {
    pub(super) records: Vec<LambdaRecord>,
    pub(super) failures: u32,
}

/// The next step for a batch that failed.
#[derive(Debug, PartialEq)]
pub(super) enum NextStep {
    /// Invoke again with these batches, in this order.
    Again(Vec<Attempt>),
    /// Put the batch into quarantine and continue.
    GiveUp(Attempt),
}

pub(super) fn sequence_number(record: &LambdaRecord) -> Option<&str> {
    record
        .pointer("/dynamodb/SequenceNumber")
        .and_then(Value::as_str)
}

/// The index of the first record that a handler did not process, by its answer; `None` when it
/// processed all. No answer means an error or a time-out.
pub(super) fn first_failed(
    records: &[LambdaRecord],
    answer: Option<&DynamoDbEventResponse>,
) -> Option<usize> {
    let Some(answer) = answer else { return Some(0) };
    answer
        .batch_item_failures
        .iter()
        .map(|failure| position_of(records, failure.item_identifier.as_deref()))
        .min()
}

/// The index of the record that a failure names, or of the first one if it names none of them.
fn position_of(records: &[LambdaRecord], named: Option<&str>) -> usize {
    records
        .iter()
        .position(|record| named.is_some() && sequence_number(record) == named)
        .unwrap_or(0)
}

/// Decides the next step for a batch whose records failed from this index on.
pub(super) fn next(
    mut attempt: Attempt,
    failed_from: usize,
    settings: &MappingSettings,
) -> NextStep {
    if failed_from > 0 {
        let records = attempt
            .records
            .split_off(failed_from.min(attempt.records.len()));
        return NextStep::Again(vec![Attempt {
            records,
            failures: 0,
        }]);
    }
    if settings.bisect_batch_on_function_error && attempt.records.len() > 1 {
        let second = attempt.records.split_off(attempt.records.len() / 2);
        let failures = attempt.failures;
        return NextStep::Again(vec![
            attempt,
            Attempt {
                records: second,
                failures,
            },
        ]);
    }
    attempt.failures += 1;
    if attempt.failures > settings.maximum_retry_attempts {
        NextStep::GiveUp(attempt)
    } else {
        NextStep::Again(vec![attempt])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(bisect: bool) -> MappingSettings {
        MappingSettings {
            bisect_batch_on_function_error: bisect,
            maximum_retry_attempts: 2,
            ..MappingSettings::STREAM_WRITER
        }
    }

    fn attempt(numbers: &[&str], failures: u32) -> Attempt {
        let records = numbers
            .iter()
            .map(|n| json!({"dynamodb": {"SequenceNumber": n}}))
            .collect();
        Attempt { records, failures }
    }

    fn answer(numbers: &[&str]) -> DynamoDbEventResponse {
        functions::invocation::batch_response(numbers.iter().map(|n| (*n).to_owned()).collect())
    }

    #[test]
    fn the_lowest_reported_record_is_the_checkpoint() {
        let records = attempt(&["1", "2", "3"], 0).records;
        for (numbers, expected) in [
            (&[][..], None),
            (&["3", "2"], Some(1)),
            // An unknown number fails the batch.
            (&["9"], Some(0)),
            (&[""], Some(0)),
        ] {
            assert_eq!(
                first_failed(&records, Some(&answer(numbers))),
                expected,
                "{numbers:?}"
            );
        }
        assert_eq!(first_failed(&records, None), Some(0));
    }

    fn again(attempts: &[(&[&str], u32)]) -> NextStep {
        NextStep::Again(
            attempts
                .iter()
                .map(|(numbers, failures)| attempt(numbers, *failures))
                .collect(),
        )
    }

    #[test]
    fn a_failed_batch_is_retried_from_its_first_failure_split_or_given_up() {
        for (numbers, failures, failed_from, bisect, expected) in [
            (&["1", "2", "3"][..], 2, 1, true, again(&[(&["2", "3"], 0)])),
            (
                &["1", "2", "3"],
                1,
                0,
                true,
                again(&[(&["1"], 1), (&["2", "3"], 1)]),
            ),
            (&["1"], 0, 0, true, again(&[(&["1"], 1)])),
            (&["1"], 1, 0, true, again(&[(&["1"], 2)])),
            (&["1"], 2, 0, true, NextStep::GiveUp(attempt(&["1"], 3))),
            (
                &["1", "2"],
                2,
                0,
                false,
                NextStep::GiveUp(attempt(&["1", "2"], 3)),
            ),
        ] {
            assert_eq!(
                next(attempt(numbers, failures), failed_from, &settings(bisect)),
                expected
            );
        }
    }
}
