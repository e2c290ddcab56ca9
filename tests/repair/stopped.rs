//! A run that cannot complete says so, records nothing as checked that it has not read, and still makes progress.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use model::plan::reconcile::DriftKind;
use process::now;
use rand::{SeedableRng, rngs::StdRng};
use repair_job::{Asked, Job, JobSettings, Stop, exit};
use serde_json::{Value, json};
use table::TableConfig;

use super::{
    HeldRun, assert_clean, end_redis, expect, job, job_with, product, quarantine_batch, recent, restart_redis,
    settings, whole,
};
use crate::fixture::{
    damage::{Damage, inflict_all},
    data,
    faults::{TableFault, chosen_faults_table},
    gate,
    invariants::Contents,
    stores::Stores,
};

/// More comments than a run must check before it may advance its watermarks.
const MANY: u64 = 1_100;
/// Number of comments repaired before the run is stopped.
const BEFORE_THE_STOP: usize = 900;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stopped_in_a_busy_hour_ends_soon_with_an_advanced_watermark() {
    let stores = Stores::start_ready().await;
    let before = now();
    stores.table.advance_watermark(before).await.unwrap();
    stores.create_all(0..MANY, product).await;
    let exact = JobSettings { overlap: Duration::ZERO, ..settings(true) };
    let run = HeldRun::start(&stores, (gate::TRANSACTIONS, BEFORE_THE_STOP), exact.clone(), recent).await;
    let report = expect(exit::DRIFT_FOUND | exit::SKIPPED, run.stop().await);
    let under_way = u64::try_from(BEFORE_THE_STOP + exact.concurrency).unwrap();
    assert!(report.checked <= under_way, "it goes on after it was stopped: {report}");
    assert!(report.stopped.as_ref().is_some_and(|stopped| stopped.resumes.contains("resumes at")), "{report}");
    let watermark = stores.table.watermark().await.unwrap().unwrap();
    assert!(watermark > before, "it would begin anew every hour: {report}");
    let report = expect(exit::DRIFT_FOUND, job_with(&stores, exact, Stop::default()).recent().await);
    assert!(report.checked < MANY, "it has begun anew: {report}");
    stores.assert_invariants().await;
    assert_clean(&job(&stores, false).recent().await);
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn an_audit_without_redis_repairs_duplicates_but_does_not_count() {
    let (redis, mut stores) = Stores::start_ready_on_own_redis().await;
    let comments = stores.create_all(0..6, product).await;
    stores.deliver_all().await;
    let damages = comments.iter().zip([Damage::DropDuplicates, Damage::DropRanks]);
    inflict_all(&stores, &mut StdRng::seed_from_u64(61), damages).await;
    redis.ask::<()>("SAVE").await;
    end_redis(&redis, &mut stores).await;
    expect(exit::DRIFT_FOUND | exit::SKIPPED, job(&stores, true).audit(whole()).await);
    assert_eq!(job(&stores, false).status(1, None).await.unwrap().audited_share, 0.0);
    let quarantine = stores.quarantine();
    let invoked = repair_job::invoked(&job(&stores, true), &quarantine, whole(), Asked::Hourly).await;
    let metrics: Value = serde_json::from_str(&repair_job::metrics_line(&invoked, "Pagemark")).unwrap();
    assert_eq!((&metrics["IndexReachable"], &metrics["IndexWatermarkAge"]), (&json!(0), &Value::Null), "{metrics}");
    restart_redis(&redis, &mut stores).await;
    expect(exit::DRIFT_FOUND, job(&stores, true).audit(whole()).await);
    assert_eq!(job(&stores, false).status(1, None).await.unwrap().audited_share, 1.0);
    stores.assert_invariants().await;
}

#[tokio::test]
async fn a_run_stopped_at_its_last_comments_reports_it() {
    let stores = Stores::start_ready().await;
    stores.create_all(0..4, product).await;
    let records: Vec<Value> = stores.lambda_records().await;
    let quarantine = stores.quarantine();
    quarantine_batch(&quarantine, &records).await;
    let one_by_one = JobSettings { concurrency: 1, ..settings(true) };
    let of_run = quarantine.clone();
    let run = async move |job: Job| job.quarantine(&of_run).await;
    let run = HeldRun::start(&stores, (gate::TRANSACTIONS, 1), one_by_one, run).await;
    let report = expect(exit::DRIFT_FOUND | exit::SKIPPED, run.stop().await);
    assert_eq!((report.checked, &*report.notes), (2, &["0 batches removed, 1 kept".to_owned()][..]), "{report}");
    let checked = job_with(&stores, settings(true), Stop::after(Some(Duration::ZERO)));
    let checked = checked.check(&data::comment_id("c0003"), None).await.report;
    assert_eq!((checked.exit_code(), checked.checked), (exit::SKIPPED, 0), "{checked}");
    let report = job(&stores, true).quarantine(&quarantine).await;
    assert_eq!((report.exit_code(), report.checked), (exit::DRIFT_FOUND, 4), "{report}");
    stores.assert_invariants().await;
    stores.finish().await;
}

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
async fn repairs_before_a_store_failure_are_reported_and_no_watermark_passes_what_was_not_read() {
    let stores = Stores::start_ready().await;
    let before = now().plus_ms(-1_000);
    stores.table.advance_watermark(before).await.unwrap();
    stores.create_all(0..30, product).await;
    // One comment may not be read.
    let refused =
        job_with_faults(&stores, Stop::default(), |body| body.contains("COMMENT#c0007").then_some(TableFault::Refuse));
    let report = expect(exit::FAILURE | exit::DRIFT_FOUND, refused.await.recent().await);
    let written = Contents::read(&stores.table).await.duplicates;
    assert_eq!(report.drifted[&DriftKind::MissingDuplicate], u64::try_from(written).unwrap(), "{report}");
    assert!((1..30 * 31).contains(&written), "{written}");
    assert_eq!(stores.table.watermark().await.unwrap(), Some(before), "{report}");
    expect(exit::DRIFT_FOUND, job(&stores, true).recent().await);
    assert!(stores.table.watermark().await.unwrap() > Some(before));
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repairs_of_a_skipped_comment_are_reported() {
    let stores = Stores::start_ready().await;
    let comment = stores.create_numbered(1, product(1)).await;
    // Every call fails once the duplicates have been written.
    let is_written = AtomicBool::new(false);
    let stop = Stop::default();
    let silent = job_with_faults(&stores, stop.clone(), move |body| {
        let was_written = is_written.fetch_or(body.contains("TransactItems"), Ordering::Relaxed);
        if was_written {
            stop.ask();
        }
        was_written.then_some(TableFault::Drop)
    });
    let report = expect(exit::DRIFT_FOUND | exit::SKIPPED, silent.await.check(&comment.id, None).await.report);
    assert_eq!(report.drifted[&DriftKind::MissingDuplicate], 31, "{report}");
    assert_eq!(Contents::read(&stores.table).await.duplicates, 31);
    stores.finish().await;
}
