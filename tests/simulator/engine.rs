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
            let (engine, random) = (engine.clone(), Arc::clone(&random));
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
        if let Some(description) = self
            .description
            .get()
            .filter(|_| operation == "DescribeTable")
        {
            return (200, description.clone());
        }
        let answered = answer(&self.database, operation, body);
        if operation == "DescribeTable" && answered.0 == 200 {
            self.description.set(answered.1.clone()).ok();
        }
        if is_write(operation) {
            self.writes.fetch_add(1, Ordering::Relaxed);
            self.written.notify_waiters();
        }
        answered
    }

    async fn call(
        &self,
        process: &str,
        operation: String,
        body: &[u8],
        random: &Mutex<StdRng>,
    ) -> io::Result<(u16, Vec<u8>)> {
        let (drawn, slow, fast, late, part) = {
            let mut random = random.lock().unwrap();
            let late = random.random_range(0..LATEST_MS);
            (
                random.random_range(0..100),
                random.random_range(0..30),
                random.random_range(1..20),
                late,
                random.random(),
            )
        };
        let has = |fault| self.plan.has(fault) && !self.is_calm.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(fast)).await;
        // The writes of a check are often late, so that changes and deliveries come in between.
        let of_check = operation == "TransactWriteItems" && process == "check";
        if slow == 0 && has(Part::SlowCalls) || slow < 15 && of_check {
            tokio::time::sleep(Duration::from_millis(part % 4_000)).await;
        }
        let happens = match drawn {
            _ if *self.cut_off.lock().unwrap() == process => Some(Part::TableAway),
            0..3 if has(Part::LostCalls) => Some(Part::LostCalls),
            3..6 if has(Part::LostAnswers) => Some(Part::LostAnswers),
            6..9 if has(Part::Throttled) => Some(Part::Throttled),
            9..18 if has(Part::Unprocessed) && operation.starts_with("Batch") => {
                Some(Part::Unprocessed)
            }
            18..20 if has(Part::LateWrites) && operation == "TransactWriteItems" => {
                Some(Part::LateWrites)
            }
            _ => None,
        };
        let answered = match happens {
            Some(Part::LostCalls | Part::TableAway) => {
                Err(io::Error::other("lost before the table"))
            }
            Some(Part::Throttled) => Ok(refused_for_now(part)),
            Some(Part::LostAnswers) => {
                self.answer(&operation, body);
                Err(io::Error::other("the answer was lost"))
            }
            Some(Part::LateWrites) => {
                let (engine, operation, body) = (self.clone(), operation.clone(), body.to_vec());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(late)).await;
                    let (status, _) = engine.answer(&operation, &body);
                    engine
                        .trace
                        .note(|| format!("a late {operation} is done: {status}"));
                });
                std::future::pending().await
            }
            Some(Part::Unprocessed) => Ok(self.in_part(&operation, body, part)),
            _ => Ok(self.answer(&operation, body)),
        };
        self.trace.note(|| {
            let status = answered
                .as_ref()
                .map_or_else(ToString::to_string, |(status, _)| status.to_string());
            let fault = happens
                .map(|fault| format!(" ({fault})"))
                .unwrap_or_default();
            format!("{process}: {operation}{fault} {status}")
        });
        answered
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
        let rest = all.split_off(usize::try_from(drawn).unwrap_or_default() % all.len());
        let mut left = request.clone();
        *left.pointer_mut(&path).unwrap() = Value::Array(rest);
        let nothing = request
            .pointer(&path)
            .is_some_and(|all| all.as_array().is_some_and(Vec::is_empty));
        let (status, answer) = match nothing {
            true => (200, b"{}".to_vec()),
            false => self.answer(operation, request.to_string().as_bytes()),
        };
        if status != 200 {
            return (status, answer);
        }
        let mut answer: Value = serde_json::from_slice(&answer).unwrap();
        answer[unprocessed] = left["RequestItems"].take();
        (200, answer.to_string().into_bytes())
    }
}

fn is_write(operation: &str) -> bool {
    ![
        "Get",
        "Query",
        "Scan",
        "Describe",
        "BatchGet",
        "TransactGet",
    ]
    .iter()
    .any(|read| operation.starts_with(read))
}

/// The service throttles, or fails itself.
fn refused_for_now(drawn: u64) -> (u16, Vec<u8>) {
    let (status, kind) = match drawn % 2 {
        0 => (400, "ProvisionedThroughputExceededException"),
        _ => (500, "InternalServerError"),
    };
    let error = json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{kind}"), "message": "on purpose" });
    (status, error.to_string().into_bytes())
}
