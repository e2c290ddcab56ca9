//! The canary: a user of the API who posts a comment, waits until readers see it under all its filters, and deletes it.
//! The time until then is the metric `Freshness`. A rehearsal of a deployment uses the same client: it fills a product,
//! and compares every filter with what it has posted.
//!
//! - `config`: the settings, of the function and of the command line.
//! - `client`: the JSON API at the public URL.
//! - `listing`: which filters there are, and what each must show. Pure.
//! - `run`: one run of the canary.
//! - `rehearsal`: filling and comparing.
//!
//! The canary holds a write token and no permission of AWS. So a run fails
//! whenever a user would see a failure: of the host name, the certificate, the load balancer, or anything behind it.
//!
//! **Invariant:** a run begins by deleting what earlier runs left, so a killed run leaves nothing for long
//! (`tests/canary.rs`).

mod client;
mod config;
mod listing;
mod rehearsal;
mod run;

pub use client::Client;
pub use config::{ApiArgs, Command, Config};
pub use rehearsal::{compare, fill};
pub use run::{FUNCTION, METRICS, Run, run};
