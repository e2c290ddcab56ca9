//! Stopped audits resume or start anew, so that an audit of everything checks everything.

use std::time::Duration;

use model::Comment;
use page_index::{PageIndex, PageIndexConfig};
use rand::{SeedableRng, rngs::StdRng, seq::IndexedRandom};
use repair_job::{AuditOptions, JobSettings, Report, Stop, Which, exit};
use serde_json::Value;

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

/// Number of damaged comments: enough that some come before any position and some after it.
const DAMAGED: usize = 40;

async fn create(stores: &Stores, count: u64) -> Vec<Comment> {
    let comments = stores.create_all(0..count, product).await;
    job(stores, true).recent().await;
    comments
}

/// Runs an audit, and stops it while it waits for the table's second answer and for the second batch of
/// the page index.
async fn stop_in_the_middle(stores: &Stores, options: AuditOptions) -> Report {
    let scans = Gate::start(&stores.engine_url(), gate::TABLE_SCANS).await;
    let gets = Gate::start(&scans.url, gate::INDEX_SCANS).await;
    scans.hold_after(1);
    gets.hold_after(1);
    let stop = Stop::default();
    let lease = JobSettings { lease: Duration::from_secs(60), ..settings(true) };
    let stopped = patient_job_through(stores, &gets, lease, stop.clone()).await;
    let run = tokio::spawn(async move { stopped.audit(options).await });
    wait_for("the run's reads", async || {
        let are_held = (scans.is_holding(), gets.is_holding() || !options.index_scan || options.which == Which::All);
        if are_held == (true, true) { Ok(()) } else { Err(are_held) }
    })
    .await;
    stop.ask();
    scans.open();
    gets.open();
    run.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_audit_ignores_the_positions_of_a_rolling_run() {
    let stores = Stores::start_ready().await;
    let mut random = StdRng::seed_from_u64(91);
    let comments = create(&stores, COMMENTS).await;
    let rolling = AuditOptions { which: Which::Due, at_once: 1, ..whole() };
    let report = stop_in_the_middle(&stores, rolling).await;
    assert_eq!(report.exit_code(), exit::SKIPPED, "{report}");
    let segment: Value = stores.table.state("audit", "1/000000").await.unwrap().unwrap();
    let index: Value = stores.table.state("index_scan", "position").await.unwrap().unwrap();
    assert!(segment["position"].is_object() && index["position"].is_object(), "{segment} {index}");
    assert!(index["members"].as_u64() < Some(COMMENTS), "{index}");
    let kinds = [Damage::DropDuplicates, Damage::DropRanks, Damage::GhostRanks, Damage::AddRankElsewhere];
    for (place, comment) in comments.sample(&mut random, DAMAGED).enumerate() {
        inflict(&stores, &mut random_of(place), comment, kinds[place % kinds.len()]).await;
    }
    let report = job(&stores, true).audit(whole()).await;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND, "{report}");
    assert_eq!(report.notes, Vec::<String>::new());
    stores.assert_invariants().await;
    assert_clean(&job(&stores, false).audit(whole()).await);
    stores.index.clear().await.unwrap();
}

fn random_of(place: usize) -> StdRng {
    StdRng::seed_from_u64(u64::try_from(place).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_full_audit_resumes_and_reports_when_it_began() {
    let stores = Stores::start_ready().await;
    create(&stores, COMMENTS / 2).await;
    let report = stop_in_the_middle(&stores, whole()).await;
    assert_eq!(report.exit_code(), exit::SKIPPED, "{report}");
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
    let redis = OwnRedis::start().await;
    let mut stores = Stores::start_on(redis.server.url()).await;
    stores.rebuild().await;
    let comments = create(&stores, COMMENTS / 2).await;
    for (place, comment) in comments.iter().step_by(3).enumerate() {
        inflict(&stores, &mut random_of(place), comment, Damage::DropRanks).await;
    }
    let mut raw = redis.connection().await;
    redis::cmd("SAVE").exec_async(&mut raw).await.unwrap();
    redis.kill().await;
    let impatient = PageIndexConfig { timeout: Duration::from_millis(200), ..stores.index_config.clone() };
    stores.index = PageIndex::connect(&impatient).unwrap();
    let report = stop_in_the_middle(&stores, AuditOptions { index_scan: false, ..whole() }).await;
    assert_eq!(report.exit_code(), exit::SKIPPED, "{report}");
    redis.server.restart().await.unwrap();
    stores.index = PageIndex::connect(&stores.index_config).unwrap();
    let report = job(&stores, true).audit(AuditOptions { index_scan: false, ..whole() }).await;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND, "{report}");
    stores.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_progress_includes_earlier_runs_and_the_index_scan() {
    let stores = Stores::start_ready().await;
    create(&stores, COMMENTS).await;
    let held = async |gate: &Gate, after: usize| {
        gate.hold_after(after);
        let stop = Stop::default();
        let lease = JobSettings { lease: Duration::from_secs(60), ..settings(true) };
        let audit = patient_job_through(&stores, gate, lease, stop.clone()).await;
        let progress = audit.progress().clone();
        let run = tokio::spawn(async move { audit.audit(AuditOptions { at_once: 1, ..whole() }).await });
        gate.wait_until_holding("the run's reads").await;
        let share = progress.share();
        stop.ask();
        gate.open();
        run.await.unwrap();
        share
    };
    // First the share after part of the table scan. Then, resumed, the share within the index scan, which itself
    // resumes partly done.
    let of_table = held(&Gate::start(&stores.engine_url(), gate::TABLE_SCANS).await, 1).await;
    let of_scan = held(&Gate::start(&stores.engine_url(), gate::INDEX_SCANS).await, 1).await;
    let of_resumed_scan = held(&Gate::start(&stores.engine_url(), gate::INDEX_SCANS).await, 0).await;
    assert!(of_table > 0.0 && of_table < 0.5, "{of_table}");
    assert!(of_scan > 0.6 && of_scan < 0.99, "{of_scan}");
    assert!(of_resumed_scan > of_scan + 0.01 && of_resumed_scan < 1.0, "{of_scan}: {of_resumed_scan}");
    let last = job(&stores, true);
    let progress = last.progress().clone();
    assert_eq!(last.audit(whole()).await.exit_code(), 0);
    assert_eq!(progress.share(), 1.0);
    stores.index.clear().await.unwrap();
}
