//! The page index is lost, emptied or refused while a run reads it. The run concludes nothing from
//! missing entries, still checks duplicates, and remembers no repair that the page index has lost.

use std::ops::Range;

use model::{Comment, plan::reconcile::DriftKind};
use repair_job::{Job, exit};
use serde_json::Value;

use super::{
    HeldRun, assert_clean, expect, job, job_of, product, quarantine_batch, settings, whole,
};
use crate::fixture::{
    damage::{Damage, inflict_all},
    gate,
    redis_server::OwnRedis,
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

/// With this many comments, a scan of the table takes several answers, and of the page index
/// several batches.
const COMMENTS: u64 = 300;

#[derive(Debug, Clone, Copy)]
enum Loss {
    Rebuilt,
    /// The server restarts from a snapshot that lacks half of the comments.
    Restored,
}

async fn create(stores: &Stores, numbers: Range<u64>) -> Vec<Comment> {
    let comments = stores.create_all(numbers, product).await;
    job(stores, true).recent().await;
    comments
}

async fn start_with_snapshot() -> (OwnRedis, Stores, Vec<Comment>) {
    let (redis, stores) = Stores::start_ready_on_own_redis().await;
    let mut comments = create(&stores, 0..COMMENTS / 2).await;
    redis.ask::<()>("SAVE").await;
    comments.extend(create(&stores, COMMENTS / 2..COMMENTS).await);
    stores.assert_invariants().await;
    (redis, stores, comments)
}

/// The audit repairs and reports duplicates. About the page index it reports nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn an_audit_reports_no_differences_in_a_page_index_that_is_lost_meanwhile() {
    let (redis, stores, comments) = start_with_snapshot().await;
    // A restored server has an earlier snapshot, so this loss comes first.
    for loss in [Loss::Restored, Loss::Rebuilt] {
        for is_index_scan in [false, true] {
            let damaged = comments.iter().step_by(30);
            let damages = damaged.map(|comment| (comment, Damage::AlterDuplicate));
            let expected = inflict_all(&stores, damages).await;
            let kind = if is_index_scan {
                gate::INDEX_SCANS
            } else {
                gate::TABLE_SCANS
            };
            let run = HeldRun::start(&stores, (kind, 1), settings(true), async move |job: Job| {
                job.audit(whole()).await
            })
            .await;
            match loss {
                Loss::Rebuilt => drop(stores.index.begin_rebuild().await.unwrap()),
                Loss::Restored => redis.restore(&stores.index).await,
            }
            let report = run.finish().await;
            assert_eq!(
                report.drifted, expected,
                "{loss:?} {is_index_scan} {report}"
            );
            assert_eq!(
                report.exit_code(),
                exit::DRIFT_FOUND | exit::SKIPPED,
                "{loss:?} {is_index_scan} {report}"
            );
            let status = job(&stores, false).status(1, None).await.unwrap();
            let share = status.audited_share;
            assert!(is_index_scan || share == 0.0, "{loss:?}: {share}");
            stores.rebuild().await;
            stores.assert_invariants().await;
            stores
                .table
                .delete_state("audit", "1/000000")
                .await
                .unwrap();
        }
    }
    assert_clean(&job(&stores, false).audit(whole()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn a_command_that_redis_refuses_does_not_prevent_the_repair_of_duplicates() {
    let (redis, stores, comments) = start_with_snapshot().await;
    let mut raw = redis.connection().await;
    // Each user lacks one permission: to call scripts, to read the names of products, to list keys,
    // or to ask which server answers.
    for (name, rules) in [
        ("looks", "-evalsha"),
        ("asks", "-sismember"),
        ("lists", "-scan"),
        ("greets", "-info"),
    ] {
        let mut set_user = redis::cmd("ACL");
        set_user.arg("SETUSER").arg(name);
        set_user.arg(&["on", ">password", "~*", "&*", "+@all"]);
        for rule in rules.split(' ') {
            set_user.arg(rule);
        }
        set_user.exec_async(&mut raw).await.unwrap();
        let user = format!("redis://{name}:password@");
        let url = redis.server.url().replace("redis://", &user);
        let index = stores.index_at(&url);
        let limited = job_of(stores.table.clone(), index, settings(true));
        for (is_audit, since) in [(true, 0), (false, 1)] {
            for damage in [Damage::AlterDuplicate, Damage::DropRanks] {
                let damaged = comments[since..].iter().step_by(40);
                let damages = damaged.map(|comment| (comment, damage));
                inflict_all(&stores, damages).await;
            }
            let report = if is_audit {
                limited.audit(whole()).await
            } else {
                limited.recent().await
            };
            assert_eq!(
                report.drifted[&DriftKind::StaleDuplicate],
                8,
                "{name} {report}"
            );
            let is_refused = name != "lists" || is_audit;
            let skipped = if is_refused { exit::SKIPPED } else { 0 };
            assert_eq!(
                report.exit_code(),
                exit::DRIFT_FOUND | skipped,
                "{name} {report}"
            );
            let said = report
                .skipped
                .iter()
                .any(|what| what.contains("NOPERM") || what.contains("no permissions"));
            assert!(said || !is_refused, "{name} {report}");
            let report = job(&stores, true).audit(whole()).await;
            assert_eq!(
                report.exit_code() & !exit::DRIFT_FOUND,
                0,
                "{name} {report}"
            );
            stores.assert_invariants().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn a_batch_stays_in_quarantine_whose_repairs_redis_has_lost() {
    let (redis, stores) = Stores::start_ready_on_own_redis().await;
    let damaged = create(&stores, 0..8).await.remove(3);
    inflict_all(&stores, [(&damaged, Damage::DropRanks)]).await;
    redis.ask::<()>("SAVE").await;
    let quarantine = stores.quarantine();
    let pk = format!("COMMENT#{}", damaged.id);
    let mut records: Vec<Value> = stores.lambda_records().await;
    records.retain(|record| record["dynamodb"]["Keys"]["pk"]["S"] == pk.as_str());
    quarantine_batch(&quarantine, &records).await;
    // The run is held after its edit of the page index, when it reads the primary item once more.
    let of_run = quarantine.clone();
    let run = HeldRun::start(
        &stores,
        (gate::COMMENTS, 1),
        settings(true),
        async move |job: Job| job.quarantine(&of_run).await,
    )
    .await;
    stores.assert_index().await;
    redis.restore(&stores.index).await;
    let report = expect(exit::DRIFT_FOUND | exit::SKIPPED, run.finish().await);
    assert_eq!(
        quarantine.list(None, 10).await.unwrap().len(),
        1,
        "{report}"
    );
    expect(
        exit::DRIFT_FOUND,
        job(&stores, true).quarantine(&quarantine).await,
    );
    assert_eq!(quarantine.list(None, 10).await.unwrap().len(), 0);
    stores.assert_index().await;
}
