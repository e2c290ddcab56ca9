//! Why a run of the repair job ended early.

use stores::StoreError;
use thiserror::Error;

/// An error of the repair job. Running it again goes on, or starts over, and is safe.
#[derive(Debug, Error)]
pub enum RepairError {
    /// A store's error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The page index did not answer any more.
    #[error("the page index does not answer any more: {0}")]
    IndexAway(String),
}
