//! The repair job finds and repairs every difference, and never undoes a change by a client.
//!
//! - `kinds`: each kind of damage alone, found by `audit` and by `check`.
//! - `audit`: random damage to thousands of comments; counts, limits, checkpoints.
//! - `cluster`: every kind of damage in a Redis Cluster.
//! - `recent`: windows and watermarks.
//! - `primaries`: the table's index of primary items, and rebuilds from it.
//! - `foreign`: primary items that another tool wrote or broke.
//! - `quarantine`: batches in quarantine are repaired and removed.
//! - `concurrent`: damage while comments change and the handlers run, from many seeds.
//! - `local`: the local stack's own runs.
//! - `killed`: runs of `recent` and `quarantine` that are killed between any two of their writes.
//! - `lost`: a page index that is lost, emptied or refused while a run reads it.
//! - `process`: the binary, killed at any point, run twice in parallel, and as a function.
//! - `vouched`: whether readers believe the page index while repair is behind, and after snapshots and fail-overs.
//! - `unread`: no watermark passes an unread entry of the journal.
//! - `resumed`: what resumes, and what starts anew.
//! - `stopped`: runs that cannot complete: a store is down, time is up, a lease is lost.
//! - `rebuild`: a rebuild during writes, and a Redis restored from a snapshot.

mod audit;
mod cluster;
mod concurrent;
mod foreign;
mod killed;
mod kinds;
mod local;
mod lost;
mod primaries;
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

use crate::fixture::{data, stores::Stores};

/// Settings of the tests' jobs: without a settle delay, and with an overlap that checks everything again.
fn settings(apply: bool) -> JobSettings {
    JobSettings {
        apply,
        settle: Duration::ZERO,
        overlap: Duration::from_secs(3600),
        lease: Duration::from_secs(5),
        ..JobSettings::default()
    }
}

/// A job on these stores.
fn job(stores: &Stores, apply: bool) -> Job {
    job_with(stores, settings(apply), Stop::default())
}

fn job_with(stores: &Stores, settings: JobSettings, stop: Stop) -> Job {
    Job::new(stores.table.clone(), stores.index.clone(), settings, stop)
}

/// The whole table as one segment, because the embedded engine has one connection.
fn whole() -> AuditOptions {
    AuditOptions { segments: 1, ..AuditOptions::default() }
}

fn product(number: u64) -> ProductId {
    data::product(&format!("product/{}", number % 5))
}

/// Asserts that a run was complete and found nothing.
#[track_caller]
fn assert_clean(report: &Report) {
    assert_eq!((report.exit_code(), report.left), (0, 0), "{report}");
}
