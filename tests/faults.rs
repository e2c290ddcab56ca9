//! Under any faults of networks and servers, the system ends right: I1 and I2 hold, or only the comments in quarantine
//! differ.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_lambda_events::streams::DynamoDbEventResponse;
use functions::invocation::Handled;
use futures_util::{StreamExt, stream};
use local_stack::event_source_mapping::MappingSettings;
use model::item::comment_id_of_pk;
use page_indexer::PageIndexer;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use redis_index::RedisIndexConfig;
use serde_json::Value;
use stream_writer::StreamWriter;
use tokio::time::Instant;

use crate::{
    fixture::{
        faults::{
            Schedule,
            page_index::{PageIndexFault, faulty_redis},
            table::{TableFault, faulty_table},
        },
        mappings::{Mappings, handler},
        stores::Stores,
    },
    replay::write_history,
};

/// Runs, each with a separate schedule, history and settings.
const SEEDS: std::ops::Range<u64> = 0..8;
const AT_ONCE: usize = 4;
/// Changes of comments per run. A third of them happen before the handlers start.
const CHANGES: usize = 90;
const FAULTY_CALLS: u32 = 120;
/// Duration of an invocation: some must give up in the middle of an outage, others may wait for its end. No call of the
/// table starts in the last 400 ms, its attempt time-out here.
const INVOCATION_MS: std::ops::Range<u64> = 420..1_900;
/// Time-out of an answer of the page index. No call starts later than this before the end.
const ANSWER_MAX: Duration = Duration::from_millis(400);
/// Maximum time after its deadline at which a handler may answer on a busy machine.
const OVERTIME_MAX: Duration = Duration::from_secs(5);
const PATIENT: u32 = 1_000;
/// Maximum time until a run is at rest.
const REST_MAX: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_any_schedule_of_faults_only_comments_in_quarantine_differ() {
    let runs: Vec<Run> = stream::iter(SEEDS).map(run).buffer_unordered(AT_ONCE).collect().await;
    // Every kind of fault occurred in some run, and every outcome too.
    let met: BTreeSet<&str> = runs.iter().flat_map(|run| &run.met).map(String::as_str).collect();
    let of_table = TableFault::ALL.iter().map(|fault| format!("{fault:?}"));
    let all = of_table.chain(PageIndexFault::ALL.iter().map(|fault| format!("{fault:?}")));
    let never: Vec<String> = all.filter(|fault| !met.contains(fault.as_str())).collect();
    assert_eq!(never, Vec::<String>::new());
    let gave_up = runs.iter().filter(|run| run.quarantined > 0).count();
    assert!((1..runs.len()).contains(&gave_up), "{gave_up} of {} runs gave a batch up", runs.len());
    for handler in 0..2 {
        let reports: usize = runs.iter().map(|run| run.reports[handler]).sum();
        assert!(reports > runs.len(), "handler {handler} reported records for retry {reports} times");
    }
}

struct Run {
    met: Vec<String>,
    quarantined: usize,
    reports: [usize; 2],
}

async fn run(seed: u64) -> Run {
    let mut random = StdRng::seed_from_u64(seed);
    let stores = Stores::start_with_redis().await;
    let table_faults = Schedule::new(seed, FAULTY_CALLS, random.random_range(10..=60), &TableFault::ALL);
    let index_faults = Schedule::new(seed, FAULTY_CALLS, random.random_range(10..=60), &PageIndexFault::ALL);
    write_history(&stores, &mut random, CHANGES / 3).await;

    let table = faulty_table(&stores.table, &stores.engine_url(), Arc::clone(&table_faults)).await;
    let redis_url = faulty_redis(&stores.redis().url, Arc::clone(&index_faults)).await;
    let redis = RedisIndexConfig { url: redis_url, timeout: ANSWER_MAX, ..stores.redis().clone() };
    let index = redis_index::connect(&redis).unwrap();
    let writer = StreamWriter::new(table, stores.quarantine(), 4);
    let indexer = PageIndexer::new(index, stores.quarantine());
    // Half of the runs give up a batch at its first failure.
    let retries = if seed % 4 == 1 || seed % 4 == 2 { 0 } else { PATIENT };
    let invocations: [Arc<Invocations>; 2] =
        [1, 2].map(|handler| Arc::new(Invocations::new(seed * 2 + handler, retries == 0)));
    let [of_writer, of_indexer] = invocations.clone();
    let writer = handler((writer, of_writer), async |(writer, invocations), event, _| {
        invocations.call(async |deadline| writer.handle(&event, deadline).await).await
    });
    let indexer = handler((indexer, of_indexer), async |(indexer, invocations), event, _| {
        invocations.call(async |deadline| indexer.handle(&event, deadline).await).await
    });
    let mut mappings = Mappings::default();
    for (function, handler) in [(stream_writer::FUNCTION, writer), (page_indexer::FUNCTION, indexer)] {
        let mut settings = MappingSettings::STREAM_WRITER;
        settings.maximum_retry_attempts = retries;
        settings.bisect_batch_on_function_error = random.random();
        settings.batch_size = random.random_range(5..=40);
        settings.parallelization_factor = random.random_range(1..=3);
        mappings.start(&stores, function, settings, handler);
    }
    write_history(&stores, &mut random, CHANGES - CHANGES / 3).await;
    mappings.finish(REST_MAX).await;
    let quarantined = check_quarantine(&stores, seed, retries).await;
    println!(
        "seed {seed}: {} and {} faults met, {} comments in quarantine",
        table_faults.met().len(),
        index_faults.met().len(),
        quarantined.len()
    );
    let met = [table_faults.met(), index_faults.met()].concat();
    let reports = invocations.map(|invocations| invocations.reports());
    Run { met, quarantined: quarantined.len(), reports }
}

/// Asserts that only comments in quarantine differ, and returns these.
async fn check_quarantine(stores: &Stores, seed: u64, retries: u32) -> BTreeSet<String> {
    let batches = stores.quarantined_batches();
    for batch in &batches {
        let condition = batch["requestContext"]["condition"].as_str().unwrap();
        let is_by_handler = ["MalformedRecord", "RejectedByStore"].contains(&condition);
        assert!(!is_by_handler, "seed {seed}: no fault makes a record poison: {batch}");
    }
    let quarantined = comments_in(&batches);
    assert!(retries < PATIENT || quarantined.is_empty(), "seed {seed}: nothing was to be given up: {quarantined:?}");
    // Repair only the comments in quarantine. The invariants then find any other difference.
    let of_quarantined = stores.records().await.into_iter().filter(|record| {
        let pk = serde_json::to_value(&record.change.keys).unwrap()["pk"]["S"].as_str().unwrap().to_owned();
        comment_id_of_pk(&pk).is_some_and(|id| quarantined.contains(id.as_str()))
    });
    let of_quarantined: Vec<_> = of_quarantined.collect();
    stores.deliver(&of_quarantined).await;
    stores.assert_invariants().await;
    quarantined
}

/// The invocations of a handler. [`run`] asserts that they are correct: an assertion inside an invocation would only
/// fail the invocation, and the mapping would retry.
struct Invocations {
    /// The first invocation gets no time at all, so that it fails on a fast machine too.
    first_without_time: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: StdRng,
    begun: usize,
    answered: usize,
    reports: usize,
    /// Longest time by which an answer missed its deadline.
    overtime: Duration,
}

impl Invocations {
    fn new(seed: u64, first_without_time: bool) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let state = State { random, begun: 0, answered: 0, reports: 0, overtime: Duration::ZERO };
        Self { first_without_time, state: Mutex::new(state) }
    }

    async fn call(&self, handle: impl AsyncFnOnce(Instant) -> Handled) -> DynamoDbEventResponse {
        let time_ms = {
            let mut state = self.state.lock().unwrap();
            state.begun += 1;
            let time_ms = state.random.random_range(INVOCATION_MS);
            if state.begun == 1 && self.first_without_time { 0 } else { time_ms }
        };
        let deadline = Instant::now() + Duration::from_millis(time_ms);
        let handled = handle(deadline).await;
        let mut state = self.state.lock().unwrap();
        state.answered += 1;
        state.reports += usize::from(!handled.response.batch_item_failures.is_empty());
        state.overtime = state.overtime.max(Instant::now().saturating_duration_since(deadline));
        handled.response
    }

    /// Asserts that each invocation was answered, and not much after its deadline. Returns how many reported records.
    fn reports(&self) -> usize {
        let state = self.state.lock().unwrap();
        assert_eq!(state.begun, state.answered, "a handler did not answer");
        assert!(state.overtime < OVERTIME_MAX, "a handler went on after its deadline: {state:?}");
        state.reports
    }
}

fn comments_in(batches: &[Value]) -> BTreeSet<String> {
    let records = batches.iter().flat_map(|batch| {
        let payload: Value = serde_json::from_str(batch["payload"].as_str().unwrap()).unwrap();
        payload["Records"].as_array().unwrap().clone()
    });
    let id = |record: Value| comment_id_of_pk(record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap()).unwrap();
    records.map(|record| id(record).to_string()).collect()
}
