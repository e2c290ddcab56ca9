//! Runs everything concurrently, from many seeds:
//!
//! - Comments are created, changed, deleted and created again.
//! - Handlers run, die between any two of their writes, and lose batches.
//! - Damage is done to the data that the handlers maintain.
//! - The repair job reconciles the same comments, and audits everything in small steps, also over a network that fails.
//! - Redis is lost, or restored from a snapshot.
//!
//! Half of the seeds have their page index inside the process, the others in Redis, whatever `PAGEMARK_TEST_PAGE_INDEX` says.
//!
//! At the end, one more run restores I1, I2 and I3. No acknowledged write is lost, and a further run finds nothing.
//!
//! `PAGEMARK_TEST_REPAIR_SEEDS=N` takes N seeds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::streams::DynamoDbEventResponse;
use futures_util::{StreamExt, stream};
use local_stack::event_source_mapping::{Handler, MappingSettings};
use model::{Comment, CommentId, FilterKey, Order, ProductId, record::decode_batch};
use page_index::{PageIndex, PageStartQuery};
use page_indexer::PageIndexer;
use process::now;
use rand::{
    RngExt, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom, SliceRandom},
};
use repair_job::{AuditOptions, Job, JobSettings, Report, Stop, exit};
use serde_json::json;
use stream_writer::StreamWriter;
use table::{CommentPatch, Created, NewComment, PageQuery, Table};
use tokio::sync::RwLock;

use super::{assert_clean, job, job_of, job_with, no_overlap, settings, whole};
use crate::fixture::{
    damage::{Damage, delete, inflict},
    data,
    faults::{
        Schedule,
        page_index::{PageIndexFault, faulty_redis},
        table::{TableFault, faulty_table},
    },
    mappings::{Mappings, handler},
    redis_server::OwnRedis,
    size::{Size, size},
    stores::{INVOCATION, Stores},
    wait_for,
};

const VARIABLE: &str = "PAGEMARK_TEST_REPAIR_SEEDS";
/// Seeds that run in parallel.
const AT_ONCE: usize = 12;
/// Changes per seed.
const CHANGES: usize = 5;
/// Damages per seed.
const DAMAGES: usize = 3;
/// Maximum number of times that each comment is reconciled during a seed.
const RECONCILED: u64 = 2;
/// Percentages of handler invocations: those that lose their batch, and those that die in the middle of it.
const LOST_PERCENT: u32 = 8;
const KILLED_PERCENT: u32 = 12;
/// Percentage of the repair job's calls that fail over the failing network.
const FAULTS_PERCENT: u32 = 10;
/// For this many seeds, one additional seed runs in a world in which Redis is lost.
const LOSSES_ONE_IN: u64 = 10;
/// Maximum time until the handlers are at rest.
const REST_MAX: Duration = Duration::from_secs(180);
/// Number of products whose pages are all compared.
const PAGED: usize = 40;

fn seeds() -> u64 {
    match std::env::var(VARIABLE) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{VARIABLE}: {text:?}")),
        Err(_) => match size() {
            Size::Small => 60,
            Size::Usual => 160,
            Size::Full => 1_000,
        },
    }
}

/// The state that every comment must have: the last one that was acknowledged.
type Acknowledged = BTreeMap<CommentId, Option<Comment>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recent_restores_what_the_journal_names_after_any_concurrent_events() {
    for (stores, seeds) in on_either_index(0..seeds() / 2).await {
        // `recent` need not find what only a full check finds.
        let world = World { has_audits: false, ..World::with(&Damage::of_a_comment(&stores)) };
        everything_at_once(&stores, seeds, &world, async |job| job.recent().await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_restores_everything_after_any_concurrent_events() {
    for (stores, seeds) in on_either_index(seeds() / 2..seeds()).await {
        let world = World::with(&Damage::all(&stores));
        everything_at_once(&stores, seeds, &world, async |job| job.audit(anew()).await).await;
    }
}

/// Stores with each kind of page index, for half of the seeds each: the kinds have different damage and different calls.
async fn on_either_index(seeds: Range<u64>) -> [(Stores, Range<u64>); 2] {
    let middle = seeds.start.midpoint(seeds.end);
    [
        (Stores::start_ready_in_process().await, seeds.start..middle),
        (Stores::start_ready_with_redis().await, middle..seeds.end),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_restores_everything_after_any_concurrent_loss_of_redis() {
    let (redis, stores) = Stores::start_ready_on_own_redis().await;
    // Damage in Redis may be lost together with Redis.
    let damages = [Damage::DropDuplicates, Damage::AlterDuplicate, Damage::AddDuplicate, Damage::GhostDuplicates];
    let world = World { redis: Some(&redis), ..World::with(&damages) };
    let one_more = async |job: Job| {
        // An index that has lost markers is rebuilt.
        if job.status(1, None).await.unwrap().index.unwrap().unmarked > 0 {
            assert_clean(&job.rebuild(1).await);
        }
        job.audit(anew()).await
    };
    everything_at_once(&stores, seeds()..seeds() + seeds() / LOSSES_ONE_IN, &world, one_more).await;
}

/// A full check, including segments that a stopped audit has already checked.
fn anew() -> AuditOptions {
    AuditOptions { restart: true, ..whole() }
}

/// What happens besides the changes of comments.
struct World<'redis> {
    /// The kinds of damage to comments.
    damages: Vec<Damage>,
    /// Whether audits run in parallel.
    has_audits: bool,
    /// The Redis server that is lost now and then.
    redis: Option<&'redis OwnRedis>,
    /// Held for reading while damage is done: damage needs the server, and waits while it is down.
    up: RwLock<()>,
}

impl World<'_> {
    /// A world with audits, in which Redis stays.
    fn with(damages: &[Damage]) -> Self {
        // A comment without its primary item would count as lost.
        let damages = damages.iter().copied().filter(|damage| *damage != Damage::DropPrimary);
        Self { damages: damages.collect(), has_audits: true, redis: None, up: RwLock::default() }
    }
}

async fn everything_at_once(
    stores: &Stores,
    seeds: Range<u64>,
    world: &World<'_>,
    one_more: impl AsyncFn(Job) -> Report,
) {
    let mut random = StdRng::seed_from_u64(seeds.start);
    let mut mappings = Mappings::default();
    for (function, handler) in [
        (stream_writer::FUNCTION, dying_writer(stores, seeds.start)),
        (page_indexer::FUNCTION, dying_indexer(stores, seeds.start)),
    ] {
        let mut settings = MappingSettings::STREAM_WRITER;
        settings.maximum_retry_attempts = 1_000;
        settings.batch_size = 20;
        mappings.start(stores, function, settings, handler);
    }
    let broken = broken_stores(stores, &mut random).await;
    let is_over = AtomicBool::new(false);
    let all_seeds = async {
        let runs = stream::iter(seeds.clone()).map(|seed| one_seed(stores, seed, world, &broken));
        let acknowledged: Vec<Acknowledged> = runs.buffer_unordered(AT_ONCE).collect().await;
        is_over.store(true, Ordering::Relaxed);
        acknowledged.into_iter().flatten().collect::<Acknowledged>()
    };
    let hourly_runs = async {
        let mut count = 0;
        while !is_over.load(Ordering::Relaxed) {
            let report = job_with(stores, no_overlap(), Stop::default()).recent().await;
            assert_eq!(report.exit_code() & (exit::FAILURE | exit::UNRESOLVED | exit::HELD), 0, "{report}");
            count += 1;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        count
    };
    let audits =
        async { if world.has_audits { audits_meanwhile(stores, &broken, seeds.start, &is_over).await } else { 0 } };
    let losses = async {
        if let Some(redis) = world.redis {
            lose_meanwhile(stores, redis, &world.up, seeds.start, &is_over).await;
        }
    };
    let (acknowledged, runs, audited, ()) = tokio::join!(all_seeds, hourly_runs, audits, losses);
    assert!(audited > 0 || !world.has_audits, "no audit has looked at anything");
    mappings.finish(REST_MAX).await;

    // An audit whose network failed may not have released its lease.
    let last = wait_for("the end of the lease", async || {
        let report = one_more(job(stores, true)).await;
        if report.exit_code() == exit::HELD { Err(report) } else { Ok(report) }
    })
    .await;
    let comments = acknowledged.len();
    println!("{comments} comments; meanwhile {runs} runs, and audits of {audited} items; the last run:\n{last}");
    assert_eq!(last.exit_code() & !exit::DRIFT_FOUND, 0, "{last}");
    stores.assert_invariants().await;
    assert_clean(&one_more(job(stores, true)).await);
    for (id, expected) in &acknowledged {
        assert_eq!(stores.table.comment(id).await.unwrap().as_ref(), expected.as_ref(), "{id}");
    }
    assert_pages(stores, &acknowledged).await;
    stores.index.clear().await.unwrap();
}

/// Runs audits in small steps, one in four over the failing network. Returns how many items were read.
async fn audits_meanwhile(stores: &Stores, broken: &(Table, PageIndex), seed: u64, is_over: &AtomicBool) -> u64 {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut items, mut runs) = (0, 0_u64);
    while !is_over.load(Ordering::Relaxed) {
        runs += 1;
        let is_broken = runs.is_multiple_of(4);
        let stop = Stop::after(Some(Duration::from_millis(random.random_range(50..400))));
        let (table, index) = if is_broken { broken.clone() } else { (stores.table.clone(), stores.index.clone()) };
        let brief = JobSettings { lease: Duration::from_secs(5), ..settings(true) };
        let job = Job::new(table, index, brief, stop);
        let report = job.audit(AuditOptions { at_once: 1, ..whole() }).await;
        // A run over the failing network may fail, and may fail to release its lease.
        assert_eq!(report.exit_code() & exit::UNRESOLVED, 0, "{report}");
        assert!(is_broken || report.exit_code() & exit::FAILURE == 0, "{report}");
        items += report.items;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    items
}

/// Saves snapshots of Redis, restores the last one, empties Redis and rebuilds the index, in an order drawn from a
/// seed.
async fn lose_meanwhile(stores: &Stores, redis: &OwnRedis, up: &RwLock<()>, seed: u64, is_over: &AtomicBool) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut counts = [0; 4];
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(random.random_range(50..500))).await;
        let what = random.random_range(0..counts.len());
        counts[what] += 1;
        match what {
            0 => redis.ask("SAVE").await,
            1 => {
                let _down = up.write().await;
                redis.kill().await;
                redis.server.restart().await.unwrap();
            }
            2 => redis.ask("FLUSHALL").await,
            _ => {
                let report = job(stores, true).rebuild(1).await;
                assert_eq!(report.exit_code() & exit::UNRESOLVED, 0, "{report}");
            }
        }
    }
    println!("Redis: {counts:?} times saved, restored, emptied, rebuilt");
}

/// Stores for a repair job whose network sometimes fails.
async fn broken_stores(stores: &Stores, random: &mut StdRng) -> (Table, PageIndex) {
    let calls = 20_000;
    let (of_table, of_index) = (random.random(), random.random());
    let table = Schedule::new(of_table, calls, FAULTS_PERCENT, &TableFault::ALL);
    let table = faulty_table(&stores.table, &stores.engine_url(), table).await;
    let index = Schedule::new(of_index, calls, FAULTS_PERCENT, &PageIndexFault::ALL);
    let index = match stores.redis_config() {
        Some(config) => stores.index_at(&faulty_redis(&config.url, index).await),
        // No network leads there.
        None => stores.index.clone(),
    };
    (table, index)
}

/// Runs one seed: its comments and everything that happens to them. Returns the state that must remain.
async fn one_seed(stores: &Stores, seed: u64, world: &World<'_>, broken: &(Table, PageIndex)) -> Acknowledged {
    let mut random = StdRng::seed_from_u64(seed);
    let product = data::product(&format!("seed/{seed}"));
    let numbers = 0..random.random_range(1..=3);
    let ids: Vec<CommentId> = numbers.map(|number| data::comment_id(&format!("s{seed}-{number}"))).collect();
    let mut of_writer = StdRng::from_rng(&mut random);
    let mut of_damage = StdRng::from_rng(&mut random);
    let write = async {
        let mut acknowledged: Acknowledged = ids.iter().map(|id| (id.clone(), None)).collect();
        for _ in 0..CHANGES {
            let id = ids.choose(&mut of_writer).unwrap();
            let after = change(stores, &mut of_writer, id, &product, acknowledged[id].as_ref()).await;
            acknowledged.insert(id.clone(), after);
        }
        acknowledged
    };
    let damage = async {
        for _ in 0..DAMAGES {
            tokio::time::sleep(Duration::from_millis(of_damage.random_range(0..40))).await;
            if let Some(comment) = stores.table.comment(ids.choose(&mut of_damage).unwrap()).await.unwrap() {
                let damage = *world.damages.choose(&mut of_damage).unwrap();
                let _up = world.up.read().await;
                inflict(stores, &mut of_damage, &comment, damage).await;
            }
        }
    };
    let reconcile = async {
        for round in 0..=seed % RECONCILED {
            for id in &ids {
                let (table, index) = broken.clone();
                let job = match (seed / RECONCILED + round).is_multiple_of(4) {
                    true => job_of(table, index, settings(true)),
                    false => job(stores, true),
                };
                let checked = job.check(id, Some(&product)).await;
                assert_eq!(checked.report.unresolved_count, 0, "{}\n{}", checked.table, checked.report);
            }
        }
    };
    let (acknowledged, (), ()) = tokio::join!(write, damage, reconcile);
    acknowledged
}

/// Changes a comment through the writer, or deletes its primary item directly. Returns the resulting state.
async fn change(
    stores: &Stores,
    random: &mut StdRng,
    id: &CommentId,
    product: &ProductId,
    present: Option<&Comment>,
) -> Option<Comment> {
    let (tag, stars) = (*["en", "ko", "fr"].choose(random).unwrap(), random.random_range(1..=5));
    let body = format!("Body {}", random.random_range(0..1_000));
    let Some(present) = present else {
        // A comment that is created again may have another creation time.
        let created_at = data::at_ms(data::CREATED_MS + random.random_range(0..3));
        let comment = data::new_comment(id.as_str(), product, tag, stars);
        let comment = NewComment { created_at, text: data::body(&body), ..comment };
        return match stores.table.create_comment(comment, None).await.unwrap() {
            Created::New(comment) | Created::Before(comment) => Some(comment),
        };
    };
    match random.random_range(0..20) {
        0 => {
            delete(&stores.table, id, &FilterKey::primary(product.clone())).await;
            None
        }
        1..=5 => {
            stores.table.delete_comment(id, None).await.unwrap();
            None
        }
        way => {
            let rating = (way % 2 == 0).then(|| data::rating(stars));
            let language = (way % 3 == 0).then(|| data::language(tag));
            let patch = CommentPatch { body: Some(body), rating, language, ..CommentPatch::default() };
            Some(stores.table.patch_comment(id, Some(present.revision), &patch).await.unwrap())
        }
    }
}

/// The fate of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The invocation does its work.
    Works,
    /// The batch is lost: the invocation does nothing and reports success.
    Lost,
    /// The invocation dies after this percentage of its writes.
    Killed(usize),
}

fn fate(random: &Mutex<StdRng>) -> Fate {
    let mut random = random.lock().unwrap();
    match random.random_range(0..100) {
        drawn if drawn < LOST_PERCENT => Fate::Lost,
        drawn if drawn < LOST_PERCENT + KILLED_PERCENT => Fate::Killed(random.random_range(0..100)),
        _ => Fate::Works,
    }
}

/// The service's reaction to an invocation that died: it delivers the whole batch again.
fn died() -> DynamoDbEventResponse {
    serde_json::from_value(json!({ "batchItemFailures": [{ "itemIdentifier": "" }] })).unwrap()
}

fn part<T>(mut of: Vec<T>, percent: usize) -> Vec<T> {
    of.truncate(of.len() * percent / 100);
    of
}

fn dying_writer(stores: &Stores, seed: u64) -> Handler {
    let writer = StreamWriter::new(stores.table.clone(), stores.quarantine(), 4);
    let random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
    handler((writer, stores.table.clone(), random), async |(writer, table, random), event, _| {
        let deadline = tokio::time::Instant::now() + INVOCATION;
        match fate(&random) {
            Fate::Works => writer.handle(&event, deadline).await.response,
            Fate::Lost => DynamoDbEventResponse::default(),
            Fate::Killed(percent) => {
                let mut calls = stream_writer::plan_calls(&decode_batch(&event.records).changes);
                // The calls run in parallel, so any of them may be done.
                calls.shuffle(&mut *random.lock().unwrap());
                let done = calls.len() * percent / 100;
                for (place, call) in calls.iter().enumerate().take(done + 1) {
                    let mut writes = call.clone();
                    // The last call is only done in part.
                    if place == done {
                        writes = part(writes, percent);
                    }
                    assert!(writes.is_empty() || table.write_duplicates(writes, deadline).await.is_whole());
                }
                died()
            }
        }
    })
}

fn dying_indexer(stores: &Stores, seed: u64) -> Handler {
    let indexer = PageIndexer::new(stores.index.clone(), stores.quarantine());
    let random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed + 1)));
    handler((indexer, stores.index.clone(), random), async |(indexer, index, random), event, _| match fate(&random) {
        Fate::Works => indexer.handle(&event, tokio::time::Instant::now() + INVOCATION).await.response,
        Fate::Lost => DynamoDbEventResponse::default(),
        Fate::Killed(percent) => {
            let edits = page_indexer::plan_edits(&decode_batch(&event.records).changes);
            // The invocation also dies when the page index is down.
            index.apply(&part(edits, percent)).await.ok();
            died()
        }
    })
}

/// Asserts I3 for some products: pages show what a brute-force filter and sort of the comments give.
async fn assert_pages(stores: &Stores, acknowledged: &Acknowledged) {
    let table_id = stores.table_id().await;
    let comments: Vec<&Comment> = acknowledged.values().flatten().collect();
    let products: BTreeSet<&ProductId> = comments.iter().map(|comment| &comment.product).collect();
    let filters = [(None, None), (Some("ko"), None), (None, Some("1.4")), (Some("en"), Some("2.3.5"))];
    let filters = filters.map(|(language, ratings)| data::filter(language, ratings));
    for product in products.into_iter().take(PAGED) {
        for filter in &filters {
            let is_shown = |comment: &&&Comment| comment.product == *product && filter.matches(&comment.placement());
            let mut expected: Vec<&&Comment> = comments.iter().filter(is_shown).collect();
            expected.sort_by_key(|comment| Reverse(comment.cd()));
            // One comment per page.
            for (skip, comment) in (0..).zip(&expected) {
                let query = PageStartQuery { product, filter, skip, order: Order::Newest, as_of: None };
                let start = stores.index.page_start(&query, &table_id, now()).await.unwrap().unwrap();
                assert_eq!(start.total, expected.len() as u64, "{product} {filter}");
                let key = FilterKey { product: product.clone(), filter: filter.clone() };
                let query = PageQuery { key, order: Order::Newest, limit: 1, start: start.before };
                let page = stores.table.page(&query).await.unwrap();
                assert_eq!(page.comments, [(**comment).clone()], "{product} {filter}");
            }
        }
    }
}
