//! A page index that was lost: the function's scheduled runs rebuild it, without a command by a person.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use model::{CommentId, ProductId};
use page_index::NotReady;
use process::now;
use repair_job::{Asked, AuditOptions, Invoked, Job, Report, Stop, exit};

use super::{HeldRun, end_redis, is_ready, job, job_with, recent, settings};
use crate::fixture::{data, gate, redis_server::OwnRedis, stores::Stores};

/// Number of comments. They have about as many products as `primaries` has shards.
const COMMENTS: u64 = 120;

/// More queries than this are held back in a run that must stop in the middle of `primaries`. The first query only
/// checks that the table has the index.
const QUERIES_OF_HALF: usize = 30;

fn product(number: u64) -> ProductId {
    data::product(&format!("product {}", number % 60))
}

const SCHEDULED: Asked = Asked::Recent;

async fn invoke(job: Job, stores: &Stores, asked: Asked) -> Invoked {
    Box::pin(repair_job::invoked(&job, &stores.quarantine(), AuditOptions::default(), asked)).await
}

fn rebuild(invoked: &Invoked) -> Option<&Report> {
    invoked.reports.iter().find(|report| report.command == "rebuild")
}

async fn start() -> Stores {
    let stores = Stores::start_ready().await;
    fill(&stores).await;
    stores
}

/// Puts comments into table and page index. The journal does not name them, so only a rebuild can bring them back.
async fn fill(stores: &Stores) {
    let comment = |number| data::new_comment(&format!("c{number:04}"), &product(number), "en", 1 + number % 5);
    stores.put_primary_items((0..COMMENTS).map(comment).collect()).await;
    stores.deliver_all().await;
    super::expect(0, job(stores, true).recent().await);
}

/// Creates, changes and deletes comments. The functions see that later, or never.
async fn write(stores: &Stores, numbers: Range<u64>) {
    stores.create_all(numbers.start + COMMENTS..numbers.end + COMMENTS, product).await;
    for number in numbers {
        let id: CommentId = data::comment_id(&format!("c{number:04}"));
        match number % 2 {
            0 => stores.table.delete_comment(&id, None).await.unwrap(),
            _ => drop(stores.table.patch_comment(&id, None, &data::rate(1 + number % 5)).await.unwrap()),
        }
    }
}

/// Stops a scheduled run in the middle of the rebuild, and lets the next one end it. Comments change all the time.
async fn assert_rebuilt_by_two_runs(stores: &Stores) {
    write(stores, 0..10).await;
    let quarantine = stores.quarantine();
    let run = async move |job: Job| {
        Box::pin(repair_job::invoked(&job, &quarantine, AuditOptions::default(), SCHEDULED)).await
    };
    let run = HeldRun::start(stores, (gate::PRIMARIES, QUERIES_OF_HALF), settings(true), run).await;
    write(stores, 10..20).await;
    let first = run.stop().await;
    let report = rebuild(&first).expect("a rebuild");
    assert_eq!(report.exit_code() & exit::SKIPPED, exit::SKIPPED, "{report}");
    assert!(!is_ready(stores, now()).await, "{report}");
    write(stores, 20..30).await;
    let second = invoke(job(stores, true), stores, SCHEDULED).await;
    let resumed = rebuild(&second).expect("a rebuild");
    assert_eq!(resumed.exit_code(), 0, "{resumed}");
    assert!(resumed.notes.iter().any(|note| note.starts_with("it resumes")), "{resumed}");
    // What the first run has read is not read again.
    let (before, after) = (report.items, resumed.items);
    assert!(before > 0 && before + after <= COMMENTS + 30, "{before} + {after}\n{report}\n{resumed}");
    assert!(is_ready(stores, now()).await, "{resumed}");
    assert_eq!(second.status.as_ref().unwrap().index.as_ref().unwrap().unmarked, 0);
    // The index is right although the function `page-indexer` has seen none of these changes. It stays right afterwards.
    stores.assert_index().await;
    stores.deliver_all().await;
    stores.assert_index().await;
    let third = invoke(job(stores, true), stores, SCHEDULED).await;
    assert!(rebuild(&third).is_none(), "{third:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scheduled_runs_rebuild_a_redis_of_an_earlier_layout_that_is_flushed_meanwhile() {
    let (redis, stores) = Stores::start_ready_on_own_redis().await;
    fill(&stores).await;
    // That layout had other markers, and sets of any rating.
    for key in stores.key_names().await {
        let earlier = key.replace(":marker:2", ":marker").replace("/1", "/~");
        redis.ask::<()>(&format!("RENAME {key} {earlier}")).await;
    }
    assert!(!is_ready(&stores, now()).await);
    // The first rebuild loses what it has put there. The next run does not resume it.
    let quarantine = stores.quarantine();
    let run = async move |job: Job| {
        Box::pin(repair_job::invoked(&job, &quarantine, AuditOptions::default(), SCHEDULED)).await
    };
    let run = HeldRun::start(&stores, (gate::PRIMARIES, QUERIES_OF_HALF), settings(true), run).await;
    assert!(!stores.key_names().await.iter().any(|key| key.ends_with("/~") || key.ends_with(":marker")));
    redis.ask::<()>("FLUSHALL").await;
    run.stop().await;
    assert!(!is_ready(&stores, now()).await);
    assert_rebuilt_by_two_runs(&stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_keep_the_partitions_that_were_not_lost_while_others_are_rebuilt() {
    let stores = start().await;
    let table_id = stores.table_id().await;
    let lost: BTreeSet<_> = stores.index.partitions().take(2).collect();
    // As a killed rebuild leaves them: empty, and without a marker.
    stores.index.begin_rebuild_of(lost.clone()).await.unwrap();
    let run = async move |job: Job| job.rebuild_missing(4).await.expect("a rebuild");
    let run = HeldRun::start(&stores, (gate::PRIMARIES, QUERIES_OF_HALF), settings(true), run).await;
    let readiness = stores.index.readiness(&table_id, now()).await.unwrap();
    for (partition, answer) in readiness {
        let expected = if lost.contains(&partition) { Some(NotReady::NoMarker) } else { None };
        assert_eq!(answer.err(), expected, "{partition:?}");
    }
    let report = super::expect(0, run.finish().await);
    let filled = report.notes.iter().find_map(|note| note.split_once(" comments, of which")?.0.parse::<u64>().ok());
    assert!(filled < Some(COMMENTS / 2), "only lost partitions are filled: {report}");
    assert!(is_ready(&stores, now()).await);
    stores.assert_index().await;
    // The other partitions have another token by now. The next run checks them, and readers believe them meanwhile.
    let run = HeldRun::start(&stores, (gate::JOURNAL, 0), settings(true), recent).await;
    assert!(is_ready(&stores, now()).await);
    super::expect(0, run.finish().await);
    assert!(is_ready(&stores, now()).await);
    stores.index.clear().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_rebuilt_that_another_run_fills_or_another_table_owns() {
    let stores = start().await;
    let untouched = async |invoked: &Invoked, why: &str| {
        assert!(rebuild(invoked).is_none_or(|report| report.held_by.is_some()), "{why}: {invoked:?}");
    };
    // A rebuild under way.
    let run = async move |job: Job| job.rebuild(4).await;
    let run = HeldRun::start(&stores, (gate::PRIMARIES, QUERIES_OF_HALF), settings(true), run).await;
    untouched(&invoke(job(&stores, true), &stores, SCHEDULED).await, "a rebuild is under way").await;
    super::expect(0, run.finish().await);
    assert!(is_ready(&stores, now()).await);
    // The time is up.
    stores.index.clear().await.unwrap();
    let late = job_with(&stores, settings(true), Stop::after(Some(Duration::ZERO)));
    invoke(late, &stores, SCHEDULED).await;
    assert!(!is_ready(&stores, now()).await);
    // The index of another table.
    let other = stores.index.begin_rebuild().await.unwrap();
    stores.index.finish_rebuild(&other, "another-table", now()).await.unwrap();
    untouched(&invoke(job(&stores, true), &stores, SCHEDULED).await, "another table").await;
    let readiness = stores.index.readiness("another-table", now()).await.unwrap();
    assert!(readiness.iter().all(|(_, answer)| answer.is_ok()), "{readiness:?}");
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn a_redis_that_does_not_answer_is_not_rebuilt() {
    let (redis, mut stores): (OwnRedis, Stores) = Stores::start_ready_on_own_redis().await;
    end_redis(&redis, &mut stores).await;
    let invoked = invoke(job(&stores, true), &stores, SCHEDULED).await;
    assert!(rebuild(&invoked).is_none() && !invoked.is_index_reachable, "{invoked:?}");
}
