//! Stopped audits resume or start anew, so that an audit of everything checks everything.

use model::Comment;
use repair_job::{AuditOptions, Report, exit};
use serde_json::Value;

use super::{HeldRun, end_redis, expect, job, restart_redis, settings, whole};
use crate::fixture::{
    damage::{Damage, inflict_all},
    data, gate,
    stores::Stores,
};

/// With this many comments, a scan of the table takes several answers.
const COMMENTS: u64 = 150;
const PRODUCTS: u64 = 12;

async fn create(stores: &Stores, count: u64) -> Vec<Comment> {
    let product = |number| data::product(&format!("product/{}", number % PRODUCTS));
    let comments = stores.create_all(0..count, product).await;
    job(stores, true).recent().await;
    comments
}

/// Runs an audit, and stops it while it waits for the table's second answer.
async fn stop_in_the_middle(stores: &Stores, options: AuditOptions) -> Report {
    let run =
        HeldRun::start(stores, (gate::TABLE_SCANS, 1), settings(true), |job| async move { job.audit(options).await });
    run.await.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_full_audit_resumes_and_reports_when_it_began() {
    let stores = Stores::start_ready().await;
    create(&stores, COMMENTS).await;
    let report = expect(exit::SKIPPED, stop_in_the_middle(&stores, whole()).await);
    let read = report.items;
    let pass: Value = stores.table.state("audit", "1/pass").await.unwrap().unwrap();
    let report = job(&stores, true).audit(whole()).await;
    let began = pass["began"].as_str().unwrap();
    assert!(report.notes[0].contains(&format!("the pass that began at {began}")), "{report}");
    let all = u64::try_from(stores.assert_invariants().await.count()).unwrap();
    assert!(report.items < all && report.items + read >= all, "{read} before: {report}");
    // That audit completed the pass.
    let report = job(&stores, true).audit(whole()).await;
    assert_eq!(report.notes, Vec::<String>::new());
    assert!(report.items >= all, "{report}");
    stores.index.clear().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_stopped_while_redis_was_away_does_not_resume_there() {
    let (redis, mut stores) = Stores::start_ready_on_own_redis().await;
    let comments = create(&stores, COMMENTS).await;
    let damages = comments.iter().step_by(3).map(|comment| (comment, Damage::DropRanks));
    inflict_all(&stores, damages).await;
    redis.ask::<()>("SAVE").await;
    end_redis(&redis, &mut stores).await;
    expect(exit::SKIPPED, stop_in_the_middle(&stores, AuditOptions { no_index_scan: true, ..whole() }).await);
    restart_redis(&redis, &mut stores).await;
    expect(exit::DRIFT_FOUND, job(&stores, true).audit(AuditOptions { no_index_scan: true, ..whole() }).await);
    stores.assert_invariants().await;
}
