//! What failed edits mean for the records of a batch.

use std::collections::BTreeMap;

use model::{CommentId, plan::IndexEdit, record::CommentChange};
use stores::{Remedy, StoreError, quarantine::Hopeless};

/// What the handler does about the edits that were not applied.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// How many edits were not applied, or may not have been.
    pub(crate) edits: usize,
    /// The sequence numbers to report: the first record of each comment concerned. The service retries everything from
    /// the lowest on.
    pub(crate) retry: Vec<String>,
    /// The records of comments with an edit that the page index will never take.
    pub(crate) hopeless: Vec<Hopeless>,
}

impl Failures {
    /// Sorts what became of a batch. A comment with both kinds of failure is retried: when it comes again, only what is
    /// rejected is left.
    pub(crate) fn of(failed: Vec<(Vec<IndexEdit>, StoreError)>, changes: &[CommentChange<'_>]) -> Self {
        let mut failures = Self { edits: failed.iter().map(|(edits, _)| edits.len()).sum(), ..Self::default() };
        let (mut passing, mut rejected): (BTreeMap<&CommentId, &StoreError>, BTreeMap<_, _>) = Default::default();
        for (edits, error) in &failed {
            let kind = match error.remedy() {
                Remedy::Quarantine => &mut rejected,
                Remedy::TryAgain | Remedy::CallOperator => &mut passing,
            };
            kind.extend(edits.iter().map(|edit| (&edit.id, error)));
        }
        for change in changes {
            let (comment, sequence_number) = (&change.id, &change.first_sequence_number);
            if let Some(error) = passing.get(comment) {
                tracing::warn!(%comment, sequence_number, %error, "the page index could not be edited");
                failures.retry.push(sequence_number.clone());
            } else if let Some(error) = rejected.get(comment) {
                failures.hopeless.extend(Hopeless::rejected(&change.places, error));
            } else {
                tracing::debug!(%comment, sequence_number, "the page index is in line");
            }
        }
        failures
    }
}
