//! The state machine of big repairs, executed by an interpreter, with processes of the repair function. Every part is
//! repaired. Failures are repeated. The joined report says what one run says.

use std::path::PathBuf;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use model::{Comment, plan::reconcile::DriftKind};
use process::now;
use repair_job::{AuditOptions, Which};
use serde::Deserialize;
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

/// Number of parts, and how many are repaired in parallel.
const PARTS: u64 = 64;
const AT_ONCE: usize = 2;

/// How often one part fails: so often that the first execution gives it up, and twice in the second.
const ATTEMPTS: usize = 5;
const FAILURES: usize = ATTEMPTS + 2;

const NOWHERE: &str = "http://127.0.0.1:1";

fn comments() -> u64 {
    if size() == Size::Full { 100_000 } else { 400 }
}

struct Functions {
    works: Vec<Mutex<Function>>,
    /// One that does not reach the table.
    fails: Mutex<Function>,
    failing: u64,
    invoked: AtomicUsize,
}

impl Functions {
    async fn start(stores: &Stores, failing: u64) -> Self {
        // The lease that is deployed. The engine describes a table of 100,000 comments in over a second, and answers
        // nothing else meanwhile. A part with the shorter lease of other tests may lose it. It then begins anew, and
        // counts its comments twice.
        let variables = with(repair_job_variables(stores), &[("PAGEMARK_REPAIR_LEASE", "60s")]);
        let broken = with(variables.clone(), &[("PAGEMARK_DYNAMODB_URL", NOWHERE)]);
        let mut works = Vec::new();
        for _ in 0..AT_ONCE {
            works.push(Mutex::new(Function::start("repair-job", variables.clone()).await));
        }
        let fails = Mutex::new(Function::start("repair-job", broken).await);
        Self { works, fails, failing, invoked: AtomicUsize::new(0) }
    }

    /// Invokes a process. The invocations of one part fail at first.
    async fn invoke(&self, event: Value) -> Outcome {
        let part = event["part"].as_u64();
        let fails = part == Some(self.failing) && self.invoked.fetch_add(1, Ordering::Relaxed) < FAILURES;
        let place = usize::try_from(part.unwrap_or(0)).unwrap() % self.works.len();
        let function = if fails { &self.fails } else { &self.works[place] };
        function.lock().await.invoke(event.to_string(), TIMEOUT * 10).await
    }
}

/// Executes the state machine once with each input. Returns the executions and the waits before retries.
async fn execute(functions: &Arc<Functions>, inputs: &[Value]) -> (Vec<Value>, Vec<f64>) {
    let functions = Arc::clone(functions);
    let endpoint = lambda::serve(move |event| {
        let functions = Arc::clone(&functions);
        async move { functions.invoke(event).await }
    });
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut python = python::command("python");
    python.arg(package.join("big_repair/execute.py")).arg(package.join("../infra/template.yaml")).arg(endpoint.await);
    let inputs: Vec<String> = inputs.iter().map(Value::to_string).collect();
    let done: Value = serde_json::from_str(&run_tool(python, &inputs.join("\n")).await).unwrap();
    let waits = done["waits"].as_array().unwrap().iter().map(|wait| wait.as_f64().unwrap()).collect();
    (done["executions"].as_array().unwrap().clone(), waits)
}

async fn damaged_part(stores: &Stores) -> u64 {
    for part in 0..PARTS {
        let (segments, which) = (u32::try_from(PARTS).unwrap(), Which::One(u32::try_from(part).unwrap()));
        let options = AuditOptions { segments, which, index_scan: false, ..AuditOptions::default() };
        if job(stores, false).audit(options).await.drifted.contains_key(&DriftKind::MissingDuplicate) {
            return part;
        }
    }
    panic!("no part is damaged");
}

fn drifted(report: &Value) -> Vec<(String, u64)> {
    let counts = report["drifted"].as_object().unwrap_or_else(|| panic!("{report}"));
    counts.iter().map(|(kind, count)| (kind.clone(), count.as_u64().unwrap())).collect()
}

fn sum(of: &[Vec<(String, u64)>]) -> Vec<(String, u64)> {
    let mut sum = std::collections::BTreeMap::new();
    of.iter().flatten().for_each(|(kind, count)| *sum.entry(kind.clone()).or_default() += count);
    sum.into_iter().collect()
}

#[derive(Debug, Deserialize)]
struct Part {
    expires_at: i64,
    report: Value,
}

async fn parts_of(stores: &Stores, execution: &Value) -> Vec<(String, Part)> {
    let run = execution["report"]["of"]["run"].as_str().unwrap();
    stores.table.states(&format!("big_repair#{run}")).await.unwrap()
}

/// The number of comments that each part of an execution has checked.
async fn checked_by_part(stores: &Stores, execution: &Value) -> Vec<(String, Value)> {
    let parts = parts_of(stores, execution).await;
    parts.into_iter().map(|(name, part)| (name, part.report["checked"].clone())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_big_repair_in_parts_does_and_reports_what_one_run_does() {
    let stores = Stores::start_ready_with_redis().await;
    stores.engine.index_segments(&stores.table);
    let product = |number| data::product(&format!("product/{}", number % 97));
    let created: Vec<Comment> = stores.create_all(0..comments(), product).await;
    let filled = job(&stores, true).recent().await;
    assert_eq!(filled.drifted[&DriftKind::MissingDuplicate], comments() * 31, "{filled}");
    let kinds = [Damage::DropDuplicates, Damage::AlterDuplicate, Damage::DropRanks, Damage::GhostRanks];
    let damages = created.iter().step_by(3).zip(kinds.into_iter().cycle());
    inflict_all(&stores, damages).await;
    let one_run = job(&stores, false).audit(whole()).await.json();

    let failing = damaged_part(&stores).await;
    let functions = Arc::new(Functions::start(&stores, failing).await);
    let audit = json!({ "parts": PARTS, "at_once": AT_ONCE });
    let (executions, waits) = execute(&functions, &[audit.clone(), audit]).await;
    let [first, second] = &executions[..] else { panic!("{executions:?}") };

    // The part that always failed is named, and the report covers the others.
    assert_eq!((&first["status"], &first["error"]), (&json!("FAILED"), &json!("PartsLeft")), "{first}");
    assert_eq!((&first["report"]["complete"], &first["report"]["parts_left"]), (&json!(false), &json!([failing])));
    assert_eq!(waits.len(), (ATTEMPTS - 1) + 2, "{waits:?}");
    assert!(waits.iter().all(|wait| (0.0..=405.0).contains(wait)), "{waits:?}");

    // The second repeats until it is done.
    assert_eq!((&second["status"], &second["report"]["complete"]), (&json!("SUCCEEDED"), &json!(true)), "{second}");
    let by_part = checked_by_part(&stores, second).await;
    let [first, second] = [first, second].map(|execution| &execution["report"]["report"]);
    assert_eq!(sum(&[drifted(first), drifted(second)]), drifted(&one_run), "{first} {second}");
    assert!(!drifted(first).is_empty() && !drifted(second).is_empty(), "part {failing} has no damage: {second}");
    assert_eq!(
        (&second["left"], &second["unresolved_count"], &second["skipped_count"]),
        (&json!(0), &json!(0), &json!(0))
    );
    for execution in &executions {
        let parts = parts_of(&stores, execution).await;
        // The parts that were audited, and the scan of the page index.
        assert!(u64::try_from(parts.len()).unwrap() >= PARTS, "{parts:?}");
        for (name, part) in parts {
            let days = (part.expires_at - now().epoch_seconds()) / (24 * 3600);
            assert!((28..=30).contains(&days), "{name}: {days}");
        }
    }
    let again = job(&stores, false).audit(whole()).await.json();
    for figure in ["checked", "members"] {
        assert_eq!(second[figure], again[figure], "{figure}, comments checked by part: {by_part:?}");
    }
    assert_eq!(drifted(&again), Vec::new());
    match size() {
        // The other checks keep every item and the whole stream in memory: more than 18 GB here.
        Size::Full => stores.stop().await,
        Size::Usual | Size::Small => stores.finish().await,
    }
}
