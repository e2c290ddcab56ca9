//! What can go wrong, split by what the caller does about it.

use stores::StoreError;
use thiserror::Error;

use crate::cursor::CursorError;

/// Why a call did not do what it should.
#[derive(Debug, Error)]
pub enum Error {
    /// A comment with this id exists: nothing was written.
    #[error("a comment with this id exists")]
    Exists,
    /// The comment is not, or no longer, as it was read: nothing was written. Read it again.
    #[error("the comment has changed since it was read")]
    Changed,
    /// The given state is not later than the comment's: nothing was sent.
    #[error("this is no edit of the comment: {0}")]
    NoEdit(&'static str),
    /// The cursor is none, or another query's.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The table's. When it is unavailable, a write may have happened or not.
    #[error(transparent)]
    Store(#[from] StoreError),
}
