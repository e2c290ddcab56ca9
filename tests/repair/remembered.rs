//! A run remembers what it repaired in the page index only if the page index still has it. Server: Redis is restored
//! from a snapshot, as after a fail-over to a node that lacks the last writes.

use model::Comment;
use rand::{SeedableRng, rngs::StdRng};
use repair_job::{AuditOptions, Job, Report, Which, exit};
use serde_json::Value;

use super::{HeldRun, expect, job, product, quarantine_batch, settings, whole};
use crate::fixture::{
    damage::{Damage, inflict_all},
    gate,
    redis_server::OwnRedis,
    stores::Stores,
};

/// So few that one answer holds the whole table.
const COMMENTS: u64 = 8;

/// The calls about a comment: its items are read, and after the edit of the page index its primary item once more.
const CALLS_BEFORE_THE_SECOND_READ: usize = 1;

fn one_segment() -> AuditOptions {
    AuditOptions { which: Which::One(0), index_scan: false, ..whole() }
}

/// Starts stores with one comment whose ranks are missing, also in the snapshot of Redis.
async fn start_damaged() -> (OwnRedis, Stores, Comment) {
    let (redis, stores) = Stores::start_ready_on_own_redis().await;
    let mut comments = stores.create_all(0..COMMENTS, product).await;
    job(&stores, true).recent().await;
    let damaged = comments.remove(3);
    inflict_all(&stores, &mut StdRng::seed_from_u64(183), [(&damaged, Damage::DropRanks)]).await;
    redis.ask::<()>("SAVE").await;
    (redis, stores, damaged)
}

/// Runs a job, and restores the snapshot right after the job has repaired the comment.
async fn lose_the_repair<F: Future<Output = Report> + Send + 'static>(
    redis: &OwnRedis,
    stores: &Stores,
    run: impl FnOnce(Job) -> F,
) -> Report {
    let run = HeldRun::start(stores, (gate::COMMENTS, CALLS_BEFORE_THE_SECOND_READ), settings(true), run).await;
    stores.assert_index().await;
    redis.restore(&stores.index).await;
    run.finish().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_does_not_count_a_segment_whose_repairs_redis_has_lost() {
    let (redis, stores, _) = start_damaged().await;
    let report = lose_the_repair(&redis, &stores, |job| async move { job.audit(one_segment()).await }).await;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::SKIPPED, "{report}");
    assert_eq!(job(&stores, false).status(1, None).await.unwrap().audited_share, 0.0, "{report}");
    expect(exit::DRIFT_FOUND, job(&stores, true).audit(one_segment()).await);
    assert_eq!(job(&stores, false).status(1, None).await.unwrap().audited_share, 1.0);
    stores.assert_index().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_stays_in_quarantine_whose_repairs_redis_has_lost() {
    let (redis, stores, damaged) = start_damaged().await;
    let quarantine = stores.quarantine();
    let pk = format!("COMMENT#{}", damaged.id);
    let mut records: Vec<Value> = stores.lambda_records().await;
    records.retain(|record| record["dynamodb"]["Keys"]["pk"]["S"] == pk.as_str());
    quarantine_batch(&quarantine, &records).await;
    let of_run = quarantine.clone();
    let report = lose_the_repair(&redis, &stores, |job| async move { job.quarantine(&of_run).await }).await;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::SKIPPED, "{report}");
    assert_eq!(quarantine.list(None, 10).await.unwrap().len(), 1, "{report}");
    expect(exit::DRIFT_FOUND, job(&stores, true).quarantine(&quarantine).await);
    assert_eq!(quarantine.list(None, 10).await.unwrap().len(), 0);
    stores.assert_index().await;
}
