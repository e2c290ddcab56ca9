//! Errors that end a run of the repair job early.

use process::StoreError;
use thiserror::Error;

/// An error of the repair job. Running the job again is safe: it resumes or starts over.
#[derive(Debug, Error)]
pub enum RepairError {
    /// A store's error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The page index stopped answering.
    #[error("the page index does not answer any more: {0}")]
    IndexAway(String),
}
