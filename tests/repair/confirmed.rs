//! Readers believe a correct page index while repair is hours behind, and repair notices an index
//! that has lost writes. Servers, snapshots and replicas are real. Watermarks that were set back
//! stand for the hours.

use std::time::Duration;

use model::Timestamp;
use page_index::{ConfirmationTime, Freshness, Mark};
use process::now;
use repair_job::{JobSettings, Report, Stop, exit};

use super::{
    HeldRun, assert_writes_lost, expect, is_ready, job, job_with, product, recent, settings,
    start_with,
};
use crate::fixture::{data, gate, redis_server::OwnRedis, stores::Stores, wait_for};

const _: crate::Engines = crate::Engines::Both;

const HOUR_MS: i64 = 3_600_000;

/// Number of comments: more than the 50 that a run samples.
const COMMENTS: u64 = 60;

/// After this many queries of the journal, a run is in the middle of a backlog of twelve hours. The
/// search for lost writes and for a sample takes between 8 and 120 queries, depending on the time
/// of day. The backlog takes at least 104.
const JOURNAL_QUERIES_OF_A_SAMPLE_AND_SOME: usize = 60;
const JOURNAL_QUERIES_OF_A_CHECK_AND_SOME: usize = 130;

/// Stores with a page index that is ready, and comments that both functions have processed.
async fn start() -> Stores {
    start_with(0..COMMENTS, product).await.0
}

async fn start_on_own_redis() -> (OwnRedis, Stores) {
    let (redis, stores) = Stores::start_ready_on_own_redis().await;
    stores.create_all(0..COMMENTS, product).await;
    stores.deliver_all().await;
    (redis, stores)
}

async fn marks(stores: &Stores) -> Vec<Mark> {
    let marks = stores.index.marks(&stores.table_id().await).await.unwrap();
    assert!(!marks.is_empty());
    marks.into_iter().map(|(_, mark)| mark).collect()
}

/// Sets the watermarks back, as if repair had made no progress for twelve hours.
async fn set_watermarks_back(stores: &Stores) {
    let index = &stores.index;
    let table_id = stores.table_id().await;
    let mut from = Vec::new();
    for (partition, mark) in index.marks(&table_id).await.unwrap() {
        from.push((partition, mark.watermark));
    }
    let servers = index.server_identity().await.unwrap();
    let prepared = index.prepare_advance(&table_id, &from, &servers).await;
    let twelve_hours_ago = now().plus_ms(-12 * HOUR_MS);
    let advanced = index.advance(prepared.unwrap(), twelve_hours_ago).await;
    assert_eq!(advanced.unwrap().len(), from.len());
}

/// Like [`set_watermarks_back`]. Also sets the last confirmation back by two hours, and returns its
/// new time. The tokens stay.
async fn set_marks_back(stores: &Stores) -> Timestamp {
    set_watermarks_back(stores).await;
    let confirmed = now().plus_ms(-2 * HOUR_MS);
    let time = ConfirmationTime::At(confirmed);
    let index = &stores.index;
    let table_id = stores.table_id().await;
    for (partition, mark) in index.marks(&table_id).await.unwrap() {
        let read = [(partition, mark.token.clone())];
        let confirmed = index.leave_token(&table_id, &read, &mark.token, time).await;
        assert_eq!(confirmed.unwrap().len(), 1);
    }
    confirmed
}

/// How old the confirmation of all partitions is.
async fn freshness(stores: &Stores) -> Freshness {
    let table_id = stores.table_id().await;
    let readiness = stores.index.readiness(&table_id, now()).await.unwrap();
    let (_, first) = &readiness[0];
    for (_, answer) in &readiness {
        assert_eq!(answer, first, "{readiness:?}");
    }
    first.clone().unwrap()
}

fn samples(indexer_lag: Duration) -> JobSettings {
    JobSettings {
        indexer_lag,
        ..settings(true)
    }
}

async fn hold_in_backlog(
    stores: &Stores,
    settings: JobSettings,
    queries: usize,
) -> HeldRun<Report> {
    let run = HeldRun::start(stores, (gate::JOURNAL, queries), settings, recent).await;
    let marks = marks(stores).await;
    let still_behind = now().plus_ms(-11 * HOUR_MS);
    assert!(
        marks.iter().all(|mark| mark.watermark < still_behind),
        "there is no backlog any more"
    );
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn a_page_index_that_is_kept_up_is_believed_while_repair_is_twelve_hours_behind() {
    let stores = start().await;
    set_marks_back(&stores).await;
    // A rank too many that a reader reported. It would be the first of the sample, but says nothing
    // about the indexer.
    let ghost = data::comment_id("a-ghost");
    let placement = data::placement(&product(0), "en", 4);
    let extra_rank = data::index_comment(&ghost, &placement, data::at_ms(5));
    stores.index.apply(&extra_rank).await.unwrap();
    let looked_for = data::entry(&placement, data::at_ms(5));
    stores.table.report(&ghost, &looked_for).await.unwrap();
    assert!(is_ready(&stores, now()).await, "the watermark decides");
    assert_eq!(freshness(&stores).await, Freshness::Overdue);
    let before = now();
    let run = hold_in_backlog(
        &stores,
        samples(Duration::ZERO),
        JOURNAL_QUERIES_OF_A_SAMPLE_AND_SOME,
    )
    .await;
    let marks = marks(&stores).await;
    assert!(
        marks.iter().all(|mark| mark.confirmed >= Some(before)),
        "{before} {marks:?}"
    );
    assert!(is_ready(&stores, now().plus_ms(2 * HOUR_MS)).await);
    let report = expect(exit::DRIFT_FOUND, run.finish().await);
    assert_eq!((report.drifted_comments, report.left), (1, 0), "{report}");
    stores.assert_index().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn an_index_whose_indexer_has_stopped_is_not_confirmed() {
    let stores = start().await;
    // The indexer receives none of these comments.
    stores.create_all(COMMENTS..3 * COMMENTS, product).await;
    let last = set_marks_back(&stores).await;
    let run = hold_in_backlog(
        &stores,
        samples(Duration::ZERO),
        JOURNAL_QUERIES_OF_A_SAMPLE_AND_SOME,
    )
    .await;
    assert!(
        marks(&stores)
            .await
            .iter()
            .all(|mark| mark.confirmed == Some(last))
    );
    let report = expect(exit::DRIFT_FOUND | exit::SKIPPED, run.stop().await);
    assert!(
        report
            .skipped
            .iter()
            .any(|what| what.contains("the page indexer is behind")),
        "{report}"
    );
    assert!(!is_ready(&stores, now().plus_ms(2 * HOUR_MS)).await);
    // The next run of `recent` does the indexer's work.
    expect(
        exit::DRIFT_FOUND,
        job_with(&stores, samples(Duration::ZERO), Stop::default())
            .recent()
            .await,
    );
    assert!(is_ready(&stores, now().plus_ms(2 * HOUR_MS)).await);
    stores.assert_index().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_confirmed_while_no_addition_waits_for_room() {
    let (redis, stores) = start_on_own_redis().await;
    expect(0, job(&stores, true).recent().await);
    redis.ask::<()>("CONFIG SET maxmemory 1").await;
    let before = now();
    expect(0, job(&stores, true).recent().await);
    for mark in marks(&stores).await {
        assert!(mark.confirmed >= Some(before), "{before} {mark:?}");
        assert!(mark.watermark >= before, "{before} {mark:?}");
    }
    assert_eq!(freshness(&stores).await, Freshness::Fresh);
    // The indexer cannot add these, nor can the repair job.
    stores.create_all(COMMENTS..COMMENTS + 5, product).await;
    let last = now();
    let run = job_with(&stores, samples(Duration::ZERO), Stop::default());
    let report = run.recent().await;
    assert_eq!(
        report.exit_code() & exit::SKIPPED,
        exit::SKIPPED,
        "{report}"
    );
    for mark in marks(&stores).await {
        assert!(mark.confirmed < Some(last), "{last} {mark:?}");
    }
    redis.ask::<()>("CONFIG SET maxmemory 0").await;
    job(&stores, true).recent().await;
    stores.assert_index().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn a_comment_that_changes_again_does_not_count_against_the_indexer() {
    const LAG: Duration = Duration::from_secs(5);
    let stores = start().await;
    let lag_has_passed = now().plus_ms(i64::try_from(LAG.as_millis()).unwrap());
    wait_for("changes older than the lag", async || {
        if now() > lag_has_passed {
            Ok(())
        } else {
            Err(now())
        }
    })
    .await;
    // The indexer gets these changes later. Every third comment is in the sample.
    for number in 0..6 {
        let id = data::comment_id(&format!("c{number:04}"));
        let patch = data::rate(1 + (number + 1) % 5);
        stores
            .table
            .patch_comment(&id, |_| true, &patch)
            .await
            .unwrap();
    }
    let last = set_marks_back(&stores).await;
    let run = hold_in_backlog(&stores, samples(LAG), JOURNAL_QUERIES_OF_A_SAMPLE_AND_SOME).await;
    assert!(
        marks(&stores)
            .await
            .iter()
            .all(|mark| mark.confirmed > Some(last)),
        "a confirmation was refused"
    );
    let report = run.stop().await;
    assert!(
        !report
            .skipped
            .iter()
            .any(|what| what.contains("the page indexer is behind")),
        "{report}"
    );
    stores.deliver_all().await;
    stores.assert_index().await;
}

/// The model of the protocol found this (`repair-job/src/state/protocol_model`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_replaced_while_a_confirmation_is_under_way_is_not_confirmed() {
    let (redis, stores) = start_on_own_redis().await;
    expect(0, job(&stores, true).recent().await);
    redis.ask::<()>("SAVE").await;
    stores.create_all(COMMENTS..2 * COMMENTS, product).await;
    stores.deliver_all().await;
    // The run has asked for the servers and sampled. It reads the last confirmation, and is held
    // when it stores the next one.
    let run = HeldRun::start(&stores, (gate::CONFIRMATIONS, 1), settings(true), recent).await;
    redis.restore(&stores.index).await;
    assert_writes_lost(&stores).await;
    let restored = marks(&stores).await;
    expect(exit::SKIPPED, run.finish().await);
    for (mark, before) in marks(&stores).await.iter().zip(&restored) {
        assert_eq!(mark.confirmed, before.confirmed, "{mark:?}");
    }
    expect(exit::DRIFT_FOUND, job(&stores, true).recent().await);
    stores.assert_index().await;
    assert!(is_ready(&stores, now()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_says_that_it_has_confirmed_nothing_because_a_rebuild_began() {
    let stores = start().await;
    // The run has confirmed at its beginning. It is held when it stores the confirmation of its end.
    let run = HeldRun::start(&stores, (gate::CONFIRMATIONS, 3), settings(true), recent).await;
    stores.index.begin_rebuild().await.unwrap();
    let report = expect(exit::SKIPPED, run.finish().await);
    let [skipped] = report.skipped.as_slice() else {
        panic!("{report}")
    };
    assert!(
        skipped.starts_with("confirming the page index: the markers of"),
        "{report}"
    );
    stores.rebuild().await;
    stores.assert_index().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn changes_lost_in_a_failover_are_repaired_before_the_backlog() {
    let (redis, mut stores) = start_on_own_redis().await;
    expect(0, job(&stores, true).recent().await);
    set_watermarks_back(&stores).await;
    let replica = OwnRedis::start().await;
    replica.follow(&redis).await;
    // The replica has everything up to here.
    replica.ask::<()>("REPLICAOF NO ONE").await;
    stores.create_all(COMMENTS..2 * COMMENTS, product).await;
    stores.deliver_all().await;
    redis.server.kill().await;
    stores.move_to_redis(replica.server.url());
    assert_writes_lost(&stores).await;
    let run = hold_in_backlog(&stores, settings(true), JOURNAL_QUERIES_OF_A_CHECK_AND_SOME).await;
    stores.assert_index().await;
    assert!(is_ready(&stores, now()).await);
    let report = expect(exit::DRIFT_FOUND, run.finish().await);
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("other servers")),
        "{report}"
    );
    stores.assert_index().await;
}
