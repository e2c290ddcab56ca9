//! What Pagemark guarantees, each in a module of that name, against a real engine and a real Redis.
//!
//! Nothing is mocked and nothing waits for a fixed time: [`fixture::wait_for`] looks until a condition holds and says
//! what it saw last when it does not. A table and a key prefix belong to one test, so the tests run side by side.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "clippy takes only functions marked as tests for tests; here everything is one"
)]

mod behind;
mod bounds;
mod cluster;
mod connections;
mod deployed;
mod described;
mod designs;
mod edits;
mod engines;
mod failures;
mod faults;
mod fixture;
mod import;
mod input;
mod installing;
mod log;
mod ordering;
mod outage;
mod packaged;
mod pages;
mod payloads;
mod preconditions;
mod readiness;
mod rebuild;
mod repair;
mod replay;
mod secured;
mod selection;
mod sent_ahead;
mod serving;
mod template;
mod turning;
mod writes;
