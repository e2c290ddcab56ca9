//! Why a run of the repair job ended early.

use model::CommentId;
use stores::StoreError;
use thiserror::Error;

/// An error of the repair job.
#[derive(Debug, Error)]
pub enum RepairError {
    /// A store's error. Running the job again starts over and is safe.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A comment kept changing while it was being reconciled. Running the job again is safe.
    #[error("comment {id} changed {attempts} times while it was being reconciled")]
    KeepsChanging {
        /// The comment.
        id: CommentId,
        /// How often it was tried.
        attempts: usize,
    },
}
