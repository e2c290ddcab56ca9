//! The page index is lost, emptied or refused while a run reads it. The run concludes nothing from missing entries, and
//! still checks duplicates.

use std::{collections::BTreeMap, time::Duration};

use model::{Comment, plan::reconcile::DriftKind};
use rand::{SeedableRng, rngs::StdRng};
use repair_job::{Job, JobSettings, Report, Stop, exit};

use super::{assert_clean, job, product, settings, stopped::patient_job_through, whole};
use crate::fixture::{
    damage::{Damage, inflict},
    gate::{self, Gate},
    redis_server::OwnRedis,
    stores::Stores,
    wait_for,
};

/// With this many comments, a scan of the table takes several answers, and of the page index several batches.
const COMMENTS: u64 = 300;

/// How the page index is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The index is emptied.
    Flushed,
    /// A rebuild begins.
    Rebuilt,
    /// The server restarts from a snapshot that lacks half of the comments.
    Restored,
}

async fn stores_on(redis: &OwnRedis) -> (Stores, Vec<Comment>) {
    let stores = Stores::start_on(redis.server.url()).await;
    stores.rebuild().await;
    let mut comments = Vec::new();
    let mut raw = redis.connection().await;
    for number in 0..COMMENTS {
        comments.push(stores.create_numbered(number, product(number)).await);
        if number == COMMENTS / 2 {
            job(&stores, true).recent().await;
            redis::cmd("SAVE").exec_async(&mut raw).await.unwrap();
        }
    }
    job(&stores, true).recent().await;
    stores.assert_invariants().await;
    (stores, comments)
}

async fn lose(stores: &Stores, redis: &OwnRedis, loss: Loss) {
    match loss {
        Loss::Flushed => {
            let mut raw = redis.connection().await;
            redis::cmd("FLUSHALL").exec_async(&mut raw).await.unwrap();
        }
        Loss::Rebuilt => drop(stores.index.begin_rebuild().await.unwrap()),
        Loss::Restored => {
            redis.kill().await;
            redis.server.restart().await.unwrap();
            // Clients that were connected have noticed the restart.
            wait_for("the server", async || stores.index.ping().await).await;
        }
    }
}

/// Runs an audit, and loses the page index while the audit waits at a gate.
async fn lose_during_audit(stores: &Stores, redis: &OwnRedis, loss: Loss, is_index_scan: bool) -> Report {
    let gate = match is_index_scan {
        true => Gate::start(&stores.engine_url(), gate::INDEX_SCANS).await,
        false => Gate::start(&stores.engine_url(), gate::TABLE_SCANS).await,
    };
    gate.hold_after(1);
    let lease = JobSettings { lease: Duration::from_secs(60), ..settings(true) };
    let audit = patient_job_through(stores, &gate, lease, Stop::default()).await;
    let run = tokio::spawn(async move { audit.audit(whole()).await });
    gate.wait_until_holding("the run's reads").await;
    lose(stores, redis, loss).await;
    gate.open();
    run.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_reports_no_differences_in_a_page_index_that_is_lost_meanwhile() {
    let redis = OwnRedis::start().await;
    let (stores, comments) = stores_on(&redis).await;
    let mut random = StdRng::seed_from_u64(81);
    // A restored server has an earlier snapshot, so this loss comes first.
    for loss in [Loss::Restored, Loss::Flushed, Loss::Rebuilt] {
        for is_index_scan in [false, true] {
            let mut expected = BTreeMap::new();
            for comment in &comments {
                for (kind, count) in inflict(&stores, &mut random, comment, Damage::AlterDuplicate).await {
                    *expected.entry(kind).or_default() += count;
                }
            }
            let report = lose_during_audit(&stores, &redis, loss, is_index_scan).await;
            assert_eq!(report.drifted, expected, "{loss:?} {is_index_scan} {report}");
            assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::SKIPPED, "{loss:?} {is_index_scan} {report}");
            let share = job(&stores, false).status(1, None).await.unwrap().audited_share;
            assert!(is_index_scan || share == 0.0, "{loss:?}: {share}");
            stores.rebuild().await;
            stores.assert_invariants().await;
            stores.table.delete_state("audit", "1/000000").await.unwrap();
        }
    }
    assert_clean(&job(&stores, false).audit(whole()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_redis_refuses_does_not_prevent_the_repair_of_duplicates() {
    let redis = OwnRedis::start().await;
    let (stores, comments) = stores_on(&redis).await;
    let mut random = StdRng::seed_from_u64(82);
    let mut raw = redis.connection().await;
    // Each user lacks one permission: to write, to read the scores that an audit reads first, to list keys, or to ask
    // which server answers.
    for (name, rules) in
        [("looks", "-zadd -zrem -evalsha"), ("asks", "-zmscore"), ("lists", "-scan -zscan"), ("greets", "-info")]
    {
        let rules: Vec<&str> = ["on", ">password", "~*", "&*", "+@all"].into_iter().chain(rules.split(' ')).collect();
        redis::cmd("ACL").arg("SETUSER").arg(name).arg(&rules).exec_async(&mut raw).await.unwrap();
        let url = redis.server.url().replace("redis://", &format!("redis://{name}:password@"));
        let index = stores.index_at(&url);
        let limited = Job::new(stores.table.clone(), index, settings(true), Stop::default());
        for (is_audit, since) in [(true, 0), (false, 1)] {
            for comment in comments.iter().skip(since).step_by(40) {
                inflict(&stores, &mut random, comment, Damage::AlterDuplicate).await;
                inflict(&stores, &mut random, comment, Damage::DropRanks).await;
            }
            let report = match is_audit {
                true => limited.audit(whole()).await,
                false => limited.recent().await,
            };
            assert_eq!(report.drifted[&DriftKind::StaleDuplicate], 8, "{name} {report}");
            let is_refused = name != "lists" || is_audit;
            let skipped = if is_refused { exit::SKIPPED } else { 0 };
            assert_eq!(report.exit_code(), exit::DRIFT_FOUND | skipped, "{name} {report}");
            let said = report.skipped.iter().any(|what| what.contains("NOPERM") || what.contains("no permissions"));
            assert!(said || !is_refused, "{name} {report}");
            let report = job(&stores, true).audit(whole()).await;
            assert_eq!(report.exit_code() & !exit::DRIFT_FOUND, 0, "{name} {report}");
            stores.assert_invariants().await;
        }
    }
}
