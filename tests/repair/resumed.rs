//! Stopped audits resume by the time when they began, and others start anew, so that an audit of
//! everything checks everything.

use model::{Comment, ProductId, Timestamp};
use process::now;
use repair_job::{AuditOptions, Report, exit};

use super::{HeldRun, end_redis, expect, job, restart_redis, settings, whole};
use crate::fixture::{
    damage::{Damage, inflict_all},
    data, gate,
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

/// With this many comments, a scan of the table takes several answers.
const COMMENTS: u64 = 150;
const PRODUCTS: u64 = 12;

fn product(number: u64) -> ProductId {
    data::product(&format!("product/{}", number % PRODUCTS))
}

async fn create(stores: &Stores, count: u64) -> Vec<Comment> {
    let comments = stores.create_all(0..count, product).await;
    job(stores, true).recent().await;
    comments
}

/// Runs an audit, and stops it while it waits for the table's second answer.
async fn stop_in_the_middle(stores: &Stores, options: AuditOptions) -> Report {
    let run = HeldRun::start(
        stores,
        (gate::TABLE_SCANS, 1),
        settings(true),
        |job| async move { job.audit(options).await },
    );
    run.await.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_audit_says_since_when_it_resumes_and_any_other_starts_anew() {
    let stores = Stores::start_ready().await;
    create(&stores, COMMENTS).await;
    let report = expect(exit::SKIPPED, stop_in_the_middle(&stores, whole()).await);
    let read = report.items;
    let resumes = report.stopped.unwrap().resumes;
    let since = resumes.split(' ').nth(1).unwrap();
    let resumed = AuditOptions {
        since: Some(Timestamp::parse(since).unwrap()),
        ..whole()
    };
    let report = job(&stores, true).audit(resumed).await;
    let all = u64::try_from(stores.assert_invariants().await.count()).unwrap();
    assert!(
        report.items < all && report.items + read >= all,
        "{read} before: {report}"
    );
    let report = job(&stores, true).audit(resumed).await;
    assert_eq!(
        (report.items, report.members),
        (0, 0),
        "everything was checked: {report}"
    );
    let report = job(&stores, true).audit(whole()).await;
    assert!(report.items >= all && report.members > 0, "{report}");
    stores.index.clear().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_stopped_while_redis_was_away_does_not_resume_there() {
    let (redis, mut stores) = Stores::start_ready_on_own_redis().await;
    let comments = create(&stores, COMMENTS).await;
    let damaged = comments.iter().step_by(3);
    let damages = damaged.map(|comment| (comment, Damage::DropRanks));
    inflict_all(&stores, damages).await;
    redis.ask::<()>("SAVE").await;
    end_redis(&redis, &mut stores).await;
    let options = AuditOptions {
        no_index_scan: true,
        since: Some(now()),
        ..whole()
    };
    expect(exit::SKIPPED, stop_in_the_middle(&stores, options).await);
    restart_redis(&redis, &mut stores).await;
    expect(exit::DRIFT_FOUND, job(&stores, true).audit(options).await);
    stores.assert_invariants().await;
}
