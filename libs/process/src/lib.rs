//! What every process needs beside its task: settings, log, traces, clock, waits between attempts, and AWS's client settings.
//!
//! Also the error of a store. All stores share it, because a caller's reaction depends on the remedy and not on the
//! store.

pub mod aws;
mod backoff;
pub mod emf;
mod error;
pub mod log;
mod settings;
pub mod telemetry;

use std::time::SystemTime;

pub use backoff::Backoff;
pub use error::{Remedy, Source, Store, StoreError};
pub use settings::{parse_settings, with_variables};

pub fn now() -> model::Timestamp {
    model::Timestamp::from_system_time(SystemTime::now())
}

pub fn new_ulid() -> String {
    new_ulid_at(now())
}

/// A new ULID of an instant, such as the id of a new comment.
pub fn new_ulid_at(instant: model::Timestamp) -> String {
    model::Revision::after(None, instant, rand::random()).to_string()
}
