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
        let mut iterator = self.iterator.borrow_mut();
        if iterator.is_none() {
            *iterator = Some(first_iterator(engine));
        }
        loop {
            let request = json!({ "ShardIterator": *iterator, "Limit": RECORDS_MAX });
            let request = serde_json::from_value(request).unwrap();
            let read = engine.database.get_records(request).unwrap();
            *iterator = read.next_shard_iterator;
            for record in &read.records {
                // Most records are of duplicates. Of those only the keys become JSON.
                let keys = json!({ "dynamodb": { "Keys": record.dynamodb.keys } });
                if passes_filter(&keys) {
                    self.push(record);
                }
            }
            if read.records.len() < RECORDS_MAX {
                return;
            }
        }
    }

    /// Appends a record to the shard of its item, as if it was written now.
    fn push(&self, record: &Record) {
        let mut record = serde_json::to_value(record).unwrap();
        record["dynamodb"]["ApproximateCreationDateTime"] = json!(now().epoch_ms() / 1_000);
        let key = record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap();
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let shard = usize::from(hash.is_multiple_of(2));
        let record = serde_json::from_value(record).unwrap();
        self.shards[shard].borrow_mut().push(record);
    }
}

/// The iterator of the oldest record of the engine's only shard.
fn first_iterator(engine: &Engine) -> String {
    let streams = ask(engine, "ListStreams", &json!({ "TableName": TABLE }));
    let arn = &streams["Streams"][0]["StreamArn"];
    let described = ask(engine, "DescribeStream", &json!({ "StreamArn": arn }));
    let shard = &described["StreamDescription"]["Shards"][0]["ShardId"];
    let of_oldest = json!({
        "StreamArn": arn,
        "ShardId": shard,
        "ShardIteratorType": "TRIM_HORIZON",
    });
    let answer = ask(engine, "GetShardIterator", &of_oldest);
    answer["ShardIterator"].as_str().unwrap().to_owned()
}

fn ask(engine: &Engine, operation: &str, body: &Value) -> Value {
    let (status, answer) = engine.answer(operation, body.to_string().as_bytes());
    assert_eq!(status, 200, "{operation}");
    serde_json::from_slice(&answer).unwrap()
}

/// How far a function has come in each shard.
#[derive(Default)]
pub(crate) struct Position([Cell<usize>; SHARDS]);

impl Position {
    pub(crate) fn is_past(&self, end: [usize; SHARDS]) -> bool {
        let mut shards = self.0.iter().zip(end);
        shards.all(|(position, end)| position.get() >= end)
    }

    /// All functions begin again where the stream does: what all of them have processed is trimmed,
    /// a while later.
    pub(crate) fn restart(positions: &[Self; 2], random: &mut StdRng) {
        for shard in 0..SHARDS {
            let of_functions = positions.each_ref().map(|position| &position.0[shard]);
            let processed = of_functions.map(Cell::get).into_iter().min().unwrap();
            let first = processed - random.random_range(0..=processed.min(UNTRIMMED_MAX));
            for position in of_functions {
                position.set(first);
            }
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
    let mut shards = Vec::new();
    for number in 0..SHARDS {
        let shard = Shard {
            world,
            function,
            stops,
            number,
            position: &position.0[number],
        };
        shards.push(shard.deliver(&handler));
    }
    futures_util::future::join_all(shards).await;
}

/// One shard of the stream, as one function reads it.
struct Shard<'world> {
    world: &'world World,
    function: &'static str,
    /// The fault by which the function stands still.
    stops: Part,
    number: usize,
    position: &'world Cell<usize>,
}

impl Shard<'_> {
    async fn deliver(self, handler: &Handler) {
        let Self {
            world,
            function,
            number,
            position,
            ..
        } = self;
        let mut random = world.plan.random(&format!("{function} of shard {number}"));
        loop {
            if position.get() >= world.stream.shards[number].borrow().len() {
                let idle = IDLE.mul_f64(random.random());
                let written = world.engine.written.notified();
                tokio::time::timeout(idle, written).await.ok();
            }
            let longest_poll = POLLS.choose(&mut random).unwrap();
            tokio::time::sleep(longest_poll.mul_f64(random.random())).await;
            world.stream.poll(&world.engine);
            if world.may_fail(self.stops) && random.random_ratio(1, 100) {
                self.stand_still(&mut random).await;
            }
            let batch = next_batch(world, &mut random, position.get(), number);
            if batch.records.is_empty() {
                continue;
            }
            if world.may_fail(Part::RecordsLost) && random.random_ratio(1, 20) {
                self.lose(&batch).await;
                position.set(position.get().max(batch.first + batch.records.len()));
                continue;
            }
            let end = self.invoke(handler, &batch, &mut random).await;
            position.set(end);
        }
    }

    async fn stand_still(&self, random: &mut StdRng) {
        let world = self.world;
        // In Posts the page indexer's lag stays within the bound of ADR 57.
        let is_bounded = world.plan.mode == Mode::Posts && self.stops == Part::IndexerStops;
        let longest = if is_bounded { LAG_MAX } else { STOP_MAX };
        let stops_for = longest.mul_f64(random.random());
        world.trace.note(|| {
            format!(
                "{} stands still in shard {} for {} s",
                self.function,
                self.number,
                stops_for.as_secs()
            )
        });
        world.while_not_calm(stops_for).await;
    }

    async fn lose(&self, batch: &Batch) {
        self.world.trace.note(|| {
            format!(
                "{} never gets {} records of shard {} from {} on",
                self.function,
                batch.records.len(),
                self.number,
                batch.first
            )
        });
        if self.world.plan.has(Part::Quarantine) {
            give_up(self.world, self.function, &batch.records).await;
        }
    }

    /// Invokes the function with a batch. Returns the position from which it continues.
    async fn invoke(&self, handler: &Handler, batch: &Batch, random: &mut StdRng) -> usize {
        let world = self.world;
        let count = batch.records.len();
        let invocation = handler(event(&batch.records), Instant::now() + INVOCATION);
        let dies = world.may_fail(Part::Crashes) && random.random_ratio(1, 8);
        let lives_for = if dies {
            Duration::from_millis(random.random_range(0..60))
        } else {
            2 * INVOCATION
        };
        let done = match tokio::time::timeout(lives_for, invocation).await {
            Ok(answer) => batch.done(&answer),
            Err(_) => 0,
        };
        let end = batch.first + done;
        world.trace.note(|| {
            format!(
                "{}: {count} records of shard {} from {} on, done up to {end}",
                self.function, self.number, batch.first
            )
        });
        end
    }
}

/// Records that a function gets together.
struct Batch {
    /// The position of the first record in its shard.
    first: usize,
    records: Vec<EventRecord>,
}

impl Batch {
    /// How many records are done after this answer: those before the first that it reports.
    fn done(&self, answer: &DynamoDbEventResponse) -> usize {
        let mut done = self.records.len();
        for failure in &answer.batch_item_failures {
            let failed = self
                .records
                .iter()
                .position(|record| record.change.sequence_number == failure.item_identifier);
            if let Some(failed) = failed {
                done = done.min(failed);
            }
        }
        done
    }
}

/// Puts a batch into quarantine, as a mapping does after its last try.
async fn give_up(world: &World, function: &str, records: &[EventRecord]) {
    let reason = Reason {
        function: function.to_owned(),
        condition: "RetryAttemptsExhausted".to_owned(),
        detail: "Unhandled".to_owned(),
        invoke_count: 1,
    };
    let event = json!({ "Records": records });
    world.quarantine().put(&reason, &event).await.unwrap();
}

/// Records after a position. A redelivery begins earlier.
fn next_batch(world: &World, random: &mut StdRng, from: usize, shard: usize) -> Batch {
    let records = world.stream.shards[shard].borrow();
    let is_redelivery = world.may_fail(Part::Redelivery) && random.random_ratio(1, 6);
    let first = if is_redelivery {
        from - random.random_range(0..=from.min(4))
    } else {
        from
    };
    let end = records.len().min(first + random.random_range(1..=12));
    let records = records.get(first..end).unwrap_or_default().to_vec();
    Batch { first, records }
}
