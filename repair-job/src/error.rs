//! Sorts errors by what they prevent.

use process::{Store, StoreError};

/// Whether the page index failed in a way that prevents only its part of the work.
pub(crate) fn index_is_away(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable { store, .. } | StoreError::Refused { store, .. } => *store == Store::PageIndex,
        StoreError::Rejected { .. } | StoreError::Malformed(_) => false,
    }
}
