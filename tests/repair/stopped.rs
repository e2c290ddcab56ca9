//! A run that cannot complete says so, records nothing as checked that it has not read, and still makes progress.

use std::time::Duration;

use functions::quarantine::Reason;
use model::plan::reconcile::DriftKind;
use page_index::{PageIndex, PageIndexConfig};
use process::now;
use repair_job::{Asked, Job, JobSettings, Stop, StopReason, exit};
use serde_json::{Value, json};
use table::{Table, TableConfig};

use super::{assert_clean, job, job_with, product, settings, whole};
use crate::fixture::{
    damage::{Damage, inflict},
    faults::table::{TableFault, chosen_faults_table},
    gate::{self, Gate},
    invariants::Contents,
    redis_server::OwnRedis,
    stores::Stores,
    wait_for,
};
use rand::{SeedableRng, rngs::StdRng};

/// More comments than a run must check before it may advance its watermarks.
const MANY: u64 = 1_100;
/// Number of comments repaired before the run is stopped.
const BEFORE_THE_STOP: usize = 900;

/// A job whose calls to the table pass a gate.
async fn job_through(stores: &Stores, gate: &Gate, settings: JobSettings, stop: Stop) -> Job {
    let config = TableConfig {
        attempt_timeout: Duration::from_millis(400),
        call_timeout: Duration::from_millis(400),
        max_attempts: 1,
        ..TableConfig::new(stores.table.name(), Some(gate.url.clone()))
    };
    Job::new(Table::connect(&config).await, stores.index.clone(), settings, stop)
}

/// Like [`job_through`], but with long time-outs.
pub(super) async fn patient_job_through(stores: &Stores, gate: &Gate, settings: JobSettings, stop: Stop) -> Job {
    let time = Duration::from_secs(120);
    let config = TableConfig {
        attempt_timeout: time,
        call_timeout: time,
        ..TableConfig::new(stores.table.name(), Some(gate.url.clone()))
    };
    Job::new(Table::connect(&config).await, stores.index.clone(), settings, stop)
}

#[tokio::test]
async fn no_watermark_passes_comments_that_an_unavailable_table_did_not_return() {
    let stores = Stores::start_ready().await;
    let before = now().plus_ms(-1_000);
    stores.table.advance_watermark(before).await.unwrap();
    stores.create_all(0..10, product).await;
    let gate = Gate::start(&stores.engine_url(), gate::COMMENTS).await;
    gate.hold_after(0);
    let report = job_through(&stores, &gate, settings(true), Stop::default()).await.recent().await;
    assert_eq!(report.exit_code() & exit::FAILURE, exit::FAILURE, "{report}");
    assert_eq!(stores.table.watermark().await.unwrap(), Some(before), "{report}");
    gate.open();
    let report = job(&stores, true).recent().await;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND, "{report}");
    assert!(stores.table.watermark().await.unwrap() > Some(before));
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stopped_in_a_busy_hour_ends_soon_with_an_advanced_watermark() {
    let stores = Stores::start_ready().await;
    let before = now();
    stores.table.advance_watermark(before).await.unwrap();
    stores.create_all(0..MANY, product).await;
    let gate = Gate::start(&stores.engine_url(), gate::TRANSACTIONS).await;
    gate.hold_after(BEFORE_THE_STOP);
    let no_overlap = JobSettings { overlap: Duration::ZERO, lease: Duration::from_secs(60), ..settings(true) };
    let stop = Stop::default();
    let stopped = patient_job_through(&stores, &gate, no_overlap.clone(), stop.clone()).await;
    let run = tokio::spawn(async move { stopped.recent().await });
    gate.wait_until_holding("the run's writes").await;
    stop.ask();
    gate.open();
    let report = run.await.unwrap();
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::SKIPPED, "{report}");
    let under_way = u64::try_from(BEFORE_THE_STOP + no_overlap.concurrency).unwrap();
    assert!(report.checked <= under_way, "it goes on after it was stopped: {report}");
    let watermark = stores.table.watermark().await.unwrap().unwrap();
    assert!(watermark > before, "it would begin anew every hour: {report}");
    let report = job_with(&stores, no_overlap, Stop::default()).recent().await;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND, "{report}");
    assert!(report.checked < MANY, "it has begun anew: {report}");
    stores.assert_invariants().await;
    assert_clean(&job(&stores, false).recent().await);
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn a_run_whose_lease_expires_ends_and_stores_no_record() {
    let stores = Stores::start_ready().await;
    stores.table.advance_watermark(now()).await.unwrap();
    stores.create_all(0..40, product).await;
    let updates = Gate::start(&stores.engine_url(), gate::UPDATES).await;
    let writes = Gate::start(&updates.url, gate::TRANSACTIONS).await;
    updates.hold_after(0);
    writes.hold_after(2);
    let short =
        JobSettings { lease: Duration::from_secs(5), overlap: Duration::ZERO, concurrency: 1, ..settings(true) };
    let first = patient_job_through(&stores, &writes, short.clone(), Stop::default()).await;
    let first = tokio::spawn(async move { first.recent().await });
    writes.wait_until_holding("the first run's writes").await;
    let second = wait_for("the end of the lease", async || {
        let report = job_with(&stores, short.clone(), Stop::default()).recent().await;
        if report.exit_code() & exit::HELD == 0 { Ok(report) } else { Err(()) }
    });
    let second = second.await;
    assert_eq!(second.exit_code(), exit::DRIFT_FOUND, "{second}");
    updates.open();
    writes.open();
    let first = first.await.unwrap();
    assert_eq!(first.stopped.as_ref().map(|stopped| stopped.reason), Some(StopReason::LeaseLost), "{first}");
    let status = job(&stores, false).status(1, None).await.unwrap();
    let recent = status.last_runs.iter().find(|run| run.command == "recent").unwrap();
    assert_eq!(recent.exit_code, exit::DRIFT_FOUND, "the first run has written down how it ended");
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
async fn an_audit_without_redis_repairs_duplicates_but_does_not_count() {
    let redis = OwnRedis::start().await;
    let mut stores = Stores::start_on(redis.server.url()).await;
    stores.rebuild().await;
    let mut random = StdRng::seed_from_u64(61);
    let comments = stores.create_all(0..6, product).await;
    stores.deliver_all().await;
    inflict(&stores, &mut random, &comments[0], Damage::DropDuplicates).await;
    inflict(&stores, &mut random, &comments[1], Damage::DropRanks).await;
    let mut raw = redis.connection().await;
    redis::cmd("SAVE").exec_async(&mut raw).await.unwrap();
    redis.kill().await;
    let impatient = PageIndexConfig { timeout: Duration::from_millis(200), ..stores.index_config.clone() };
    stores.index = PageIndex::connect(&impatient).unwrap();
    let report = job(&stores, true).audit(whole()).await;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::SKIPPED, "{report}");
    assert_eq!(job(&stores, false).status(1, None).await.unwrap().audited_share, 0.0);
    let quarantine = stores.quarantine();
    let invoked = repair_job::invoked(&job(&stores, true), &quarantine, whole(), Asked::Hourly).await;
    let metrics: Value = serde_json::from_str(&repair_job::metrics_line(&invoked, "Pagemark")).unwrap();
    assert_eq!((&metrics["IndexReachable"], &metrics["IndexWatermarkAge"]), (&json!(0), &Value::Null), "{metrics}");
    redis.server.restart().await.unwrap();
    stores.index = PageIndex::connect(&stores.index_config).unwrap();
    let report = job(&stores, true).audit(whole()).await;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND, "{report}");
    assert_eq!(job(&stores, false).status(1, None).await.unwrap().audited_share, 1.0);
    stores.assert_invariants().await;
}

#[tokio::test]
async fn a_run_stopped_at_its_last_comments_reports_it() {
    let stores = Stores::start_ready().await;
    stores.create_all(0..4, product).await;
    let records: Vec<Value> = stores.lambda_records().await;
    let quarantine = stores.quarantine();
    let reason = Reason {
        function: "stream-writer".to_owned(),
        condition: "RetryAttemptsExhausted".to_owned(),
        detail: "Unhandled".to_owned(),
        invoke_count: 21,
    };
    quarantine.put(&reason, &json!({ "Records": records })).await.unwrap();
    let gate = Gate::start(&stores.engine_url(), gate::TRANSACTIONS).await;
    gate.hold_after(1);
    let one_by_one = JobSettings { concurrency: 1, lease: Duration::from_secs(60), ..settings(true) };
    let stop = Stop::default();
    let stopped = patient_job_through(&stores, &gate, one_by_one, stop.clone()).await;
    let run = tokio::spawn({
        let quarantine = quarantine.clone();
        async move { stopped.quarantine(&quarantine).await }
    });
    gate.wait_until_holding("the run's writes").await;
    stop.ask();
    gate.open();
    let report = run.await.unwrap();
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::SKIPPED, "{report}");
    assert_eq!((report.checked, &*report.notes), (2, &["0 batches removed, 1 kept".to_owned()][..]), "{report}");
    let checked = job_with(&stores, settings(true), Stop::after(Some(Duration::ZERO)));
    let checked = checked.check(&model::CommentId::parse("c0003").unwrap(), None).await.report;
    assert_eq!((checked.exit_code(), checked.checked), (exit::SKIPPED, 0), "{checked}");
    let report = job(&stores, true).quarantine(&quarantine).await;
    assert_eq!((report.exit_code(), report.checked), (exit::DRIFT_FOUND, 4), "{report}");
    stores.assert_invariants().await;
    stores.finish().await;
}

/// A job whose calls to the table meet faults chosen by their content.
async fn job_with_faults(
    stores: &Stores,
    stop: Stop,
    choose: impl Fn(&str) -> Option<TableFault> + Send + Sync + 'static,
) -> Job {
    let config = TableConfig::new(stores.table.name(), Some(stores.engine_url()));
    let table = chosen_faults_table(&config, choose).await;
    Job::new(table, stores.index.clone(), settings(true), stop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repairs_before_a_store_failure_are_reported() {
    let stores = Stores::start_ready().await;
    stores.create_all(0..30, product).await;
    // One comment may not be read.
    let refused =
        job_with_faults(&stores, Stop::default(), |body| body.contains("COMMENT#c0007").then_some(TableFault::Refuse));
    let report = refused.await.recent().await;
    assert_eq!(report.exit_code(), exit::FAILURE | exit::DRIFT_FOUND, "{report}");
    let written = Contents::read(&stores.table).await.duplicates();
    assert_eq!(report.drifted[&DriftKind::MissingDuplicate], u64::try_from(written).unwrap(), "{report}");
    assert!((1..30 * 31).contains(&written), "{written}");
    job(&stores, true).recent().await;
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repairs_of_a_skipped_comment_are_reported() {
    let stores = Stores::start_ready().await;
    let comment = stores.create_numbered(1, product(1)).await;
    // Every call fails once the duplicates have been written.
    let is_written = std::sync::atomic::AtomicBool::new(false);
    let stop = Stop::default();
    let silent = job_with_faults(&stores, stop.clone(), move |body| {
        use std::sync::atomic::Ordering;
        let was_written = is_written.load(Ordering::Relaxed);
        if body.contains("TransactItems") {
            is_written.store(true, Ordering::Relaxed);
        }
        if was_written {
            stop.ask();
        }
        was_written.then_some(TableFault::Drop)
    });
    let report = silent.await.check(&comment.id, None).await.report;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::SKIPPED, "{report}");
    assert_eq!(report.drifted[&DriftKind::MissingDuplicate], 31, "{report}");
    assert_eq!(Contents::read(&stores.table).await.duplicates(), 31);
    stores.finish().await;
}
