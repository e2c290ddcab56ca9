//! A rebuild while comments change, and a Redis that restarted from an older snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use local_stack::event_source_mapping::MappingSettings;
use model::{Filter, Order, ProductId};
use page_index::{NotReady, PageStartQuery};
use page_indexer::PageIndexer;
use process::now;
use rand::{SeedableRng, rngs::StdRng};
use redis_index::RedisIndexConfig;
use repair_job::{Job, JobSettings, Stop, exit};
use table::NewComment;

use super::{
    HeldRun, assert_clean, assert_writes_lost, expect, is_ready, job, job_of, job_with, recent, settings, whole,
};
use crate::{
    fixture::{
        api::Served,
        data,
        gate::{self, Gate},
        http::{Answer, Http},
        mappings::{Mappings, handler},
        redis_server::{OwnRedis, wait_for_answer},
        stores::Stores,
    },
    replay::write_history,
};

/// Number of comments before the rebuild.
const COMMENTS: u64 = 20_000;
/// Number of products of these comments.
const PRODUCTS: u64 = 400;
/// Maximum read units per second of a rebuild: few enough that it takes some seconds.
const READ_UNITS: u32 = 150;
/// Number of shards of the index `primaries` that a rebuild reads in parallel.
const SEGMENTS: u32 = 4;
/// Time between two writes during a rebuild: 50 a second. After a late write, the next one comes sooner.
const WRITE_EVERY: Duration = Duration::from_millis(20);

fn product(number: u64) -> ProductId {
    data::product(&format!("product {}", number % PRODUCTS))
}

pub(super) fn comment(number: u64) -> NewComment {
    let tag = ["en", "ko", "fr"][usize::try_from(number % 3).unwrap()];
    let created_at = data::at_ms(data::CREATED_MS + i64::try_from(number).unwrap());
    NewComment { created_at, ..data::new_comment(&format!("c{number:06}"), &product(number), tag, 1 + number % 5) }
}

/// Creates, changes and deletes comments, and counts these writes.
async fn write_until(stores: Arc<Stores>, is_over: Arc<AtomicBool>, written: Arc<AtomicU64>) {
    let mut ticks = tokio::time::interval(WRITE_EVERY);
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        ticks.tick().await;
        let old = comment(number * 7 % COMMENTS).id;
        match number % 3 {
            0 => {
                // Some comments have new products.
                let new = data::product(&format!("new product {}", number / 30));
                let comment = comment(COMMENTS + number);
                let product = if number % 2 == 0 { new } else { comment.product.clone() };
                stores.table.create_comment(NewComment { product, ..comment }, None).await.unwrap();
            }
            1 => {
                stores.table.patch_comment(&old, None, &data::rate(1 + number / 3 % 5)).await.ok();
            }
            _ => stores.table.delete_comment(&old, None).await.unwrap_or_default(),
        }
        number += 1;
        written.fetch_add(1, Ordering::Relaxed);
    }
}

async fn page(http: &Http, number: u64, page: u64) -> Answer {
    http.get(&format!("/api/v1/products/product%20{}/comments?page={page}", number % PRODUCTS)).await
}

/// Reads pages of the real API. Page 1 is always answered, with a correct total or none. Page 2 is answered, or is not
/// available yet. Returns how many pages gave a total, and how many did not.
async fn ask_until(http: Http, is_over: Arc<AtomicBool>) -> (u64, u64) {
    let (mut totals, mut not_yet) = (0_u64, 0_u64);
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let first = page(&http, number, 1).await.expect(200);
        let second = page(&http, number, 2).await;
        let total = match second.status {
            200 => second.json()["total"].as_u64(),
            503 => None,
            _ => panic!("page 2 is neither answered nor unavailable: {second:?}"),
        };
        for total in [first["total"].as_u64(), total] {
            assert!(total.is_none_or(is_plausible), "{total:?}");
            *(if total.is_some() { &mut totals } else { &mut not_yet }) += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (totals, not_yet)
}

/// Reads the totals that the API would show from the page index. Returns how many were read.
async fn read_until(stores: Arc<Stores>, table_id: String, is_over: Arc<AtomicBool>) -> u64 {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let (product, filter) = (&product(number), &Filter::ANY);
        let query = PageStartQuery { product, filter, skip: 0, order: Order::Newest, as_of: None };
        match stores.index.page_start(&query, &table_id, now()).await.unwrap() {
            Ok(start) => assert!(is_plausible(start.total), "{}", start.total),
            Err(not_ready) => assert_eq!(not_ready, NotReady::NoMarker),
        }
        number += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    number
}

/// More than nine in ten of a product's comments stay, despite all deletions.
fn is_plausible(total: u64) -> bool {
    total > COMMENTS / PRODUCTS * 9 / 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_of_20_000_comments_is_rebuilt_under_writes_without_a_wrong_answer() {
    let stores = Arc::new(Stores::start().await);
    stores.put_primary_items((0..COMMENTS).map(comment).collect()).await;
    let table_id = stores.table_id().await;
    let indexer = PageIndexer::new(stores.index.clone(), stores.quarantine());
    let handler = handler(indexer, async |indexer, event, deadline| indexer.handle(&event, deadline).await.response);
    let mut mappings = Mappings::default();
    mappings.start(&stores, page_indexer::FUNCTION, MappingSettings::PAGE_INDEXER, handler);
    // The index starts empty, as after a loss of data. The stream's records alone do not make it complete.
    let is_over = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let writer = tokio::spawn(write_until(Arc::clone(&stores), Arc::clone(&is_over), Arc::clone(&written)));
    let api = Served::of(&stores);
    let asker = tokio::spawn(ask_until(api.http.clone(), Arc::clone(&is_over)));
    let reader = tokio::spawn(read_until(Arc::clone(&stores), table_id.clone(), Arc::clone(&is_over)));
    // Each rebuild is slow enough that some hundred writes happen meanwhile.
    for _ in 0..2 {
        let limited = JobSettings { max_read_units: Some(READ_UNITS), ..settings(true) };
        let job = Job::new(stores.table.clone(), stores.index.clone(), limited, Stop::default());
        let (before, began) = (written.load(Ordering::Relaxed), tokio::time::Instant::now());
        let report = job.rebuild(SEGMENTS).await;
        let (writes, seconds) = (written.load(Ordering::Relaxed) - before, began.elapsed().as_secs_f64());
        println!("{report}\n{writes} writes in {seconds:.1} s");
        assert_eq!(report.exit_code(), 0, "{report}");
        assert!(writes > 100, "too little was written meanwhile: {writes}");
        // The index is ready now, and exact after the stream has been read.
        assert!(is_ready(&stores, now()).await);
        assert!(page(&api.http, 1, 2).await.expect(200)["total"].is_u64());
    }
    is_over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let (totals, not_yet) = asker.await.unwrap();
    println!("totals given: {totals}, not yet: {not_yet}");
    assert!(not_yet > 0, "nobody asked while the index was being filled");
    api.finish().await;
    let reads = reader.await.unwrap();
    println!("{} writes, {reads} reads of totals", written.load(Ordering::Relaxed));
    mappings.finish(Duration::from_secs(120)).await;
    let contents = stores.assert_index().await;
    assert!(contents.primary.len() > 19_000);
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn a_rebuild_marks_the_index_up_to_what_it_has_reconciled_however_long_it_took() {
    let stores = Stores::start().await;
    write_history(&stores, &mut StdRng::seed_from_u64(82), 60).await;
    // The first query only checks that the table has the index. Then the page index is emptied.
    let run =
        HeldRun::start(&stores, (gate::PRIMARIES, 1), settings(true), async |job: Job| job.rebuild(1).await).await;
    write_history(&stores, &mut StdRng::seed_from_u64(83), 60).await;
    let meanwhile = now();
    assert_clean(&run.finish().await);
    let table_id = stores.table_id().await;
    let marks = stores.index.marks(&table_id).await.unwrap();
    assert_eq!(marks.len(), stores.index.partitions().count());
    assert!(marks.iter().all(|(_, mark)| (meanwhile..=now()).contains(&mark.watermark)), "{meanwhile} {marks:?}");
    stores.deliver_all().await;
    stores.finish().await;
}

#[tokio::test]
async fn a_rebuild_does_not_mark_a_redis_that_was_restored_meanwhile() {
    let redis = OwnRedis::start().await;
    let stores = Stores::start_on(redis.server.url()).await;
    // Without the journal, so that only the rebuild's fill puts these comments into the index.
    stores.put_primary_items((0..100).map(comment).collect()).await;
    let edits = Gate::holding(&stores.redis().url, gate::EDITS, 0).await;
    let journal = Gate::holding(&stores.engine_url(), gate::JOURNAL, 0).await;
    let rebuild = job_of(stores.table_at(&journal.url).await, stores.index_at(&edits.url), settings(true));
    let run = tokio::spawn(async move { rebuild.rebuild(1).await });
    edits.wait_until_holding("the first edit").await;
    redis.ask::<()>("SAVE").await;
    edits.open();
    journal.wait_until_holding("the end of the fill").await;
    redis.restore(&stores.index).await;
    journal.open();
    let report = expect(exit::FAILURE, run.await.unwrap());
    assert!(report.failure.as_ref().is_some_and(|failure| failure.contains("started again")), "{report}");
    let table_id = stores.table_id().await;
    let of_index = stores.index.readiness(&table_id, now()).await.unwrap();
    assert!(of_index.iter().all(|(_, answer)| *answer == Err(NotReady::NoMarker)), "{of_index:?}");
    assert_clean(&job(&stores, true).rebuild(1).await);
    stores.assert_index().await;
}

#[tokio::test]
async fn a_redis_restored_from_an_old_snapshot_is_ready_once_recent_has_caught_up() {
    let (redis, mut stores) = Stores::start_ready_on_own_redis().await;
    let mut random = StdRng::seed_from_u64(81);
    write_history(&stores, &mut random, 60).await;
    expect(exit::DRIFT_FOUND, recent(job_with(&stores, settings(true), Stop::default())).await);
    stores.assert_invariants().await;
    redis.ask::<()>("SAVE").await;
    // Work continues, and the snapshot becomes old.
    let saved_at = now();
    write_history(&stores, &mut random, 60).await;
    stores.deliver_all().await;
    expect(0, recent(job_with(&stores, settings(true), Stop::default())).await);
    stores.assert_invariants().await;
    redis.server.restart().await.unwrap();

    let max_age = Duration::from_millis(u64::try_from(now().epoch_ms() - saved_at.epoch_ms()).unwrap() / 2);
    let config = RedisIndexConfig { max_age, ..stores.redis().clone() };
    stores.index = redis_index::connect(&config).unwrap();
    wait_for_answer(&stores.index).await;
    assert!(!is_ready(&stores, now()).await, "an old snapshot is believed");
    assert_writes_lost(&stores).await;
    // A run that must stop early does not make the index ready.
    let stop = Stop::default();
    stop.ask();
    expect(exit::SKIPPED, job_with(&stores, settings(true), stop).recent().await);
    assert!(!is_ready(&stores, now()).await, "a run that was stopped confirms the index");
    expect(exit::DRIFT_FOUND, recent(job_with(&stores, settings(true), Stop::default())).await);
    let ended = stores.table.watermark().await.unwrap().unwrap();
    assert!(is_ready(&stores, ended).await, "it is not ready although it has caught up");
    stores.assert_invariants().await;
    assert_clean(&job(&stores, true).audit(whole()).await);
}
