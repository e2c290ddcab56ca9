//! What failed edits mean for the records of a batch.

use functions::invocation::Failures;
use model::{plan::IndexEdit, record::CommentChange};
use process::StoreError;

/// Edits that are not known to be applied, and why.
pub(crate) struct FailedEdits {
    pub(crate) edits: Vec<IndexEdit>,
    pub(crate) error: StoreError,
}

/// Sorts the comments whose edits could not all be applied.
pub(crate) fn failures(failed: &[FailedEdits], changes: &[CommentChange<'_>]) -> Failures {
    Failures::of(
        failed.iter().flat_map(|failed| failed.edits.iter().map(|edit| (&edit.id, &edit.product, &failed.error))),
        changes,
    )
}
