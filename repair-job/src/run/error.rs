//! Sorts errors by what they prevent.

use process::{Store, StoreError};

pub(crate) fn index_is_away(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable { store, .. } | StoreError::Refused { store, .. } => *store == Store::PageIndex,
        StoreError::Rejected { .. } | StoreError::Malformed(_) => false,
    }
}

/// The answer of the page index, or why only its part of the work cannot be done.
///
/// # Errors
/// Every other error.
pub(crate) fn answer_of_index<T>(answer: Result<T, StoreError>) -> Result<Result<T, StoreError>, StoreError> {
    match answer {
        Err(error) if !index_is_away(&error) => Err(error),
        answer => Ok(answer),
    }
}
