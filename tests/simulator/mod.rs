//! The whole system in one thread, with its time and its chance drawn from a seed, under faults.
//!
//! Real are the API, both functions, the repair job, and the engine. The page index in the process
//! stands in for Redis, and `mappings` for the event source mappings. A seed gives a [`Plan`]: a
//! mode, actors, and faults. Two runs of a plan do the same, byte for byte.
//!
//! - `plan`: what a seed does. `trace`: what happened. `world`: stores, processes and clocks of one
//!   simulation.
//! - `engine`, `index`, `mappings`: the three boundaries, where calls fail.
//! - `writers`, `readers`, `operators`, `kill`: the actors. `model`: what the writers know.
//! - `checks`: what holds when everything is quiet. `kept`: schedules that have found a bug.
//!
//! A new actor is an async function of the [`World`], a [`Part`] for its name, and a line in
//! [`act`].

pub(crate) mod checks;
mod engine;
mod index;
mod kept;
mod kill;
mod mappings;
pub(crate) mod model;
mod operators;
mod plan;
pub(crate) mod readers;
mod trace;
pub(crate) mod world;
pub(crate) mod writers;

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::sink,
    ops::Range,
    rc::Rc,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use futures_util::{FutureExt, future::LocalBoxFuture};
use itertools::Itertools;
use strum::IntoEnumIterator;
use tokio::{sync::Notify, task::LocalSet};
use tracing::subscriber::NoSubscriber;

use ::model::{
    Invariant,
    plan::reconcile::DriftKind,
    planted::{Bug, plant},
};
use kept::{KEPT, as_kept};
use plan::{Part, Plan};
use world::{Judged, Violation, World, base_client, until_calm};

const _: crate::Engines = crate::Engines::Embedded("its engine is inside the simulation");

/// More simulated time than the writers of any schedule take.
const WRITING_MAX: Duration = Duration::from_secs(4 * 3_600);

/// When everything is calm, until calls under way have ended, also those of writers that have given
/// up.
const CALLS_END: Duration = Duration::from_secs(60);

/// Longer than any delay in the system. The longest is how long readers believe a page index
/// without a new confirmation.
const DELAYS_END: Duration = Duration::from_secs(1_000);

const MINUTE: Duration = Duration::from_secs(60);

/// The most schedules that a planted bug may survive.
const BUG_LIVES_MAX: u64 = 2_000;

/// Bugs that only tests on real servers or the model of the markers find in a reasonable time
/// (`docs/guarantees.md`).
const FOUND_ELSEWHERE: [Bug; 5] = [
    Bug::ConfirmedTooEarly,
    Bug::DeletedWithoutJournal,
    Bug::MarkedBeforeJournal,
    Bug::MarkedRestored,
    // The index in the process stores no counts that could be wrong.
    Bug::WrongCountsStay,
];

/// With how many seeds a kept schedule is tried.
const KEPT_SEEDS_MAX: u64 = 50;

/// How long deliveries may take in a calm world.
const DELIVERED: Duration = Duration::from_secs(600);

thread_local! {
    static BASE: OnceCell<Client> = const { OnceCell::new() };
}

type Actor<'world> = LocalBoxFuture<'world, ()>;

struct Outcome {
    violation: Option<Violation>,
    repaired: BTreeSet<DriftKind>,
    trace: Vec<String>,
}

/// Runs a schedule.
fn run(plan: &Plan) -> Outcome {
    // The SDK draws the number of a call's span and the delay of a retry from one generator. It draws
    // the number only where something may log it, so nothing may here, whatever other tests log.
    let _silence = tracing::subscriber::set_default(NoSubscriber::new());
    plant(plan.bug);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let outcome = LocalSet::new().block_on(&runtime, async {
        let base = base_of_this_thread().await;
        let world = World::new(plan, &base).await;
        simulate(&world).await;
        let violation = world.violation.take();
        Outcome {
            violation,
            repaired: world.repaired.take(),
            trace: world.trace.lines(),
        }
    });
    process::simulation::end();
    plant(None);
    outcome
}

async fn base_of_this_thread() -> Client {
    if let Some(base) = BASE.with(|base| base.get().cloned()) {
        return base;
    }
    let base = base_client().await;
    BASE.with(|known| known.set(base.clone()).ok());
    base
}

/// Runs the functions until the schedule has ended.
async fn simulate(world: &Rc<World>) {
    let is_over = Notify::new();
    let schedule = async {
        run_schedule(world).await;
        is_over.notify_one();
    };
    tokio::join!(run_functions(world, &is_over), schedule);
}

/// Delivers to both functions. After a kill both begin again.
async fn run_functions(world: &World, is_over: &Notify) {
    let [writer_at, indexer_at] = &world.positions;
    loop {
        tokio::select! {
            biased;
            () = is_over.notified() => return,
            () = world.killed.notified() => {}
            () = mappings::deliver(world, stream_writer::FUNCTION, Part::WriterStops, writer_at, world.writer()) => {}
            () = mappings::deliver(world, page_indexer::FUNCTION, Part::IndexerStops, indexer_at, world.indexer()) => {}
        }
    }
}

/// First everything happens at once. When the writers have finished, the world is calm: what was
/// written is delivered, repaired and checked.
async fn run_schedule(world: &Rc<World>) {
    let readers_and_operators = futures_util::future::join_all(act(world));
    tokio::join!(readers_and_operators, write_until_calm(world));
    world.trace.note(|| "no fault happens any more".to_owned());
    tokio::time::sleep(CALLS_END).await;

    let delivered = tokio::time::timeout(DELIVERED, all_delivered(world)).await;
    if delivered.is_err() {
        world.violated(
            Invariant::WorkEnds,
            "the functions do not get on in a calm world".to_owned(),
        );
    }
    operators::work_off_quarantine(world).await;
    checks::before_repair(world).await;
    tokio::time::sleep(DELAYS_END).await;

    let problem = tokio::select! {
        biased;
        problem = operators::repair_once(world) => problem,
        () = checks::read_meanwhile(world) => unreachable!("it reads for ever"),
    };
    if let Some(problem) = problem {
        world.violated(Invariant::WorkEnds, problem);
    }
    checks::at_rest(world).await;
}

/// Runs the writers. From then on no fault happens.
async fn write_until_calm(world: &World) {
    tokio::time::timeout(WRITING_MAX, write(world)).await.ok();
    world.engine.is_calm.store(true, Ordering::Relaxed);
    world.engine.calmed.notify_waiters();
    *world.engine.cut_off.lock().unwrap() = "";
    world.servers.refuse(false);
}

/// Waits until both functions have processed everything.
async fn all_delivered(world: &World) {
    loop {
        world.stream.poll(&world.engine);
        let end = world.stream.end();
        if world.positions.iter().all(|position| position.is_past(end)) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn write(world: &World) {
    let mut writers: Vec<Actor<'_>> = Vec::new();
    if world.plan.has(Part::Customers) {
        writers.push(writers::customers(world).boxed_local());
    }
    if world.plan.has(Part::Editors) {
        writers.push(writers::editors(world, "an editor").boxed_local());
        writers.push(writers::editors(world, "another editor").boxed_local());
    }
    if world.plan.has(Part::Importer) {
        writers.push(writers::importer(world).boxed_local());
    }
    futures_util::future::join_all(writers).await;
}

/// All actors but the writers. Readers stop in a calm world. Repairs and starts come to their end,
/// because half a repair may leave a wrong rank behind, which only `recent` repairs.
fn act(world: &World) -> Vec<Actor<'_>> {
    let mut actors = repairs(world);
    for actor in until_calm_only(world) {
        actors.push(until_calm(world, actor).boxed_local());
    }
    actors
}

/// Actors that come to their end in a calm world.
fn repairs(world: &World) -> Vec<Actor<'_>> {
    let mut actors: Vec<Actor<'_>> = Vec::new();
    if world.plan.has(Part::Recent) {
        actors.push(operators::job(world, Part::Recent, 2 * MINUTE).boxed_local());
    }
    if world.plan.has(Part::Check) {
        actors.push(operators::checks(world).boxed_local());
    }
    if world.plan.has(Part::Audit) {
        actors.push(operators::job(world, Part::Audit, 3 * MINUTE).boxed_local());
    }
    if world.plan.has(Part::Rebuild) {
        actors.push(operators::job(world, Part::Rebuild, 4 * MINUTE).boxed_local());
    }
    if world.plan.has(Part::Quarantine) {
        actors.push(operators::job(world, Part::Quarantine, 4 * MINUTE).boxed_local());
    }
    if world.plan.has(Part::Kill) {
        actors.push(kill::kills(world).boxed_local());
    }
    if world.plan.has(Part::Erasure) {
        actors.push(operators::erasures(world).boxed_local());
    }
    actors
}

/// Actors that stop as soon as the world is calm.
fn until_calm_only(world: &World) -> Vec<Actor<'_>> {
    let mut actors: Vec<Actor<'_>> = Vec::new();
    if world.plan.has(Part::Readers) {
        actors.push(readers::readers(world).boxed_local());
    }
    if world.plan.has(Part::Walkers) {
        actors.push(readers::walkers(world).boxed_local());
    }
    if world.plan.has(Part::TableAway) {
        actors.push(operators::outages(world).boxed_local());
    }
    if operators::SERVER_FAULTS
        .iter()
        .any(|fault| world.plan.has(*fault))
    {
        actors.push(operators::servers(world).boxed_local());
    }
    if world.plan.has(Part::Damage) {
        actors.push(operators::damage(world).boxed_local());
    }
    actors
}

/// A plan that breaks a promise, and what happened.
struct Failure {
    plan: Plan,
    outcome: Outcome,
}

/// The smallest plan that still breaks a promise: without every part that it does not need, and
/// with fewer changes.
fn shrink(plan: &Plan) -> Failure {
    let mut smallest = Failure {
        plan: plan.clone(),
        outcome: run(plan),
    };
    while let Some(smaller) = first_failure(smaller_plans(&smallest.plan)) {
        smallest = smaller;
    }
    smallest
}

/// Plans that lack one part, or half of the changes.
fn smaller_plans(plan: &Plan) -> Vec<Plan> {
    let without_a_part = plan.parts.iter().map(|part| plan.without(*part));
    let mut smaller: Vec<Plan> = without_a_part.collect();
    if plan.changes > 1 {
        smaller.push(Plan {
            changes: plan.changes / 2,
            ..plan.clone()
        });
    }
    smaller
}

fn first_failure(plans: Vec<Plan>) -> Option<Failure> {
    for plan in plans {
        let outcome = run(&plan);
        if outcome.violation.is_some() {
            return Some(Failure { plan, outcome });
        }
    }
    None
}

/// What a failing schedule says, in at most 60 lines.
fn report(plan: &Plan) -> String {
    let Failure { plan, outcome } = shrink(plan);
    let trace = &outcome.trace;
    let first_violation = trace
        .iter()
        .position(|line| line.contains("VIOLATION"))
        .unwrap_or(trace.len());
    let last_lines = &trace[first_violation.saturating_sub(50)..first_violation];
    let last_lines: Vec<&str> = last_lines.iter().map(|line| shown(line)).collect();
    let violation = outcome.violation.as_ref().map(ToString::to_string);
    format!(
        "{plan}\n{}\n...\n{}\n{}",
        plan.command(),
        last_lines.join("\n"),
        violation.unwrap_or_default()
    )
}

/// The value of a variable, unless it is empty.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?;
    if value.is_empty() { None } else { Some(value) }
}

fn number(name: &str) -> Option<u64> {
    variable(name).map(|value| value.parse().unwrap())
}

fn chosen_bug() -> Option<Bug> {
    variable("PAGEMARK_SIMULATE_BUG").map(|bug| bug.parse().unwrap())
}

/// Schedules without any bug, or one of them; or the planted bugs, if that is asked for.
#[test]
fn every_promise_holds_in_every_schedule() {
    if number("PAGEMARK_SIMULATE_BUGS").is_some() {
        find_planted_bugs();
    } else if let Some(seed) = number("PAGEMARK_SIMULATE_SEED") {
        check_and_print(seed);
    } else {
        let from = number("PAGEMARK_SIMULATE_FROM").unwrap_or(0);
        let count = number("PAGEMARK_SIMULATE_SEEDS").unwrap_or(100);
        check_all(from..from + count);
    }
}

/// What was found once is found again; without its bug, nothing is.
#[test]
fn kept_schedules_find_their_bugs_and_nothing_else() {
    let next = AtomicUsize::new(0);
    in_threads(|| {
        while let Some(kept) = KEPT.get(next.fetch_add(1, Ordering::Relaxed)) {
            let plan = kept.plan();
            let violation = run(&plan.with(None)).violation;
            assert_eq!(violation, None, "{plan}, without its bug");
            assert!(
                is_found(&plan),
                "{plan} does not find {} any more, which broke {}",
                kept.bug,
                kept.broke
            );
        }
    });
    let mut kept: Vec<Bug> = KEPT.iter().map(|kept| kept.bug).collect();
    kept.extend(FOUND_ELSEWHERE);
    let not_kept: Vec<Bug> = Bug::iter().filter(|bug| !kept.contains(bug)).collect();
    assert!(not_kept.is_empty(), "no schedule is kept for {not_kept:?}");
}

/// Whether a kept schedule finds its bug. Another call of the product changes which calls fail, so
/// its seed is only the first one that is tried.
fn is_found(plan: &Plan) -> bool {
    let mut seeds = plan.seed..plan.seed + KEPT_SEEDS_MAX;
    seeds.any(|seed| {
        let plan = Plan {
            seed,
            ..plan.clone()
        };
        run(&plan).violation.is_some()
    })
}

/// Runs one schedule, changed as the variables say, and prints what happens.
fn check_and_print(seed: u64) {
    let mut plan = Plan::of(seed);
    let left_out = variable("PAGEMARK_SIMULATE_WITHOUT").unwrap_or_default();
    for name in left_out.split(',') {
        plan.parts.retain(|part| part.to_string() != name);
    }
    plan.bug = chosen_bug();
    if let Some(changes) = number("PAGEMARK_SIMULATE_CHANGES") {
        plan.changes = usize::try_from(changes).unwrap();
    }
    let outcome = run(&plan);
    println!("{plan}\n{}", outcome.trace.join("\n"));
    assert_eq!(outcome.violation, None);
}

fn check_all(seeds: Range<u64>) {
    let began = std::time::Instant::now();
    let next = AtomicU64::new(seeds.start);
    let covered = Mutex::new(Covered::default());
    in_threads(|| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let (plan, repaired) = check(seed);
            covered.lock().unwrap().add(&plan, &repaired);
        }
    });
    let count = seeds.end - seeds.start;
    let runs = count + seeds.filter(|seed| runs_twice(*seed)).count() as u64;
    let an_hour = runs as f64 / began.elapsed().as_secs_f64() * 3_600.0;
    println!("{count} schedules in {runs} runs, {an_hour:.0} runs an hour");
    println!("{}", covered.into_inner().unwrap());
}

/// In how many schedules each part was, and each kind of drift was repaired.
#[derive(Default)]
struct Covered(BTreeMap<String, u64>);

impl Covered {
    fn add(&mut self, plan: &Plan, repaired: &BTreeSet<DriftKind>) {
        let parts = plan.parts.iter().map(ToString::to_string);
        for what in parts.chain(repaired.iter().map(ToString::to_string)) {
            *self.0.entry(what).or_default() += 1;
        }
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = Part::iter().map(|part| part.to_string());
        let kinds = DriftKind::iter().map(|kind| kind.to_string());
        for (title, names) in [
            ("schedules with", parts.collect::<Vec<String>>()),
            ("schedules in which was repaired", kinds.collect()),
        ] {
            let (met, never): (Vec<String>, Vec<String>) = names
                .into_iter()
                .partition(|name| self.0.contains_key(name));
            let met = met.iter().map(|name| format!("{name} {}", self.0[name]));
            writeln!(f, "{title}: {}", met.format(", "))?;
            writeln!(f, "  never: {}", never.join(", "))?;
        }
        Ok(())
    }
}

/// Whether a schedule also shows that two runs of it do the same.
fn runs_twice(seed: u64) -> bool {
    seed.is_multiple_of(10)
}

/// Runs a schedule once, or twice and the second time with a log. Returns what it covers.
fn check(seed: u64) -> (Plan, BTreeSet<DriftKind>) {
    let plan = Plan::of(seed);
    let Outcome {
        violation,
        repaired,
        trace,
    } = run(&plan);
    assert_eq!(violation, None, "{}", report(&plan));
    if !runs_twice(seed) {
        return (plan, repaired);
    }
    let _log =
        tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(sink).finish());
    let again = run(&plan).trace;
    let mut pairs = trace.iter().zip(&again);
    let differs = pairs.find(|(one, other)| one != other);
    assert!(trace == again, "{plan}: two runs differ: {differs:?}");
    (plan, repaired)
}

/// Prints after how many schedules each planted bug is found, or the chosen one.
fn find_planted_bugs() {
    let bugs: Vec<Bug> = match chosen_bug() {
        Some(chosen) => vec![chosen],
        None => Bug::iter()
            .filter(|bug| !FOUND_ELSEWHERE.contains(bug))
            .collect(),
    };
    let next = AtomicUsize::new(0);
    let not_found = Mutex::new(Vec::new());
    in_threads(|| {
        while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !find_planted_bug(*bug) {
                not_found.lock().unwrap().push(bug);
            }
        }
    });
    assert_eq!(
        not_found.into_inner().unwrap(),
        Vec::<&Bug>::new(),
        "not found in {BUG_LIVES_MAX} schedules"
    );
}

/// Prints the first schedule that finds a bug, as small as it can be made, if there is one.
fn find_planted_bug(bug: Bug) -> bool {
    for seed in 0..BUG_LIVES_MAX {
        let plan = Plan::of(seed).with(Some(bug));
        if run(&plan).violation.is_none() {
            continue;
        }
        let Failure { plan, outcome } = shrink(&plan);
        if let Some(violation) = outcome.violation {
            println!(
                "{bug}: schedule {}: {}\n{}",
                seed + 1,
                shown(&violation.to_string()),
                as_kept(&plan, bug, violation.invariant)
            );
        }
        return true;
    }
    false
}

fn shown(line: &str) -> &str {
    line.get(..200).unwrap_or(line)
}

fn in_threads(work: impl Fn() + Sync) {
    let threads = match std::thread::available_parallelism() {
        Ok(threads) => threads.get(),
        Err(_) => 1,
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(&work);
        }
    });
}
