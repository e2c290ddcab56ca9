//! A run that cannot complete says so, records nothing as checked that it has not read, and still
//! makes progress.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use model::{Revision, journal::JournalEntry, plan::reconcile::DriftKind};
use process::now;
use repair_job::{Job, JobSettings, Stop, exit};
use serde_json::Value;
use table::TableConfig;

use super::{
    HeldRun, assert_clean, expect, job, job_with, no_overlap, product, quarantine_batch, recent,
    settings,
};
use crate::fixture::{
    data,
    faults::{TableFault, chosen_faults_table},
    gate,
    invariants::Contents,
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn a_run_that_is_stopped_has_advanced_its_watermark_to_what_it_has_not_checked() {
    const HOUR_MS: i64 = 3_600_000;
    let stores = Stores::start_ready().await;
    let before = now().plus_ms(-4 * HOUR_MS);
    let earlier = now().plus_ms(-3 * HOUR_MS);
    stores.table.advance_watermark(before).await.unwrap();
    let comments = stores.create_all(1..5, product).await;
    let entry = JournalEntry {
        id: comments[0].id.clone(),
        revision: Revision::after(None, earlier, 1),
        before: None,
        after: Some(comments[0].placement()),
        is_report: false,
        by: None,
        follows: None,
    };
    stores
        .put_raw(serde_dynamo::to_item(entry.to_item()).unwrap())
        .await;
    // The run has repaired what changed earlier, and repairs what has changed now.
    let one_by_one = JobSettings {
        concurrency: 1,
        ..no_overlap()
    };
    let run = HeldRun::start(&stores, (gate::TRANSACTIONS, 1), one_by_one, recent).await;
    let report = expect(exit::DRIFT_FOUND | exit::SKIPPED, run.stop().await);
    let stopped = report.stopped.as_ref();
    assert!(
        stopped.is_some_and(|stopped| stopped.resumes.contains("resumes at")),
        "{report}"
    );
    let watermark = stores.table.watermark().await.unwrap().unwrap();
    assert!(
        earlier < watermark && watermark < comments[1].revision.instant(),
        "it would begin anew: {report}"
    );
    job_with(&stores, no_overlap(), Stop::default())
        .recent()
        .await;
    stores.assert_invariants().await;
    assert_clean(&job(&stores, false).recent().await);
    stores.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_run_stopped_at_its_last_comments_reports_it() {
    let stores = Stores::start_ready().await;
    stores.create_all(0..4, product).await;
    let records: Vec<Value> = stores.lambda_records().await;
    let quarantine = stores.quarantine();
    quarantine_batch(&quarantine, &records).await;
    let one_by_one = JobSettings {
        concurrency: 1,
        ..settings(true)
    };
    let of_run = quarantine.clone();
    let run = HeldRun::start(
        &stores,
        (gate::TRANSACTIONS, 1),
        one_by_one,
        async move |job: Job| job.quarantine(&of_run).await,
    )
    .await;
    let report = expect(exit::DRIFT_FOUND | exit::SKIPPED, run.stop().await);
    assert_eq!(
        (report.checked, &*report.notes),
        (2, &["0 batches removed, 1 kept".to_owned()][..]),
        "{report}"
    );
    let checked = job_with(&stores, settings(true), Stop::after(Some(Duration::ZERO)));
    let checked = checked.check(&data::comment_id("c0003"), None).await;
    assert_eq!(
        (checked.exit_code(), checked.checked),
        (exit::SKIPPED, 0),
        "{checked}"
    );
    let report = job(&stores, true).quarantine(&quarantine).await;
    assert_eq!(
        (report.exit_code(), report.checked),
        (exit::DRIFT_FOUND, 4),
        "{report}"
    );
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
#[ignore = "takes long"]
async fn repairs_before_a_store_failure_are_reported_and_no_watermark_passes_what_was_not_read() {
    let stores = Stores::start_ready().await;
    let before = now().plus_ms(-1_000);
    stores.table.advance_watermark(before).await.unwrap();
    stores.create_all(0..30, product).await;
    // One comment may not be read.
    let refused = job_with_faults(&stores, Stop::default(), |body| {
        if body.contains("COMMENT#c0007") {
            Some(TableFault::Refuse)
        } else {
            None
        }
    });
    let report = expect(
        exit::FAILURE | exit::DRIFT_FOUND,
        refused.await.recent().await,
    );
    let written = Contents::read(&stores.table).await.duplicates;
    assert_eq!(
        report.drifted[&DriftKind::MissingDuplicate],
        u64::try_from(written).unwrap(),
        "{report}"
    );
    assert!((1..30 * 31).contains(&written), "{written}");
    assert_eq!(
        stores.table.watermark().await.unwrap(),
        Some(before),
        "{report}"
    );
    expect(exit::DRIFT_FOUND, job(&stores, true).recent().await);
    assert!(stores.table.watermark().await.unwrap() > Some(before));
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
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
            Some(TableFault::Drop)
        } else {
            None
        }
    });
    let report = expect(
        exit::DRIFT_FOUND | exit::SKIPPED,
        silent.await.check(&comment.id, None).await,
    );
    assert_eq!(report.drifted[&DriftKind::MissingDuplicate], 31, "{report}");
    assert_eq!(Contents::read(&stores.table).await.duplicates, 31);
    stores.finish().await;
}
