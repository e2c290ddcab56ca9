//! The event source mappings: deliver the stream's records to the two functions, at least once and
//! in the order of each item's records, and otherwise as badly as the service may.

use std::{
    cell::{Cell, RefCell},
    collections::hash_map::DefaultHasher,
    hash::{BuildHasher, BuildHasherDefault},
    rc::Rc,
    sync::atomic::Ordering,
    time::Duration,
};

use aws_lambda_events::{
    dynamodb::{Event, EventRecord},
    streams::DynamoDbEventResponse,
};
use dynoxide::actions::get_records::Record;
use functions::quarantine::Reason;
use futures_util::future::LocalBoxFuture;
use local_stack::event_source_mapping::passes_filter;
use process::now;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    engine::{Engine, TABLE},
    plan::{Mode, Part},
    world::World,
};
use crate::fixture::stores::event;

/// Shards of the stream. The functions read each on its own, so items of different shards come in
/// any order.
const SHARDS: usize = 2;

/// The most records that the engine returns at once.
const RECORDS_MAX: usize = 1_000;

/// The time of an invocation in which a function may start calls, as in the template.
const INVOCATION: Duration = Duration::from_secs(55);

/// The longest pauses between two looks at a stream. After a long one, a batch has several records
/// of a comment.
const POLLS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(2),
];

/// The longest time without a look at a stream in which nothing was written.
const IDLE: Duration = Duration::from_secs(20);

/// The time until which a function that stands still may stand still.
const STOP_MAX: Duration = Duration::from_secs(3_600);

/// The most records that the stream still has, although all functions have processed them.
const UNTRIMMED_MAX: usize = 20;

/// Together with a refusing page index less than the lag that archive pages bear.
pub(crate) const LAG_MAX: Duration = Duration::from_secs(8);

pub(crate) type Handler =
    Rc<dyn Fn(Event, Instant) -> LocalBoxFuture<'static, DynamoDbEventResponse>>;

/// The records of primary items, by shard.
#[derive(Default)]
pub(crate) struct Stream {
    shards: [RefCell<Vec<EventRecord>>; SHARDS],
    iterator: RefCell<Option<String>>,
    writes: Cell<u64>,
}

impl Stream {
    /// Where the newest records end.
    pub(crate) fn end(&self) -> [usize; SHARDS] {
        self.shards.each_ref().map(|shard| shard.borrow().len())
    }

    /// Reads what is new.
    pub(crate) fn poll(&self, engine: &Engine) {
        let writes = engine.writes.load(Ordering::Relaxed);
        if self.writes.replace(writes) == writes {
            return;
        }
        let ask = |operation: &str, body: Value| -> Value {
            let (status, answer) = engine.answer(operation, body.to_string().as_bytes());
            assert_eq!(status, 200, "{operation}");
            serde_json::from_slice(&answer).unwrap()
        };
        let mut iterator = self.iterator.borrow_mut();
        if iterator.is_none() {
            let streams = ask("ListStreams", json!({ "TableName": TABLE }));
            let arn = &streams["Streams"][0]["StreamArn"];
            let described = ask("DescribeStream", json!({ "StreamArn": arn }));
            let shard = &described["StreamDescription"]["Shards"][0]["ShardId"];
            let asked =
                json!({ "StreamArn": arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON" });
            *iterator = ask("GetShardIterator", asked)["ShardIterator"]
                .as_str()
                .map(ToOwned::to_owned);
        }
        loop {
            let request =
                serde_json::from_value(json!({ "ShardIterator": *iterator, "Limit": RECORDS_MAX }))
                    .unwrap();
            let read = engine.database.get_records(request).unwrap();
            *iterator = read.next_shard_iterator;
            let is_end = read.records.len() < RECORDS_MAX;
            // Most records are of duplicates. Of those only the keys become JSON.
            let passes = |record: &&Record| {
                passes_filter(&json!({ "dynamodb": { "Keys": record.dynamodb.keys } }))
            };
            for record in read.records.iter().filter(passes) {
                let mut record = serde_json::to_value(record).unwrap();
                record["dynamodb"]["ApproximateCreationDateTime"] = json!(now().epoch_ms() / 1_000);
                let key = record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap();
                let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
                let shard = usize::from(hash.is_multiple_of(2));
                self.shards[shard]
                    .borrow_mut()
                    .push(serde_json::from_value(record).unwrap());
            }
            if is_end {
                return;
            }
        }
    }
}

/// How far a function has come in each shard.
#[derive(Default)]
pub(crate) struct Position([Cell<usize>; SHARDS]);

impl Position {
    pub(crate) fn is_past(&self, end: [usize; SHARDS]) -> bool {
        self.0
            .iter()
            .zip(end)
            .all(|(position, end)| position.get() >= end)
    }

    /// All functions begin again where the stream does: what all of them have processed is trimmed,
    /// a while later.
    pub(crate) fn restart(positions: &[Self; 2], random: &mut StdRng) {
        for shard in 0..SHARDS {
            let processed = positions
                .iter()
                .map(|position| position.0[shard].get())
                .min()
                .unwrap();
            let first = processed - random.random_range(0..=processed.min(UNTRIMMED_MAX));
            positions
                .iter()
                .for_each(|position| position.0[shard].set(first));
        }
    }
}

/// Delivers to one function until it is dropped.
pub(crate) async fn deliver(
    world: &World,
    function: &'static str,
    stops: Part,
    position: &Position,
    handler: Handler,
) {
    let shards = (0..SHARDS)
        .map(|shard| deliver_shard(world, function, stops, &position.0[shard], shard, &handler));
    futures_util::future::join_all(shards).await;
}

async fn deliver_shard(
    world: &World,
    function: &'static str,
    stops: Part,
    position: &Cell<usize>,
    shard: usize,
    handler: &Handler,
) {
    let mut random = world.plan.random(&format!("{function} of shard {shard}"));
    loop {
        if position.get() >= world.stream.shards[shard].borrow().len() {
            tokio::time::timeout(
                IDLE.mul_f64(random.random()),
                world.engine.written.notified(),
            )
            .await
            .ok();
        }
        tokio::time::sleep(POLLS.choose(&mut random).unwrap().mul_f64(random.random())).await;
        world.stream.poll(&world.engine);
        if world.may_fail(stops) && random.random_ratio(1, 100) {
            // In Posts the page indexer's lag stays within the bound of ADR 57.
            let is_bounded = world.plan.mode == Mode::Posts && stops == Part::IndexerStops;
            let longest = if is_bounded { LAG_MAX } else { STOP_MAX };
            let stops_for = longest.mul_f64(random.random());
            world.trace.note(|| {
                format!(
                    "{function} stands still in shard {shard} for {} s",
                    stops_for.as_secs()
                )
            });
            world.while_not_calm(stops_for).await;
        }
        let (first, records) = next_batch(world, &mut random, position.get(), shard);
        if records.is_empty() {
            continue;
        }
        if world.may_fail(Part::RecordsLost) && random.random_ratio(1, 20) {
            world.trace.note(|| {
                format!(
                    "{function} never gets {} records of shard {shard} from {first} on",
                    records.len()
                )
            });
            if world.plan.has(Part::Quarantine) {
                give_up(world, function, &records).await;
            }
            position.set(position.get().max(first + records.len()));
            continue;
        }
        let numbers: Vec<Option<String>> = records
            .iter()
            .map(|record| record.change.sequence_number.clone())
            .collect();
        let invocation = handler(event(&records), Instant::now() + INVOCATION);
        let lives_for = match world.may_fail(Part::Crashes) && random.random_ratio(1, 8) {
            true => Duration::from_millis(random.random_range(0..60)),
            false => 2 * INVOCATION,
        };
        let failed_from = match tokio::time::timeout(lives_for, invocation).await {
            Ok(answer) => {
                let failed = answer
                    .batch_item_failures
                    .into_iter()
                    .map(|failure| failure.item_identifier);
                failed
                    .filter_map(|id| numbers.iter().position(|number| *number == id))
                    .min()
            }
            Err(_) => Some(0),
        };
        let (count, end) = (numbers.len(), first + failed_from.unwrap_or(numbers.len()));
        world.trace.note(|| {
            format!(
                "{function}: {count} records of shard {shard} from {first} on, done up to {end}"
            )
        });
        position.set(end);
    }
}

/// Puts a batch into quarantine, as a mapping does after its last try.
async fn give_up(world: &World, function: &str, records: &[EventRecord]) {
    let (function, condition, detail) = (
        function.to_owned(),
        "RetryAttemptsExhausted".to_owned(),
        "Unhandled".to_owned(),
    );
    let reason = Reason {
        function,
        condition,
        detail,
        invoke_count: 1,
    };
    world
        .quarantine()
        .put(&reason, &json!({ "Records": records }))
        .await
        .unwrap();
}

/// The position of the first of some records, and the records: those after a position. A redelivery
/// begins earlier.
fn next_batch(
    world: &World,
    random: &mut StdRng,
    from: usize,
    shard: usize,
) -> (usize, Vec<EventRecord>) {
    let records = world.stream.shards[shard].borrow();
    let again = world.may_fail(Part::Redelivery) && random.random_ratio(1, 6);
    let first = if again {
        from - random.random_range(0..=from.min(4))
    } else {
        from
    };
    let end = records.len().min(first + random.random_range(1..=12));
    (first, records.get(first..end).unwrap_or_default().to_vec())
}
