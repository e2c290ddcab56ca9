//! What failed writes mean for the records of a batch.

use functions::invocation::Failures;
use model::record::CommentChange;
use table::FailedWrites;

/// Sorts the comments whose duplicates could not all be written.
pub(crate) fn failures(failed: &[FailedWrites], changes: &[CommentChange<'_>]) -> Failures {
    Failures::of(
        failed
            .iter()
            .flat_map(|failed| failed.keys.iter().map(|key| (&key.id, &key.filter_key.product, &failed.error))),
        changes,
    )
}
