//! Errors, split by what the caller does about them.

use process::StoreError;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    #[error("a comment with this id exists")]
    Exists,
    /// The comment is not, or no longer, in the state that was read. Nothing was written; read it again.
    #[error("the comment has changed since it was read")]
    Changed,
    /// The new state is not later than the comment's state. Nothing was sent.
    #[error("this is no edit of the comment: {0}")]
    NoEdit(&'static str),
    #[error("the cursor is another query's")]
    OtherCursor,
    /// The table's error. When the table is unavailable, a write may or may not have happened.
    #[error(transparent)]
    Store(#[from] StoreError),
}
