//! The repair job finds and mends every difference, and undoes nobody's change.
//!
//! - `kinds`: each kind of damage by itself, as `check` finds it.
//! - `audit`: random damage to thousands of comments; counts, limits, checkpoints.
//! - `cluster`: the same in a Redis Cluster.
//! - `recent`: windows and watermarks.
//! - `catalogue`: the product catalogue, and rebuilds by it.
//! - `foreign`: primary items that another tool wrote or broke.
//! - `quarantine`: what was given up is worked off.
//! - `concurrent`: the same while comments change and the handlers run, from many seeds.
//! - `local`: the local stack's own runs.
//! - `killed`: runs that are killed between any two of their writes.
//! - `lost`: a page index that is lost, emptied or refused while a run looks at it.
//! - `process`: the binary, killed at any point, twice at once, and as a function.
//! - `vouched`: who is believed while repair is behind, and after snapshots and fail-overs.
//! - `unread`: no watermark passes what was not read.
//! - `resumed`: what is gone on with, and what is begun anew.
//! - `stopped`: a store that is away, time that is up, a lease that is lost.
//! - `rebuild`: while writes go on; Redis restored from a snapshot.

mod audit;
mod catalogue;
mod cluster;
mod concurrent;
mod foreign;
mod killed;
mod kinds;
mod local;
mod lost;
mod process;
mod quarantine;
mod rebuild;
mod recent;
mod resumed;
mod stopped;
mod unread;
mod vouched;

use std::time::Duration;

use model::ProductId;
use repair_job::{AuditOptions, Job, JobSettings, Report, Stop};
use stores::capacity::Meter;

use crate::fixture::stores::Stores;

/// How the tests' jobs work: nothing is waited for to settle, and everything there is, is looked at again.
fn settings(apply: bool) -> JobSettings {
    JobSettings {
        apply,
        settle: Duration::ZERO,
        overlap: Duration::from_secs(3600),
        lease: Duration::from_secs(5),
        ..JobSettings::default()
    }
}

/// A job over some stores.
fn job(stores: &Stores, apply: bool) -> Job {
    job_with(stores, settings(apply), Stop::default())
}

fn job_with(stores: &Stores, settings: JobSettings, stop: Stop) -> Job {
    Job::new(stores.table.clone(), stores.index.clone(), settings, Meter::default(), stop)
}

/// The whole table at once: the embedded engine has one connection.
fn whole() -> AuditOptions {
    AuditOptions { segments: 1, ..AuditOptions::default() }
}

fn product(number: u64) -> ProductId {
    ProductId::parse(&format!("product/{}", number % 5)).unwrap()
}

/// Asserts that a run found nothing, and did everything.
#[track_caller]
fn assert_clean(report: &Report) {
    assert_eq!((report.exit_code(), report.left), (0, 0), "{report}");
}

/// Some stores whose index is ready.
async fn ready_stores() -> Stores {
    let stores = Stores::start().await;
    repair_job::rebuild(&stores.table, &stores.index, 1).await.unwrap();
    stores
}
