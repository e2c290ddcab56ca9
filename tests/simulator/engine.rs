//! The table: the real engine in memory, behind calls that are lost, late, refused or done in part.

use std::{
    io,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::{
    Client,
    config::retry::{RetryPartition, TokenBucket},
};
use dynoxide::Database;
use local_stack::engine::{STREAM_INDEXES, client::http_client, operations::answer};
use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};
use table::Table;
use tokio::sync::Notify;

use super::{
    plan::{Part, Plan},
    trace::Trace,
};

pub(crate) const TABLE: &str = "comments";

/// A write may still be done so long after its client has given up. With the time in which it may
/// start, that is less than the 30 s of a commit (ADR 57).
const LATEST_MS: u64 = 6_000;

/// What one call draws.
struct Chance {
    late_ms: u64,
    /// Decides which fault happens.
    number: u32,
    /// Decides whether the call is slow.
    slow: u32,
    fast_ms: u64,
    /// Decides the details of a fault.
    rest: u64,
}

impl Chance {
    /// The order of the fields is that of the draws, which a seed repeats.
    fn draw(random: &mut StdRng) -> Self {
        Self {
            late_ms: random.random_range(0..LATEST_MS),
            number: random.random_range(0..100),
            slow: random.random_range(0..30),
            fast_ms: random.random_range(1..20),
            rest: random.random(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Engine {
    pub(crate) database: Database,
    plan: Arc<Plan>,
    trace: Trace,
    /// No call fails any more, and the news of that.
    pub(crate) is_calm: Arc<AtomicBool>,
    pub(crate) calmed: Arc<Notify>,
    /// The process that cannot reach the table.
    pub(crate) cut_off: Arc<Mutex<&'static str>>,
    /// Number of writes, and the news of each: readers of the stream wait for them.
    pub(crate) writes: Arc<AtomicU64>,
    pub(crate) written: Arc<Notify>,
    /// The description of the table. The service also counts items only now and then, and the
    /// engine would take long.
    description: Arc<OnceLock<Vec<u8>>>,
}

impl Engine {
    pub(crate) fn new(plan: Arc<Plan>, trace: Trace) -> Self {
        static DATABASES: AtomicU64 = AtomicU64::new(0);
        let name = DATABASES.fetch_add(1, Ordering::Relaxed);
        let path = format!("file:simulated{name}?mode=memory&cache=shared");
        let database = Database::new(&path).unwrap();
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(STREAM_INDEXES)
            .unwrap();
        Self {
            database,
            plan,
            trace,
            is_calm: Arc::default(),
            calmed: Arc::default(),
            cut_off: Arc::default(),
            writes: Arc::default(),
            written: Arc::default(),
            description: Arc::default(),
        }
    }

    /// A client of the table, as one process has it.
    pub(crate) fn table(&self, base: &Client, process: &'static str, faults: bool) -> Table {
        let engine = self.clone();
        let random = Arc::new(Mutex::new(self.plan.random(process)));
        let http = http_client(move |operation, body| {
            let engine = engine.clone();
            let random = Arc::clone(&random);
            async move {
                if faults {
                    engine.call(process, operation, &body, &random).await
                } else {
                    Ok(engine.answer(&operation, &body))
                }
            }
        });
        // The SDK shares the budget of retries in the process, unless a client has its own.
        let partition = RetryPartition::custom(process)
            .token_bucket(TokenBucket::default())
            .build();
        let config = base
            .config()
            .to_builder()
            .http_client(http)
            .retry_partition(partition)
            .build();
        Table::new(Client::from_conf(config), TABLE)
    }

    /// The answer of an operation, at once.
    pub(crate) fn answer(&self, operation: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let is_description = operation == "DescribeTable";
        if is_description && let Some(description) = self.description.get() {
            return (200, description.clone());
        }
        let (status, answer) = answer(&self.database, operation, body);
        if is_description && status == 200 {
            self.description.set(answer.clone()).ok();
        }
        if is_write(operation) {
            self.writes.fetch_add(1, Ordering::Relaxed);
            self.written.notify_waiters();
        }
        (status, answer)
    }

    async fn call(
        &self,
        process: &str,
        operation: String,
        body: &[u8],
        random: &Mutex<StdRng>,
    ) -> io::Result<(u16, Vec<u8>)> {
        let chance = Chance::draw(&mut random.lock().unwrap());
        tokio::time::sleep(Duration::from_millis(chance.fast_ms)).await;
        let is_slow = chance.slow == 0 && self.may_fail(Part::SlowCalls);
        // The writes of a check are often late, so that changes and deliveries come in between.
        let is_of_check = operation == "TransactWriteItems" && process == "check";
        let is_late_check = chance.slow < 15 && is_of_check;
        if is_slow || is_late_check {
            tokio::time::sleep(Duration::from_millis(chance.rest % 4_000)).await;
        }
        let fault = self.fault(process, &operation, chance.number);
        let answered = match fault {
            Some(Part::LostCalls | Part::TableAway) => {
                Err(io::Error::other("lost before the table"))
            }
            Some(Part::Throttled) => Ok(refused_for_now(chance.rest)),
            Some(Part::LostAnswers) => {
                self.answer(&operation, body);
                Err(io::Error::other("the answer was lost"))
            }
            Some(Part::LateWrites) => {
                let late = Duration::from_millis(chance.late_ms);
                tokio::spawn(
                    self.clone()
                        .answer_later(late, operation.clone(), body.to_vec()),
                );
                std::future::pending().await
            }
            Some(Part::Unprocessed) => Ok(self.in_part(&operation, body, chance.rest)),
            _ => Ok(self.answer(&operation, body)),
        };
        self.trace.note(|| {
            let status = match &answered {
                Ok((status, _)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            let fault = match fault {
                Some(fault) => format!(" ({fault})"),
                None => String::new(),
            };
            format!("{process}: {operation}{fault} {status}")
        });
        answered
    }

    fn may_fail(&self, fault: Part) -> bool {
        self.plan.has(fault) && !self.is_calm.load(Ordering::Relaxed)
    }

    /// What happens to a call. Each fault has some of the numbers below 100.
    fn fault(&self, process: &str, operation: &str, number: u32) -> Option<Part> {
        if *self.cut_off.lock().unwrap() == process {
            return Some(Part::TableAway);
        }
        let fault = match number {
            0..3 => Part::LostCalls,
            3..6 => Part::LostAnswers,
            6..9 => Part::Throttled,
            9..18 if operation.starts_with("Batch") => Part::Unprocessed,
            18..20 if operation == "TransactWriteItems" => Part::LateWrites,
            _ => return None,
        };
        if self.may_fail(fault) {
            Some(fault)
        } else {
            None
        }
    }

    async fn answer_later(self, late: Duration, operation: String, body: Vec<u8>) {
        tokio::time::sleep(late).await;
        let (status, _) = self.answer(&operation, &body);
        self.trace
            .note(|| format!("a late {operation} is done: {status}"));
    }

    /// Does some of a batch, and names the rest as unprocessed.
    fn in_part(&self, operation: &str, body: &[u8], drawn: u64) -> (u16, Vec<u8>) {
        let mut request: Value = serde_json::from_slice(body).unwrap();
        let (path, unprocessed) = match operation {
            "BatchWriteItem" => (format!("/RequestItems/{TABLE}"), "UnprocessedItems"),
            "BatchGetItem" => (format!("/RequestItems/{TABLE}/Keys"), "UnprocessedKeys"),
            _ => return self.answer(operation, body),
        };
        let Some(all) = request.pointer_mut(&path).and_then(Value::as_array_mut) else {
            return self.answer(operation, body);
        };
        let done = usize::try_from(drawn).unwrap_or_default() % all.len();
        let rest = all.split_off(done);
        let mut request_of_rest = request.clone();
        *request_of_rest.pointer_mut(&path).unwrap() = Value::Array(rest);
        let (status, answer) = if done == 0 {
            (200, b"{}".to_vec())
        } else {
            self.answer(operation, request.to_string().as_bytes())
        };
        if status != 200 {
            return (status, answer);
        }
        let mut answer: Value = serde_json::from_slice(&answer).unwrap();
        answer[unprocessed] = request_of_rest["RequestItems"].take();
        (200, answer.to_string().into_bytes())
    }
}

fn is_write(operation: &str) -> bool {
    const READS: [&str; 6] = [
        "Get",
        "Query",
        "Scan",
        "Describe",
        "BatchGet",
        "TransactGet",
    ];
    !READS.iter().any(|read| operation.starts_with(read))
}

/// The service throttles, or fails itself.
fn refused_for_now(drawn: u64) -> (u16, Vec<u8>) {
    let (status, kind) = if drawn.is_multiple_of(2) {
        (400, "ProvisionedThroughputExceededException")
    } else {
        (500, "InternalServerError")
    };
    let error = json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{kind}"), "message": "on purpose" });
    (status, error.to_string().into_bytes())
}
