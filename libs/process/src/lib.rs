//! What every process needs beside its task: settings, log, clock, waits between attempts, stops,
//! and AWS's client settings.
//!
//! Also the error of a store. All stores share it, because a caller's reaction depends on the
//! remedy and not on the store.

pub mod aws;
mod backoff;
pub mod emf;
mod error;
pub mod log;
mod settings;
#[cfg(feature = "simulation")]
pub mod simulation;
mod stop;

use std::time::SystemTime;

use rand::distr::{Distribution, StandardUniform};

pub use backoff::Backoff;
pub use error::{ErrorSource, Remedy, Store, StoreError};
pub use settings::{defaults, parse_settings, with_variables};
pub use stop::{Stop, StopReason};

pub fn now() -> model::Timestamp {
    #[cfg(feature = "simulation")]
    if let Some(now) = simulation::now() {
        return now;
    }
    model::Timestamp::from_system_time(SystemTime::now())
}

/// A random value of a type.
pub fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    #[cfg(feature = "simulation")]
    if let Some(drawn) = simulation::random() {
        return drawn;
    }
    rand::random()
}

pub fn new_ulid() -> String {
    new_ulid_at(now())
}

/// A new ULID of an instant, such as the id of a new comment.
pub fn new_ulid_at(instant: model::Timestamp) -> String {
    model::Revision::after(None, instant, random()).to_string()
}
