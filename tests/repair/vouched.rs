//! Readers believe a correct page index while repair is hours behind, and repair notices an index that has lost writes.
//! Redis servers, snapshots and replicas are real. Watermarks that were set back stand for the hours.

use std::time::Duration;

use model::Timestamp;
use page_index::{Mark, NotReady, PageIndex, PageIndexConfig};
use process::now;
use repair_job::{Job, JobSettings, Report, Stop, exit};
use tokio::task::JoinHandle;

use super::{assert_clean, job, product, settings, stopped::patient_job_through};
use crate::fixture::{
    data,
    gate::{self, Gate},
    invariants::{Contents, differences_of_page_index},
    redis_server::{self, OwnRedis},
    stores::Stores,
    wait_for,
};

const HOUR_MS: i64 = 3_600_000;

/// Number of comments: more than a run samples.
const COMMENTS: u64 = 120;

/// After this many queries of the journal, a run is in the middle of a backlog of twelve hours. The search for lost
/// writes and for a sample takes between 8 and 120 queries, depending on the time of day. The backlog takes at least
/// 104.
const JOURNAL_QUERIES_OF_A_SAMPLE_AND_SOME: usize = 60;
const JOURNAL_QUERIES_OF_A_CHECK_AND_SOME: usize = 130;

/// Likewise for a run that vouches before each hour of its backlog. By then it has vouched at least three times.
const JOURNAL_QUERIES_OF_SOME_VOUCHES: usize = 120;

/// Stores with a separate Redis, a page index that is ready, and comments that both functions have processed.
async fn stores_on(redis: &OwnRedis) -> Stores {
    let stores = Stores::start_on(redis.server.url()).await;
    stores.rebuild().await;
    create(&stores, 0..COMMENTS).await;
    stores.deliver_all().await;
    stores
}

async fn create(stores: &Stores, numbers: std::ops::Range<u64>) {
    stores.create_all(numbers, product).await;
}

async fn table_id(stores: &Stores) -> String {
    stores.table.describe().await.unwrap().id
}

async fn marks(stores: &Stores) -> Vec<Mark> {
    let marks = stores.index.marks(&table_id(stores).await).await.unwrap();
    assert!(!marks.is_empty());
    marks.into_iter().map(|(_, mark)| mark).collect()
}

/// Sets a field of all markers of a server.
async fn set_markers(stores: &Stores, redis_url: &str, field: &str, at: Timestamp) {
    let mut raw = redis_server::connection(redis_url).await;
    for key in stores.index.key_names().await.unwrap().iter().filter(|key| key.ends_with("}:marker")) {
        redis::cmd("HSET").arg(&[key, field, &at.epoch_ms().to_string()]).exec_async(&mut raw).await.unwrap();
    }
}

/// Sets the watermarks back, as if repair had made no progress for twelve hours.
async fn set_watermarks_back(stores: &Stores, redis_url: &str) {
    set_markers(stores, redis_url, "watermark", now().plus_ms(-12 * HOUR_MS)).await;
}

/// Whether readers believe the page index at an instant. Asserts that this is the same for all partitions.
async fn is_believed(stores: &Stores, at: Timestamp) -> bool {
    let readiness = stores.index.readiness(&table_id(stores).await, at).await.unwrap();
    let ready = readiness.iter().filter(|(_, answer)| answer.is_ok()).count();
    assert!([0, readiness.len()].contains(&ready), "{readiness:?}");
    ready > 0
}

async fn differences(stores: &Stores) -> Vec<String> {
    differences_of_page_index(&Contents::read(&stores.table).await, &stores.index).await
}

/// Settings of a job that outlasts a held request.
fn patient() -> JobSettings {
    JobSettings { lease: Duration::from_secs(60), ..settings(true) }
}

/// Starts a run of `recent` and holds it in the middle of its backlog.
async fn hold_in_backlog(
    stores: &Stores,
    settings: JobSettings,
    queries: usize,
    stop: Stop,
) -> (Gate, JoinHandle<Report>) {
    let gate = Gate::start(&stores.engine_url(), gate::JOURNAL).await;
    gate.hold_after(queries);
    let recent = patient_job_through(stores, &gate, settings, stop).await;
    let run = tokio::spawn(async move { recent.recent().await });
    gate.wait_until_holding("the backlog").await;
    assert!(marks(stores).await.iter().all(|mark| mark.watermark < now().plus_ms(-11 * HOUR_MS)), "no backlog is left");
    (gate, run)
}

/// Starts a replica of a server. [`promote`] makes the replica independent.
async fn replica_of(redis: &OwnRedis) -> OwnRedis {
    let replica = OwnRedis::start().await;
    let url = redis.server.url();
    let (host, port) = url.trim_start_matches("redis://").trim_end_matches('/').rsplit_once(':').unwrap();
    let mut raw = replica.connection().await;
    redis::cmd("REPLICAOF").arg(&[host, port]).exec_async(&mut raw).await.unwrap();
    replica
}

/// Waits until a replica has everything.
async fn wait_until_in_sync(redis: &OwnRedis, replica: &OwnRedis) {
    wait_for("the replica", async || {
        let info = async |server: &OwnRedis| -> String {
            redis::cmd("INFO").arg("replication").query_async(&mut server.connection().await).await.unwrap()
        };
        let (of_master, of_replica) = (info(redis).await, info(replica).await);
        let offset =
            |info: &str, field: &str| info.lines().find_map(|line| line.strip_prefix(field).map(str::to_owned));
        let has = offset(&of_replica, "slave_repl_offset:");
        let is_up = of_replica.contains("master_link_status:up");
        if is_up && has == offset(&of_master, "master_repl_offset:") { Ok(()) } else { Err((of_master, of_replica)) }
    })
    .await;
}

/// Makes the replica take over.
async fn promote(replica: &OwnRedis, stores: &mut Stores) {
    let mut raw = replica.connection().await;
    redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).exec_async(&mut raw).await.unwrap();
    let config = PageIndexConfig { url: replica.server.url(), ..stores.index_config.clone() };
    stores.index = PageIndex::connect(&config).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_page_index_is_believed_while_repair_is_twelve_hours_behind() {
    let redis = OwnRedis::start().await;
    let stores = stores_on(&redis).await;
    set_watermarks_back(&stores, &stores.redis_url).await;
    set_markers(&stores, &stores.redis_url, "vouched", now().plus_ms(-2 * HOUR_MS)).await;
    assert!(is_believed(&stores, now()).await, "the watermark decides");
    // All comments may be sampled.
    let samples = JobSettings { indexer_lag: Duration::ZERO, ..patient() };
    let before = now();
    let (gate, run) = hold_in_backlog(&stores, samples, JOURNAL_QUERIES_OF_A_SAMPLE_AND_SOME, Stop::default()).await;
    let marks = marks(&stores).await;
    assert!(marks.iter().all(|mark| mark.vouched >= Some(before)), "{before} {marks:?}");
    assert!(is_believed(&stores, now().plus_ms(2 * HOUR_MS)).await);
    gate.open();
    assert_clean(&run.await.unwrap());
    stores.assert_index().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_whose_indexer_has_stopped_is_not_vouched_for() {
    let redis = OwnRedis::start().await;
    let stores = stores_on(&redis).await;
    // The indexer receives none of these comments.
    create(&stores, COMMENTS..3 * COMMENTS).await;
    set_watermarks_back(&stores, &stores.redis_url).await;
    let last = now().plus_ms(-2 * HOUR_MS);
    set_markers(&stores, &stores.redis_url, "vouched", last).await;
    let samples = JobSettings { indexer_lag: Duration::ZERO, ..patient() };
    let stop = Stop::default();
    let (gate, run) =
        hold_in_backlog(&stores, samples.clone(), JOURNAL_QUERIES_OF_A_SAMPLE_AND_SOME, stop.clone()).await;
    assert!(marks(&stores).await.iter().all(|mark| mark.vouched == Some(last)));
    stop.ask();
    gate.open();
    let report = run.await.unwrap();
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::SKIPPED, "{report}");
    assert!(report.skipped.iter().any(|what| what.contains("the page indexer is behind")), "{report}");
    assert!(!is_believed(&stores, now().plus_ms(2 * HOUR_MS)).await);
    // The next run of `recent` does the indexer's work.
    let report = super::job_with(&stores, samples, Stop::default()).recent().await;
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND, "{report}");
    assert!(is_believed(&stores, now().plus_ms(2 * HOUR_MS)).await);
    assert_eq!(differences(&stores).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comment_that_changes_again_does_not_count_against_the_indexer() {
    const LAG: Duration = Duration::from_secs(5);
    let redis = OwnRedis::start().await;
    let stores = stores_on(&redis).await;
    let settled = now().plus_ms(i64::try_from(LAG.as_millis()).unwrap());
    wait_for("changes older than the lag", async || if now() > settled { Ok(()) } else { Err(now()) }).await;
    // The indexer gets these changes later. Every third comment is in the sample.
    for number in 0..6 {
        let id = data::comment_id(&format!("c{number:04}"));
        let patch = data::rate(1 + (number + 1) % 5);
        stores.table.patch_comment(&id, None, &patch).await.unwrap();
    }
    set_watermarks_back(&stores, &stores.redis_url).await;
    let last = now().plus_ms(-2 * HOUR_MS);
    set_markers(&stores, &stores.redis_url, "vouched", last).await;
    let samples = JobSettings { indexer_lag: LAG, ..patient() };
    let stop = Stop::default();
    let (gate, run) = hold_in_backlog(&stores, samples, JOURNAL_QUERIES_OF_A_SAMPLE_AND_SOME, stop.clone()).await;
    assert!(marks(&stores).await.iter().all(|mark| mark.vouched > Some(last)), "a vouch was refused");
    stop.ask();
    gate.open();
    let report = run.await.unwrap();
    assert!(!report.skipped.iter().any(|what| what.contains("the page indexer is behind")), "{report}");
    stores.deliver_all().await;
    assert_eq!(differences(&stores).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_snapshot_is_noticed_and_not_believed_until_it_is_reconciled() {
    let redis = OwnRedis::start().await;
    let stores = stores_on(&redis).await;
    assert_eq!(job(&stores, true).recent().await.exit_code(), 0);
    set_watermarks_back(&stores, &stores.redis_url).await;
    redis::cmd("SAVE").exec_async(&mut redis.connection().await).await.unwrap();
    // The snapshot lacks these comments and all later vouches.
    create(&stores, COMMENTS..2 * COMMENTS).await;
    stores.deliver_all().await;
    assert_eq!(job(&stores, true).recent().await.exit_code(), 0);
    redis.kill().await;
    redis.server.restart().await.unwrap();
    wait_for("the restored server", async || stores.index.ping().await.map_err(|error| error.to_string())).await;
    assert!(!differences(&stores).await.is_empty(), "the snapshot lacks nothing, so this tests nothing");
    assert!(is_believed(&stores, now()).await, "it is young, so nobody can know yet");

    // The next run notices the loss before it reconciles anything. So does a run that is stopped before it has
    // reconciled.
    let table_id = table_id(&stores).await;
    for is_last in [false, true] {
        let gate = Gate::start(&stores.engine_url(), gate::JOURNAL).await;
        gate.hold_after(0);
        let stop = Stop::default();
        let recent = patient_job_through(&stores, &gate, patient(), stop.clone()).await;
        let run = tokio::spawn(async move { recent.recent().await });
        gate.wait_until_holding("the run's reads").await;
        let readiness = stores.index.readiness(&table_id, now()).await.unwrap();
        let not_vouched = Err(NotReady::Stale { vouched: None });
        assert!(readiness.iter().all(|(_, answer)| *answer == not_vouched), "{readiness:?}");
        if !is_last {
            stop.ask();
        }
        gate.open();
        let report = run.await.unwrap();
        let expected = if is_last { exit::DRIFT_FOUND } else { exit::SKIPPED };
        assert_eq!(report.exit_code() & expected, expected, "{report}");
        assert_eq!(is_believed(&stores, now()).await, is_last, "{report}");
    }
    assert_eq!(differences(&stores).await, Vec::<String>::new());
    assert_clean(&job(&stores, true).recent().await);
    assert!(is_believed(&stores, now()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_restored_under_a_run_is_noticed_and_left_to_the_next_run() {
    let redis = OwnRedis::start().await;
    let stores = stores_on(&redis).await;
    set_watermarks_back(&stores, &stores.redis_url).await;
    redis::cmd("SAVE").exec_async(&mut redis.connection().await).await.unwrap();
    create(&stores, COMMENTS..2 * COMMENTS).await;
    stores.deliver_all().await;
    let often = JobSettings { indexer_lag: Duration::ZERO, vouch_every: Duration::ZERO, ..patient() };
    let (gate, run) = hold_in_backlog(&stores, often, JOURNAL_QUERIES_OF_SOME_VOUCHES, Stop::default()).await;
    redis.kill().await;
    redis.server.restart().await.unwrap();
    wait_for("the restored server", async || stores.index.ping().await.map_err(|error| error.to_string())).await;
    assert!(is_believed(&stores, now()).await, "it is young, so nobody can know yet");
    gate.open();
    let report = run.await.unwrap();
    assert_eq!(report.exit_code() & exit::SKIPPED, exit::SKIPPED, "{report}");
    assert!(!is_believed(&stores, now()).await, "{report}");
    let report = job(&stores, true).recent().await;
    assert_eq!(report.exit_code() & !exit::DRIFT_FOUND, 0, "{report}");
    assert!(is_believed(&stores, now()).await);
    assert_eq!(differences(&stores).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_lost_in_a_failover_are_repaired_before_the_backlog() {
    let redis = OwnRedis::start().await;
    let mut stores = stores_on(&redis).await;
    assert_eq!(job(&stores, true).recent().await.exit_code(), 0);
    set_watermarks_back(&stores, &stores.redis_url).await;
    let replica = replica_of(&redis).await;
    wait_until_in_sync(&redis, &replica).await;
    // The last writes do not reach the replica.
    let mut raw = replica.connection().await;
    redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).exec_async(&mut raw).await.unwrap();
    create(&stores, COMMENTS..2 * COMMENTS).await;
    stores.deliver_all().await;
    redis.kill().await;
    promote(&replica, &mut stores).await;
    assert!(!differences(&stores).await.is_empty(), "nothing is lost, so this tests nothing");
    let (gate, run) = hold_in_backlog(&stores, patient(), JOURNAL_QUERIES_OF_A_CHECK_AND_SOME, Stop::default()).await;
    assert_eq!(differences(&stores).await, Vec::<String>::new());
    assert!(is_believed(&stores, now()).await);
    gate.open();
    let report = run.await.unwrap();
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND, "{report}");
    assert!(report.notes.iter().any(|note| note.contains("other servers")), "{report}");
    assert_eq!(differences(&stores).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_costs_readers_nothing() {
    let redis = OwnRedis::start().await;
    let mut stores = stores_on(&redis).await;
    assert_eq!(job(&stores, true).recent().await.exit_code(), 0);
    set_watermarks_back(&stores, &stores.redis_url).await;
    let replica = replica_of(&redis).await;
    wait_until_in_sync(&redis, &replica).await;
    promote(&replica, &mut stores).await;
    redis.kill().await;
    assert!(is_believed(&stores, now()).await);
    // Readers believe the index while the next run searches for lost writes, and afterwards.
    let gate = Gate::start(&stores.engine_url(), gate::JOURNAL).await;
    gate.hold_after(0);
    let before = now();
    let recent = patient_job_through(&stores, &gate, patient(), Stop::default()).await;
    let run = tokio::spawn(async move { recent.recent().await });
    gate.wait_until_holding("the run's reads").await;
    assert!(is_believed(&stores, now()).await);
    gate.open();
    assert_clean(&run.await.unwrap());
    assert!(marks(&stores).await.iter().all(|mark| mark.vouched >= Some(before)));
    // The last vouch recorded the new server, so the next run has nothing to search for.
    let report = job(&stores, true).recent().await;
    assert_eq!((report.exit_code(), report.notes.len()), (0, 0), "{report}");
}

#[tokio::test]
async fn a_vouch_that_a_killed_run_has_cut_short_costs_readers_nothing() {
    let redis = OwnRedis::start().await;
    let stores = stores_on(&redis).await;
    assert_clean(&job(&stores, true).recent().await);
    let before = now();
    // Kill the run between its write to the table and its write to the markers.
    let gate = Gate::start(&stores.redis_url, gate::SCRIPTS).await;
    let config =
        PageIndexConfig { url: gate.url.clone(), timeout: Duration::from_secs(60), ..stores.index_config.clone() };
    let index = PageIndex::connect(&config).unwrap();
    gate.hold_after(3);
    let cut = Job::new(stores.table.clone(), index, patient(), Stop::default());
    let run = tokio::spawn(async move { cut.recent().await });
    gate.wait_until_holding("the vouch").await;
    run.abort();
    let holder = stores.table.leases().await.unwrap();
    stores.table.release_lease("recent", &holder[0].1.holder).await.unwrap();
    assert!(is_believed(&stores, now()).await);
    let report = job(&stores, true).recent().await;
    assert_clean(&report);
    assert!(report.notes.iter().any(|note| note.contains("lacks the last vouch")), "{report}");
    assert!(marks(&stores).await.iter().all(|mark| mark.vouched >= Some(before)));
    stores.assert_index().await;
}
