//! The plans: what to write for the comments of a batch.
//!
//! **Invariant (the batch rule):** for each primary item, every key that the last image implies is
//! written. Every key that *any* image in the batch implies but the last does not is deleted, also
//! when changes cancel out. An invalid or unpublished image implies no keys. So redelivering the
//! stream from any record to its end, in any batching, ends in one and the same state (the tests of
//! this module replay random histories).

mod fan_out;
mod index_edit;
pub mod reconcile;
#[cfg(test)]
mod tests;

pub use fan_out::{DuplicateKey, DuplicateWrite, plan_fan_out};
pub use index_edit::{IndexEdit, index_edits, plan_index_edits};
