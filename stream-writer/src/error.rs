//! What a failed call means for the records of a batch.

use std::collections::BTreeSet;

use model::{CommentId, record::CommentChange};

/// The sequence numbers to report for comments whose duplicates are not known to be right: the first record of
/// each. The service retries everything from the lowest on.
pub(crate) fn sequence_numbers_to_retry(changes: &[CommentChange<'_>], failed: &BTreeSet<CommentId>) -> Vec<String> {
    let failed = changes.iter().filter(|change| failed.contains(&change.id));
    failed.map(|change| change.first_sequence_number.clone()).collect()
}
