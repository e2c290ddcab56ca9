//! A page index that was lost: the function's scheduled runs rebuild it, without a command by a
//! person.

use std::{collections::BTreeSet, time::Duration};

use model::ProductId;
use page_index::NotReady;
use process::now;
use repair_job::{FunctionCommand, Invoked, Job, Report, Stop};

use super::{HeldRun, end_redis, is_ready, job, job_with, recent, settings};
use crate::fixture::{
    data, gate,
    redis_server::{self, OwnRedis},
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

/// Number of comments. They have about as many products as `primaries` has shards.
const COMMENTS: u64 = 120;

/// More queries than this are held back in a run that must stop in the middle of `primaries`. The
/// first query only checks that the table has the index.
const QUERIES_OF_HALF: usize = 30;

fn product(number: u64) -> ProductId {
    data::product(&format!("product {}", number % 60))
}

/// Stores with comments in table and page index. The journal does not name them, so only a rebuild
/// can bring them back.
async fn start() -> Stores {
    let stores = Stores::start_ready().await;
    let mut comments = Vec::new();
    for number in 0..COMMENTS {
        let id = format!("c{number:04}");
        let comment = data::new_comment(&id, &product(number), "en", 1 + number % 5);
        comments.push(comment);
    }
    stores.put_primary_items(comments).await;
    stores.deliver_all().await;
    super::expect(0, job(&stores, true).recent().await);
    stores
}

const SCHEDULED: FunctionCommand = FunctionCommand::Recent;

async fn invoke(job: Job, stores: &Stores, asked: FunctionCommand) -> Invoked {
    Box::pin(repair_job::invoked(&job, &stores.quarantine(), asked)).await
}

fn rebuild(invoked: &Invoked) -> Option<&Report> {
    let mut reports = invoked.reports.iter();
    reports.find(|report| report.command == "rebuild")
}

/// Asserts that a scheduled run rebuilds nothing.
async fn assert_no_rebuild(stores: &Stores, why: &str) {
    let invoked = invoke(job(stores, true), stores, SCHEDULED).await;
    assert!(
        rebuild(&invoked).is_none_or(|report| report.held_by.is_some()),
        "{why}: {invoked:?}"
    );
}

/// How many comments a rebuild has put into the page index, as its report says.
fn comments_filled(report: &Report) -> Option<u64> {
    for note in &report.notes {
        if let Some((count, _)) = note.split_once(" comments, of which")
            && let Ok(count) = count.parse()
        {
            return Some(count);
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn readers_keep_the_partitions_that_were_not_lost_while_others_are_rebuilt() {
    let stores = start().await;
    let table_id = stores.table_id().await;
    let lost: BTreeSet<_> = stores.index.partitions().take(2).collect();
    // As a killed rebuild leaves them: empty, and without a marker.
    stores.index.begin_rebuild_of(lost.clone()).await.unwrap();
    let run = HeldRun::start(
        &stores,
        (gate::PRIMARIES, QUERIES_OF_HALF),
        settings(true),
        async move |job: Job| job.rebuild_missing(4).await.expect("a rebuild"),
    )
    .await;
    let readiness = stores.index.readiness(&table_id, now()).await.unwrap();
    for (partition, answer) in readiness {
        let expected = if lost.contains(&partition) {
            Some(NotReady::NoMarker)
        } else {
            None
        };
        assert_eq!(answer.err(), expected, "{partition:?}");
    }
    let report = super::expect(0, run.finish().await);
    assert!(
        comments_filled(&report) < Some(COMMENTS / 2),
        "only lost partitions are filled: {report}"
    );
    assert!(is_ready(&stores, now()).await);
    stores.assert_index().await;
    // The other partitions have another token by now. The next run checks them, and readers believe
    // them meanwhile.
    let run = HeldRun::start(&stores, (gate::JOURNAL, 0), settings(true), recent).await;
    assert!(is_ready(&stores, now()).await);
    super::expect(0, run.finish().await);
    assert!(is_ready(&stores, now()).await);
    stores.index.clear().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn a_rebuild_recounts_a_product_that_is_damaged_meanwhile() {
    let stores = Stores::start_ready_with_redis().await;
    let comment = stores.create_numbered(0, product(0)).await;
    stores.create_all(1..4, |_| product(0)).await;
    stores.deliver_all().await;
    let run = HeldRun::start(
        &stores,
        (gate::PRIMARIES, 1),
        settings(true),
        async move |job: Job| job.rebuild(4).await,
    )
    .await;
    let live = data::index_comment(&comment.id, &comment.placement(), comment.created_at);
    stores.index.apply(&live).await.unwrap();
    let open = stores.redis().key_name(&product(0), "open");
    redis_server::ask::<()>(&stores.redis().url, &format!("DEL {open}")).await;
    super::expect(0, run.finish().await);
    stores.assert_index().await;
    stores.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn a_scheduled_run_rebuilds_what_was_lost_and_nothing_that_another_run_fills_or_another_table_owns()
 {
    let stores = start().await;
    // A rebuild under way.
    let run = HeldRun::start(
        &stores,
        (gate::PRIMARIES, QUERIES_OF_HALF),
        settings(true),
        async move |job: Job| job.rebuild(4).await,
    )
    .await;
    assert_no_rebuild(&stores, "a rebuild is under way").await;
    super::expect(0, run.finish().await);
    assert!(is_ready(&stores, now()).await);
    // The time is up.
    stores.index.clear().await.unwrap();
    let late = job_with(&stores, settings(true), Stop::after(Some(Duration::ZERO)));
    invoke(late, &stores, SCHEDULED).await;
    assert!(!is_ready(&stores, now()).await);
    // The next run has time. The one after it finds nothing to rebuild.
    let next = invoke(job(&stores, true), &stores, SCHEDULED).await;
    assert!(
        rebuild(&next).is_some() && is_ready(&stores, now()).await,
        "{next:?}"
    );
    stores.assert_index().await;
    assert_no_rebuild(&stores, "nothing is lost").await;
    stores.index.clear().await.unwrap();
    // A different table's index.
    let other = stores.index.begin_rebuild().await.unwrap();
    stores
        .index
        .finish_rebuild(&other, "another-table", now())
        .await
        .unwrap();
    assert_no_rebuild(&stores, "another table").await;
    assert!(stores.index.is_ready("another-table", now()).await.unwrap());
    stores.index.clear().await.unwrap();
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_redis_that_does_not_answer_is_not_rebuilt() {
    let (redis, mut stores): (OwnRedis, Stores) = Stores::start_ready_on_own_redis().await;
    end_redis(&redis, &mut stores).await;
    let invoked = invoke(job(&stores, true), &stores, SCHEDULED).await;
    let status = invoked.status.as_ref();
    let is_away = status.is_ok_and(|status| status.index.is_err());
    assert!(rebuild(&invoked).is_none() && is_away, "{invoked:?}");
}
