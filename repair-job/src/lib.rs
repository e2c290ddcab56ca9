//! The repair job: makes what is derived from comments right again.
//!
//! So far it has one command, `rebuild`: from the table to the page index.
//!
//! **Invariant:** only this crate marks index partitions ready.

mod config;
mod error;
mod plan;
mod rebuild;

pub use config::{Command, Config};
pub use error::RepairError;
pub use rebuild::{RebuildReport, rebuild};
