//! The two stores: the table (DynamoDB) and the page index (Redis), and the quarantine.
//!
//! **Invariant:** this is the only product crate that imports the DynamoDB SDK or `redis`. It makes no decisions:
//! `model`'s plans say what to write.
//!
//! **Invariant:** no call waits without bound; every retry ends at a deadline.

mod aws;
pub mod capacity;
pub mod config;
mod error;
pub mod invocation;
pub mod log;
pub mod metrics;
#[cfg(test)]
mod outside_text;
pub mod page_index;
pub mod quarantine;
mod retry;
pub mod table;

use std::time::SystemTime;

pub use error::{Remedy, Store, StoreError};
pub use page_index::PageIndex;
pub use quarantine::Quarantine;
pub use retry::Backoff;
pub use table::Table;

/// The current time by this machine's clock.
pub fn now() -> model::Instant {
    model::Instant::from_system_time(SystemTime::now())
}

/// A new ULID of the current instant.
pub fn new_ulid() -> String {
    new_ulid_at(now())
}

/// A new ULID of an instant, such as the id of a new comment.
pub fn new_ulid_at(instant: model::Instant) -> String {
    model::Revision::after(None, instant, rand::random()).to_string()
}
