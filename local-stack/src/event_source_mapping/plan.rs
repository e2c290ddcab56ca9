//! Plans the next step of an event source mapping after an invocation. No I/O, no clock.
//!
//! The rules are the service's (AWS Lambda, "Configuring partial batch response with DynamoDB and Lambda" and "Retain
//! discarded records for a DynamoDB event source"):
//!
//! - The lowest reported sequence number is the checkpoint.
//! - An answer that names no record of the batch is a complete failure.
//! - A mapping that bisects splits a failed batch in two, which does not count as a try.
//! - A batch that cannot be split is tried a bounded number of times.

use aws_lambda_events::streams::DynamoDbEventResponse;
use infra::MappingSettings;
use serde_json::Value;

/// A stream record in the shape of a Lambda event.
pub(super) type Record = Value;

/// A batch, and the number of its failures without being split or shortened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attempt {
    pub(super) records: Vec<Record>,
    pub(super) failures: u32,
}

/// The result of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every record was processed.
    Done,
    /// Every record before this index was processed.
    FailedFrom(usize),
}

/// The next step.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Done,
    /// Invoke again with these batches, in this order.
    Again(Vec<Attempt>),
    /// Put the batch into quarantine and continue.
    GiveUp(Attempt),
}

/// The sequence number of a record.
pub(super) fn sequence_number(record: &Record) -> Option<&str> {
    record.pointer("/dynamodb/SequenceNumber").and_then(Value::as_str)
}

/// Evaluates a handler's answer; `None` means an error or a time-out. A mapping that does not request item failures
/// ignores them.
pub(super) fn judge(records: &[Record], answer: Option<&DynamoDbEventResponse>, settings: &MappingSettings) -> Verdict {
    let Some(answer) = answer else { return Verdict::FailedFrom(0) };
    if !settings.report_batch_item_failures {
        return Verdict::Done;
    }
    answer
        .batch_item_failures
        .iter()
        .map(|failure| {
            let named = failure.item_identifier.as_deref();
            records.iter().position(|record| named.is_some() && sequence_number(record) == named).unwrap_or(0)
        })
        .min()
        .map_or(Verdict::Done, Verdict::FailedFrom)
}

/// Decides the next step for a batch.
pub(super) fn next(mut attempt: Attempt, verdict: Verdict, settings: &MappingSettings) -> Next {
    let failed_from = match verdict {
        Verdict::Done => return Next::Done,
        Verdict::FailedFrom(place) => place,
    };
    if failed_from > 0 {
        let records = attempt.records.split_off(failed_from.min(attempt.records.len()));
        return Next::Again(vec![Attempt { records, failures: 0 }]);
    }
    if settings.bisect_batch_on_function_error && attempt.records.len() > 1 {
        let second = attempt.records.split_off(attempt.records.len() / 2);
        let failures = attempt.failures;
        return Next::Again(vec![attempt, Attempt { records: second, failures }]);
    }
    attempt.failures += 1;
    if attempt.failures > settings.maximum_retry_attempts { Next::GiveUp(attempt) } else { Next::Again(vec![attempt]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(bisect: bool) -> MappingSettings {
        let mut settings = infra::mapping_settings("StreamWriter").unwrap();
        settings.bisect_batch_on_function_error = bisect;
        settings.maximum_retry_attempts = 2;
        settings
    }

    fn attempt(numbers: &[&str], failures: u32) -> Attempt {
        let records = numbers.iter().map(|n| json!({"dynamodb": {"SequenceNumber": n}})).collect();
        Attempt { records, failures }
    }

    fn answer(numbers: &[&str]) -> DynamoDbEventResponse {
        functions::invocation::batch_response(numbers.iter().map(|n| (*n).to_owned()).collect())
    }

    #[test]
    fn the_lowest_reported_record_is_the_checkpoint() {
        let records = attempt(&["1", "2", "3"], 0).records;
        let judged = |numbers: &[&str]| judge(&records, Some(&answer(numbers)), &settings(true));
        assert_eq!(judged(&[]), Verdict::Done);
        assert_eq!(judged(&["3", "2"]), Verdict::FailedFrom(1));
        assert_eq!(judged(&["9"]), Verdict::FailedFrom(0), "an unknown number fails the batch");
        assert_eq!(judged(&[""]), Verdict::FailedFrom(0));
        assert_eq!(judge(&records, None, &settings(true)), Verdict::FailedFrom(0));
    }

    #[test]
    fn a_mapping_that_does_not_ask_for_item_failures_takes_any_answer_for_success() {
        let mut settings = settings(true);
        settings.report_batch_item_failures = false;
        assert_eq!(judge(&attempt(&["1"], 0).records, Some(&answer(&["1"])), &settings), Verdict::Done);
    }

    #[test]
    fn what_was_processed_is_not_sent_again() {
        let next = next(attempt(&["1", "2", "3"], 2), Verdict::FailedFrom(1), &settings(true));
        assert_eq!(next, Next::Again(vec![attempt(&["2", "3"], 0)]));
    }

    #[test]
    fn a_failed_batch_is_split_and_the_first_half_goes_first() {
        let next = next(attempt(&["1", "2", "3"], 1), Verdict::FailedFrom(0), &settings(true));
        assert_eq!(next, Next::Again(vec![attempt(&["1"], 1), attempt(&["2", "3"], 1)]));
    }

    #[test]
    fn a_batch_that_cannot_be_split_is_given_up_after_the_last_try() {
        let fails = |failures, bisect, numbers: &[&str]| {
            next(attempt(numbers, failures), Verdict::FailedFrom(0), &settings(bisect))
        };
        assert_eq!(fails(0, true, &["1"]), Next::Again(vec![attempt(&["1"], 1)]));
        assert_eq!(fails(1, true, &["1"]), Next::Again(vec![attempt(&["1"], 2)]));
        assert_eq!(fails(2, true, &["1"]), Next::GiveUp(attempt(&["1"], 3)));
        assert_eq!(fails(2, false, &["1", "2"]), Next::GiveUp(attempt(&["1", "2"], 3)));
    }
}
