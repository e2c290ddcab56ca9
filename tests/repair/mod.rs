//! The repair job finds and repairs every difference, and never undoes a change by a client.
//!
//! The page index is where `PAGEMARK_TEST_PAGE_INDEX` says. Some guarantees need a server. A module
//! that has only such guarantees says "Server" in its first lines; in other modules, these tests
//! start their stores with Redis.

mod audit;
mod big_repair;
mod cluster;
mod confirmed;
mod control;
mod erased;
mod evicted;
mod foreign;
mod index_entries;
mod kinds;
mod lost;
mod missing;
mod primaries;
mod process;
mod quarantine;
mod recent;
mod rehearsals;
mod resumed;
mod stopped;

use std::{ops::Range, time::Duration};

use functions::{Quarantine, quarantine::Reason};
use model::{Comment, CommentId, ProductId, Status, Timestamp};
use page_index::PageIndex;
use redis_index::RedisIndexConfig;
use repair_job::{AuditOptions, Job, JobSettings, Report, Stop};
use serde_json::{Value, json};
use table::{CommentPatch, Table};
use tokio::task::JoinHandle;

use crate::fixture::{
    data,
    gate::{Gate, Kind},
    invariants::{Contents, differences_of_page_index},
    redis_server::OwnRedis,
    stores::Stores,
};

/// Settings of the tests' jobs: without a minimum age, and with an overlap that checks everything
/// again. The lease outlasts a held request, also on a busy machine.
fn settings(apply: bool) -> JobSettings {
    JobSettings {
        apply,
        min_age: Duration::ZERO,
        overlap: Duration::from_secs(3600),
        lease: Duration::from_secs(60),
        ..JobSettings::default()
    }
}

/// Settings of a job that checks only what follows the watermarks.
fn no_overlap() -> JobSettings {
    JobSettings {
        overlap: Duration::ZERO,
        ..settings(true)
    }
}

pub(crate) fn job(stores: &Stores, apply: bool) -> Job {
    job_with(stores, settings(apply), Stop::default())
}

fn job_with(stores: &Stores, settings: JobSettings, stop: Stop) -> Job {
    Job::new(stores.table.clone(), stores.index.clone(), settings, stop)
}

fn job_of(table: Table, index: PageIndex, settings: JobSettings) -> Job {
    Job::new(table, index, settings, Stop::default())
}

async fn recent(job: Job) -> Report {
    job.recent().await
}

/// A run whose calls to the table pass a gate, which holds one of them.
struct HeldRun<T> {
    gate: Gate,
    stop: Stop,
    run: JoinHandle<T>,
}

impl<T: Send + 'static> HeldRun<T> {
    /// Starts a run, and waits until the gate holds a call of this kind, after `count` others.
    async fn start<F: Future<Output = T> + Send + 'static>(
        stores: &Stores,
        (kind, count): (Kind, usize),
        settings: JobSettings,
        run: impl FnOnce(Job) -> F,
    ) -> Self {
        let gate = Gate::holding(&stores.engine_url(), kind, count).await;
        let table = stores.table_at(&gate.url).await;
        let stop = Stop::default();
        let job = Job::new(table, stores.index.clone(), settings, stop.clone());
        let run = tokio::spawn(run(job));
        gate.wait_until_holding("a call of the run").await;
        Self { gate, stop, run }
    }

    async fn finish(self) -> T {
        self.gate.open();
        self.run.await.unwrap()
    }

    async fn stop(self) -> T {
        self.stop.ask();
        self.finish().await
    }
}

async fn start_with(
    numbers: Range<u64>,
    product: impl Fn(u64) -> ProductId,
) -> (Stores, Vec<Comment>) {
    with_comments(Stores::start_ready().await, numbers, product).await
}

/// Like [`start_with`], with the page index in Redis: for what only a server can show.
async fn start_with_redis(
    numbers: Range<u64>,
    product: impl Fn(u64) -> ProductId,
) -> (Stores, Vec<Comment>) {
    with_comments(Stores::start_ready_with_redis().await, numbers, product).await
}

async fn with_comments(
    stores: Stores,
    numbers: Range<u64>,
    product: impl Fn(u64) -> ProductId,
) -> (Stores, Vec<Comment>) {
    let comments = stores.create_all(numbers, product).await;
    stores.deliver_all().await;
    (stores, comments)
}

/// Whether readers believe the page index at an instant. Asserts that this is the same for all
/// partitions.
async fn is_ready(stores: &Stores, at: Timestamp) -> bool {
    let readiness = stores
        .index
        .readiness(&stores.table_id().await, at)
        .await
        .unwrap();
    let is_any_ready = readiness.iter().any(|(_, answer)| answer.is_ok());
    let are_all_ready = readiness.iter().all(|(_, answer)| answer.is_ok());
    assert!(are_all_ready || !is_any_ready, "{readiness:?}");
    is_any_ready
}

/// Asserts that the page index lacks writes, because otherwise the test of their loss tests
/// nothing.
async fn assert_writes_lost(stores: &Stores) {
    let contents = Contents::read(&stores.table).await;
    let differences = differences_of_page_index(&contents, stores.checked()).await;
    assert!(
        !differences.is_empty(),
        "nothing is lost, so this tests nothing"
    );
}

async fn end_redis(redis: &OwnRedis, stores: &mut Stores) {
    redis.server.kill().await;
    let impatient = RedisIndexConfig {
        timeout: Duration::from_millis(200),
        ..stores.redis().clone()
    };
    stores.index = redis_index::connect(&impatient).unwrap();
}

async fn restart_redis(redis: &OwnRedis, stores: &mut Stores) {
    redis.server.restart().await;
    stores.index = redis_index::connect(stores.redis()).unwrap();
}

/// Puts a batch of records into quarantine that a function has not processed.
async fn quarantine_batch(quarantine: &Quarantine, records: &[Value]) {
    let reason = Reason {
        function: "stream-writer".to_owned(),
        condition: "RetryAttemptsExhausted".to_owned(),
        detail: "Unhandled".to_owned(),
        invoke_count: 21,
    };
    quarantine
        .put(&reason, &json!({ "Records": records }))
        .await
        .unwrap();
}

/// The whole table as one segment, because the embedded engine has one connection.
pub(crate) fn whole() -> AuditOptions {
    AuditOptions {
        segments: 1,
        ..AuditOptions::default()
    }
}

/// Creates comments, and changes, hides or deletes most of them. The functions have seen nothing of
/// it.
async fn write_changes(stores: &Stores, numbers: Range<u64>) {
    let hidden = CommentPatch {
        status: Some(Status::Hidden),
        ..CommentPatch::default()
    };
    let table = &stores.table;
    let comments = stores.create_all(numbers.clone(), product).await;
    for (number, comment) in numbers.zip(comments) {
        let id = &comment.id;
        match number % 4 {
            0 => table.delete_comment(id, |_| true).await.unwrap(),
            1 => patch(table, id, &hidden).await,
            2 => patch(table, id, &data::rate(1 + number % 5)).await,
            _ => {}
        }
    }
}

/// Changes a comment that must exist.
async fn patch(table: &Table, id: &CommentId, change: &CommentPatch) {
    table.patch_comment(id, |_| true, change).await.unwrap();
}

fn product(number: u64) -> ProductId {
    data::product(&format!("product/{}", number % 5))
}

#[track_caller]
pub(crate) fn expect(code: u8, report: Report) -> Report {
    assert_eq!(report.exit_code(), code, "{report}");
    report
}

#[track_caller]
fn assert_clean(report: &Report) {
    assert_eq!((report.exit_code(), report.left), (0, 0), "{report}");
}
