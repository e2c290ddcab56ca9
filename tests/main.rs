//! Tests of what Pagemark guarantees, against a real engine and a real Redis. Each module is named
//! after its guarantee.
//!
//! No store is mocked, and no test waits a fixed time for a result: [`fixture::wait_for`] polls
//! until a condition holds, and reports the last state on time-out. Each test has its own table and
//! key prefix, so tests run in parallel.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "clippy takes only functions marked as tests for tests; here everything is one"
)]

mod connections;
mod deployment;
mod documents;
mod fixture;
mod functions;
mod local;
mod reading;
mod repair;
mod simulator;
mod soak;
mod writing;

use fixture::engine::{Engines, Excused};

/// The allocator of the API. It takes less processor time than the C library's for many small
/// values. The tests, and the embedded engine in their process, allocate many.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
