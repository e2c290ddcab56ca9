//! What failed writes mean for the records of a batch.

use std::collections::BTreeMap;

use model::{CommentId, record::CommentChange};
use stores::{
    StoreError,
    quarantine::Hopeless,
    table::{DuplicatesWritten, FailedWrites},
};

/// What the handler does about the writes that did not happen.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// How many writes did not happen, or may not have.
    pub(crate) writes: usize,
    /// The sequence numbers to report, for comments whose duplicates are not known to be right: the first record of
    /// each. The service retries everything from the lowest on.
    pub(crate) retry: Vec<String>,
    /// The records of comments with a duplicate that the table will never take.
    pub(crate) hopeless: Vec<Hopeless>,
}

impl Failures {
    /// Sorts what became of a batch. A comment with both kinds of failure is retried: when it comes again, only what is
    /// rejected is left.
    pub(crate) fn of(written: &DuplicatesWritten, changes: &[CommentChange<'_>]) -> Self {
        let all = written.failed.iter().chain(&written.rejected);
        let mut failures = Self { writes: all.map(|failed| failed.keys.len()).sum(), ..Self::default() };
        let (failed, rejected) = (errors_by_comment(&written.failed), errors_by_comment(&written.rejected));
        for change in changes {
            let (comment, sequence_number) = (&change.id, &change.first_sequence_number);
            if let Some(error) = failed.get(comment) {
                tracing::warn!(%comment, sequence_number, %error, "duplicates could not be written");
                failures.retry.push(sequence_number.clone());
            } else if let Some(error) = rejected.get(comment) {
                failures.hopeless.extend(Hopeless::rejected(&change.places, error));
            } else {
                tracing::debug!(%comment, sequence_number, "duplicates are in line");
            }
        }
        failures
    }
}

fn errors_by_comment(failures: &[FailedWrites]) -> BTreeMap<&CommentId, &StoreError> {
    failures.iter().flat_map(|failed| failed.keys.iter().map(|key| (&key.id, &failed.error))).collect()
}
