//! The state machine of big repairs, executed by an interpreter, with processes of the repair
//! function. Every segment is repaired. Failures are repeated, and audits whose time is up are
//! resumed. The sums are those of one run.

use std::path::PathBuf;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::time::Duration;

use model::{Comment, ProductId, plan::reconcile::DriftKind};
use repair_job::AuditOptions;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::fixture::{
    damage::{Damage, inflict_all},
    data,
    function::{Function, TIMEOUT, repair_job_variables, with},
    lambda,
    program::run_tool,
    python,
    runtime_api::Outcome,
    size::{Size, size},
    stores::Stores,
};
use crate::repair::{job, whole};

const _: crate::Engines =
    crate::Engines::Embedded("measures times, which ministack's say nothing about");

/// Number of segments, and how many are audited in parallel.
const SEGMENTS: u64 = 64;
const AT_ONCE: usize = 2;

/// How often one segment fails: so often that the first execution gives it up, and twice in the
/// second.
const ATTEMPTS: usize = 6;
const FAILURES: usize = ATTEMPTS + 2;

/// So little time that an invocation stops at once (`RESERVE` of the function), and the next one
/// resumes.
const SHORT: Duration = Duration::from_secs(12);

const NOWHERE: &str = "http://127.0.0.1:1";

fn comments() -> u64 {
    if size() == Size::Full { 100_000 } else { 400 }
}

struct Functions {
    works: Vec<Mutex<Function>>,
    /// A job that does not reach the table.
    fails: Mutex<Function>,
    failing: u64,
    invoked: AtomicUsize,
    /// The first invocation of the segment before the failing one has little time.
    has_been_short: AtomicBool,
}

impl Functions {
    async fn start(stores: &Stores, failing: u64) -> Self {
        // The lease that is deployed. The engine describes a table of 100,000 comments in over a
        // second, and answers nothing else meanwhile. A segment with the shorter lease of other
        // tests may lose it. It then begins anew, and counts its comments twice.
        let variables = with(
            repair_job_variables(stores),
            &[("PAGEMARK_REPAIR_LEASE", "60s")],
        );
        let broken = with(variables.clone(), &[("PAGEMARK_DYNAMODB_URL", NOWHERE)]);
        let mut works = Vec::new();
        for _ in 0..AT_ONCE {
            works.push(Mutex::new(
                Function::start("repair-job", variables.clone()).await,
            ));
        }
        let fails = Mutex::new(Function::start("repair-job", broken).await);
        Self {
            works,
            fails,
            failing,
            invoked: AtomicUsize::new(0),
            has_been_short: AtomicBool::new(false),
        }
    }

    /// Invokes a process. The invocations of one segment fail at first.
    async fn invoke(&self, event: Value) -> Outcome {
        let segment = event["segment"].as_u64().unwrap();
        let function = if self.fails_now(segment) {
            &self.fails
        } else {
            let number = usize::try_from(segment).unwrap() % self.works.len();
            &self.works[number]
        };
        let time = if self.is_short_now(segment) {
            SHORT
        } else {
            TIMEOUT * 10
        };
        let function = function.lock().await;
        function.invoke(event.to_string(), time).await
    }

    /// Whether this invocation of a segment fails. Counts those of the failing one.
    fn fails_now(&self, segment: u64) -> bool {
        segment == self.failing && self.invoked.fetch_add(1, Ordering::Relaxed) < FAILURES
    }

    /// Whether this invocation of a segment has little time: the first one of the segment that is
    /// resumed.
    fn is_short_now(&self, segment: u64) -> bool {
        segment == resumed(self.failing) && !self.has_been_short.swap(true, Ordering::Relaxed)
    }
}

fn resumed(failing: u64) -> u64 {
    (failing + SEGMENTS - 1) % SEGMENTS
}

/// What the interpreter has done.
struct Executed {
    executions: Vec<Value>,
    /// The seconds before each retry.
    waits: Vec<f64>,
}

/// Executes the state machine once with each input.
async fn execute(functions: Functions, inputs: &[Value]) -> Executed {
    let functions = Arc::new(functions);
    let endpoint = lambda::serve(move |event| {
        let functions = Arc::clone(&functions);
        async move { functions.invoke(event).await }
    });
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut python = python::command("python");
    python
        .arg(package.join("repair/big_repair/execute.py"))
        .arg(package.join("../infra/template.yaml"))
        .arg(endpoint.await);
    let inputs: Vec<String> = inputs.iter().map(Value::to_string).collect();
    let output = run_tool(python, &inputs.join("\n")).await;
    let done: Value = serde_json::from_str(&output).unwrap();
    let waits = done["waits"].as_array().unwrap().iter();
    Executed {
        executions: done["executions"].as_array().unwrap().clone(),
        waits: waits.map(|wait| wait.as_f64().unwrap()).collect(),
    }
}

async fn damaged_segment(stores: &Stores) -> u64 {
    for segment in 0..SEGMENTS {
        let options = AuditOptions {
            segments: u32::try_from(SEGMENTS).unwrap(),
            segment: Some(u32::try_from(segment).unwrap()),
            ..AuditOptions::default()
        };
        let report = job(stores, false).audit(options).await;
        if report.drifted.contains_key(&DriftKind::MissingDuplicate) {
            return segment;
        }
    }
    panic!("no segment is damaged");
}

/// The segments that an execution has given up.
fn unfinished(execution: &Value) -> Vec<&Value> {
    let segments = execution["report"].as_array().unwrap().iter();
    segments
        .filter(|segment| segment["done"] == false)
        .collect()
}

/// The sum of a figure over all segments and the scan of the page index.
fn sum(execution: &Value, figure: &str) -> u64 {
    let mut sum = 0;
    for audited in execution["report"].as_array().unwrap() {
        let of_segment = audited["sum"][figure].as_u64();
        sum += of_segment.unwrap_or_else(|| panic!("{audited}"));
    }
    sum
}

fn product(number: u64) -> ProductId {
    data::product(&format!("product/{}", number % 97))
}

/// Asserts that the failing segment is named, with the reason, and that the others are done.
fn assert_gives_up(first: &Value, failing: u64) {
    assert_eq!(
        (&first["status"], &first["error"]),
        (&json!("FAILED"), &json!("SegmentsLeft")),
        "{first}"
    );
    let [named] = unfinished(first)[..] else {
        panic!("{first}")
    };
    assert_eq!(named["segment"], failing);
    let cause = named["why"]["Cause"].as_str().unwrap();
    assert!(
        cause.contains("the table (DynamoDB) is unavailable"),
        "{named}"
    );
    assert_eq!(
        sum(first, "invocations"),
        SEGMENTS + 1,
        "one was resumed, and one never succeeded: {first}"
    );
}

/// Asserts that an execution has repeated its segments until all are done.
fn assert_succeeds(second: &Value) {
    assert_eq!(
        (&second["status"], unfinished(second).len()),
        (&json!("SUCCEEDED"), 0),
        "{second}"
    );
    assert_eq!(
        second["report"].as_array().unwrap().len() as u64,
        SEGMENTS + 1
    );
    assert_eq!(
        ["left", "unresolved"].map(|figure| sum(second, figure)),
        [0; 2],
        "{second}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Python packages"]
async fn a_big_repair_in_segments_does_and_reports_what_one_run_does() {
    let stores = Stores::start_ready_with_redis().await;
    stores.engine.index_segments(&stores.table);
    let created: Vec<Comment> = stores.create_all(0..comments(), product).await;
    let filled = job(&stores, true).recent().await;
    assert_eq!(
        filled.drifted[&DriftKind::MissingDuplicate],
        comments() * 31,
        "{filled}"
    );
    // Only one scan finds each of these, so that none is repaired, and counted, twice.
    let kinds = [
        Damage::DropDuplicates,
        Damage::AlterDuplicate,
        Damage::DropRanks,
        Damage::GhostRanks,
    ];
    let damages = created.iter().step_by(3).zip(kinds.into_iter().cycle());
    inflict_all(&stores, damages).await;
    let one_run = job(&stores, false).audit(whole()).await.json();

    let failing = damaged_segment(&stores).await;
    let functions = Functions::start(&stores, failing).await;
    let audit = json!({ "segments": SEGMENTS, "at_once": AT_ONCE });
    let Executed { executions, waits } = execute(functions, &[audit.clone(), audit]).await;
    let [first, second] = &executions[..] else {
        panic!("{executions:?}")
    };
    assert_gives_up(first, failing);
    assert_succeeds(second);
    assert_eq!(waits.len(), (ATTEMPTS - 1) + 2, "{waits:?}");
    assert!(
        waits.iter().all(|wait| (0.0..=405.0).contains(wait)),
        "{waits:?}"
    );

    let [of_first, of_second] = [first, second].map(|execution| sum(execution, "repaired"));
    let drifted = one_run["drifted"].as_object().unwrap().values();
    let drifted: u64 = drifted.filter_map(Value::as_u64).sum();
    assert_eq!(of_first + of_second, drifted, "{one_run} {first} {second}");
    assert!(
        of_first > 0 && of_second > 0,
        "segment {failing} has no damage: {second}"
    );
    let again = job(&stores, false).audit(whole()).await.json();
    assert_eq!(again["drifted"], json!({}), "{again}");
    assert_eq!(again["checked"], sum(second, "checked"), "{second}");
    match size() {
        // The other checks keep every item and the whole stream in memory: more than 18 GB here.
        Size::Full => stores.stop().await,
        Size::Usual | Size::Small => stores.finish().await,
    }
}
