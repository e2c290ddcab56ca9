//! The edits of a batch's comments. No I/O, no clock, no randomness.
//!
//! **Invariant:** each primary item has one edit, because its changes in the batch are joined first. So the edits may
//! be sent in any order.

use model::{
    plan::{IndexEdit, plan_index_edits},
    record::CommentChange,
};

/// The edits that update the base sets of all changed comments.
pub fn plan_edits(changes: &[CommentChange<'_>]) -> Vec<IndexEdit> {
    changes.iter().flat_map(plan_index_edits).collect()
}
