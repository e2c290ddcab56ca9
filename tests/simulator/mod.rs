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
//! - `checks`: what holds when everything is quiet.
//!
//! A new actor is an async function of the [`World`], a [`Part`] for its name, and a line in
//! [`act`].

mod checks;
mod engine;
mod index;
mod kill;
mod mappings;
mod model;
mod operators;
mod plan;
mod readers;
mod trace;
mod world;
mod writers;

use std::{
    cell::OnceCell,
    rc::Rc,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use futures_util::{FutureExt, future::LocalBoxFuture};
use strum::IntoEnumIterator;
use tokio::task::LocalSet;

use ::model::planted::{Bug, plant};
use plan::{Part, Plan};
use world::{World, base_client, until_calm};

/// More simulated time than the writers of any schedule take.
const WRITING_MAX: Duration = Duration::from_secs(4 * 3_600);

/// When everything is calm, until calls under way have ended, also those of writers that have given
/// up.
const CALLS_END: Duration = Duration::from_secs(60);

/// Longer than any delay in the system. The longest is how long readers believe a page index
/// without a new confirmation.
const SETTLED: Duration = Duration::from_secs(1_000);

/// The most schedules that a planted bug may survive.
const BUG_LIVES_MAX: u64 = 2_000;

/// Bugs that only tests on real servers find in a reasonable time (`docs/guarantees.md`).
const FOUND_ELSEWHERE: [Bug; 4] = [
    Bug::ConfirmedTooEarly,
    Bug::DeletedWithoutJournal,
    Bug::MarkedBeforeJournal,
    Bug::MarkedRestored,
];

/// How long deliveries may take in a calm world.
const DELIVERED: Duration = Duration::from_secs(600);

thread_local! {
    static BASE: OnceCell<Client> = const { OnceCell::new() };
}

struct Outcome {
    violation: Option<String>,
    trace: Vec<String>,
}

/// Runs a schedule.
fn run(plan: &Plan) -> Outcome {
    plant(plan.bug);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let outcome = LocalSet::new().block_on(&runtime, async {
        let known = BASE.with(|base| base.get().cloned());
        let base = if let Some(base) = known {
            base
        } else {
            base_client().await
        };
        BASE.with(|known| known.set(base.clone()).ok());
        let world = World::new(plan, &base).await;
        simulate(&world).await;
        let violation = world.violation.take();
        Outcome {
            violation,
            trace: world.trace.lines(),
        }
    });
    process::simulation::end();
    plant(None);
    outcome
}

async fn simulate(world: &Rc<World>) {
    let ([writer_at, indexer_at], is_over) = (&world.positions, tokio::sync::Notify::new());
    let functions = async {
        loop {
            tokio::select! {
                biased;
                () = is_over.notified() => return,
                () = world.killed.notified() => {}
                () = mappings::deliver(world, stream_writer::FUNCTION, Part::WriterStops, writer_at, world.writer()) => {}
                () = mappings::deliver(world, page_indexer::FUNCTION, Part::IndexerStops, indexer_at, world.indexer()) => {}
            }
        }
    };
    let schedule = async {
        let readers_and_operators = futures_util::future::join_all(act(world));
        let written = async {
            tokio::time::timeout(WRITING_MAX, write(world)).await.ok();
            world.engine.is_calm.store(true, Ordering::Relaxed);
            world.engine.calmed.notify_waiters();
            *world.engine.cut_off.lock().unwrap() = "";
            world.servers.refuse(false);
        };
        tokio::join!(readers_and_operators, written);
        world.trace.note(|| "no fault happens any more".to_owned());
        tokio::time::sleep(CALLS_END).await;
        let delivered = async {
            loop {
                world.stream.poll(&world.engine);
                if world
                    .positions
                    .iter()
                    .all(|position| position.is_past(world.stream.end()))
                {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        if tokio::time::timeout(DELIVERED, delivered).await.is_err() {
            world.violated("the functions do not get on in a calm world".to_owned());
        }
        operators::work_off_quarantine(world).await;
        checks::before_repair(world).await;
        tokio::time::sleep(SETTLED).await;
        let problem = tokio::select! {
            biased;
            problem = operators::repair_once(world) => problem,
            () = checks::read_meanwhile(world) => unreachable!("it reads for ever"),
        };
        if let Some(problem) = problem {
            world.violated(problem);
        }
        checks::at_rest(world).await;
        is_over.notify_one();
    };
    tokio::join!(functions, schedule);
}

async fn write(world: &World) {
    let writers: [(Part, LocalBoxFuture<'_, ()>); 4] = [
        (Part::Customers, writers::customers(world).boxed_local()),
        (
            Part::Editors,
            writers::editors(world, "an editor").boxed_local(),
        ),
        (
            Part::Editors,
            writers::editors(world, "another editor").boxed_local(),
        ),
        (Part::Importer, writers::importer(world).boxed_local()),
    ];
    let writers = writers
        .into_iter()
        .filter(|(part, _)| world.plan.has(*part))
        .map(|(_, writer)| writer);
    futures_util::future::join_all(writers).await;
}

/// Everybody but the writers. Readers stop in a calm world. Repairs and starts come to their end,
/// because half a repair may leave a wrong rank behind, which only `recent` repairs.
fn act(world: &World) -> Vec<LocalBoxFuture<'_, ()>> {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let servers = [
        Part::IndexEmptied,
        Part::IndexRestored,
        Part::IndexFailsOver,
        Part::IndexRefuses,
    ];
    let repairs: [(bool, LocalBoxFuture<'_, ()>); 7] = [
        (
            world.plan.has(Part::Recent),
            operators::job(world, Part::Recent, minutes(2)).boxed_local(),
        ),
        (
            world.plan.has(Part::Check),
            operators::checks(world).boxed_local(),
        ),
        (
            world.plan.has(Part::Audit),
            operators::job(world, Part::Audit, minutes(3)).boxed_local(),
        ),
        (
            world.plan.has(Part::Rebuild),
            operators::job(world, Part::Rebuild, minutes(4)).boxed_local(),
        ),
        (
            world.plan.has(Part::Quarantine),
            operators::job(world, Part::Quarantine, minutes(4)).boxed_local(),
        ),
        (world.plan.has(Part::Kill), kill::kills(world).boxed_local()),
        (
            world.plan.has(Part::Erasure),
            operators::erasures(world).boxed_local(),
        ),
    ];
    let others: [(bool, LocalBoxFuture<'_, ()>); 5] = [
        (
            world.plan.has(Part::Readers),
            readers::readers(world).boxed_local(),
        ),
        (
            world.plan.has(Part::Walkers),
            readers::walkers(world).boxed_local(),
        ),
        (
            world.plan.has(Part::TableAway),
            operators::outages(world).boxed_local(),
        ),
        (
            servers.into_iter().any(|part| world.plan.has(part)),
            operators::servers(world).boxed_local(),
        ),
        (
            world.plan.has(Part::Damage),
            operators::damage(world).boxed_local(),
        ),
    ];
    let others = others.map(|(is_there, actor)| (is_there, until_calm(world, actor).boxed_local()));
    repairs
        .into_iter()
        .chain(others)
        .filter(|(is_there, _)| *is_there)
        .map(|(_, actor)| actor)
        .collect()
}

/// The smallest plan that still breaks a promise: without every part that it does not need, and
/// with fewer changes.
fn shrink(plan: &Plan) -> (Plan, Outcome) {
    let (mut plan, mut outcome) = (plan.clone(), run(plan));
    loop {
        let fewer = (plan.changes > 1).then(|| Plan {
            changes: plan.changes / 2,
            ..plan.clone()
        });
        let smaller = plan
            .parts
            .iter()
            .map(|part| plan.without(*part))
            .chain(fewer);
        let found = smaller
            .map(|plan| (run(&plan), plan))
            .find(|(outcome, _)| outcome.violation.is_some());
        let Some((smaller, found)) = found else {
            return (plan, outcome);
        };
        (outcome, plan) = (smaller, found);
    }
}

/// What a failing schedule says, in at most 60 lines.
fn report(plan: &Plan) -> String {
    let (plan, Outcome { violation, trace }) = shrink(plan);
    let first = trace
        .iter()
        .position(|line| line.contains("VIOLATION"))
        .unwrap_or(trace.len());
    let last: Vec<&str> = trace[first.saturating_sub(50)..first]
        .iter()
        .map(|line| shown(line))
        .collect();
    format!(
        "{plan}\n{}\n...\n{}\n{}",
        plan.command(),
        last.join("\n"),
        violation.unwrap_or_default()
    )
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .filter(|value| !value.is_empty())
        .map(|value| value.parse().unwrap())
}

/// Schedules without any bug, or one of them; or the planted bugs, if that is asked for.
#[test]
fn every_promise_holds_in_every_schedule() {
    if variable("PAGEMARK_SIMULATE_BUGS").is_some() {
        return find_planted_bugs();
    }
    if let Some(seed) = variable("PAGEMARK_SIMULATE_SEED") {
        let mut plan = Plan::of(seed);
        for left_out in std::env::var("PAGEMARK_SIMULATE_WITHOUT")
            .unwrap_or_default()
            .split(',')
        {
            plan.parts.retain(|part| part.to_string() != left_out);
        }
        plan.bug = chosen_bug();
        plan.changes = variable("PAGEMARK_SIMULATE_CHANGES")
            .map_or(plan.changes, |changes| usize::try_from(changes).unwrap());
        let outcome = run(&plan);
        println!("{plan}\n{}", outcome.trace.join("\n"));
        assert_eq!(outcome.violation, None);
        return;
    }
    let (from, seeds) = (
        variable("PAGEMARK_SIMULATE_FROM").unwrap_or(0),
        variable("PAGEMARK_SIMULATE_SEEDS").unwrap_or(100),
    );
    let (began, next) = (std::time::Instant::now(), AtomicU64::new(from));
    in_threads(|| {
        while let Some(seed) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < from + seeds)
        {
            check(seed);
        }
    });
    // Every tenth schedule runs twice.
    let runs = seeds
        + (from..from + seeds)
            .filter(|seed| seed.is_multiple_of(10))
            .count() as u64;
    let an_hour = runs as f64 / began.elapsed().as_secs_f64() * 3_600.0;
    println!("{seeds} schedules in {runs} runs, {an_hour:.0} runs an hour");
}

/// Runs a schedule; every tenth one twice.
fn check(seed: u64) {
    let plan = Plan::of(seed);
    let outcome = run(&plan);
    assert_eq!(outcome.violation, None, "{}", report(&plan));
    if seed.is_multiple_of(10) {
        let again = run(&plan).trace;
        let differs = outcome
            .trace
            .iter()
            .zip(&again)
            .find(|(one, other)| one != other);
        assert!(
            outcome.trace == again,
            "{plan}: two runs differ: {differs:?}"
        );
    }
}

fn chosen_bug() -> Option<Bug> {
    std::env::var("PAGEMARK_SIMULATE_BUG")
        .ok()
        .filter(|bug| !bug.is_empty())
        .map(|bug| bug.parse().unwrap())
}

/// Prints after how many schedules each planted bug is found, or the chosen one.
fn find_planted_bugs() {
    let is_asked = |bug: &Bug| match chosen_bug() {
        Some(chosen) => chosen == *bug,
        None => !FOUND_ELSEWHERE.contains(bug),
    };
    let (bugs, next) = (
        Bug::iter().filter(is_asked).collect::<Vec<_>>(),
        AtomicUsize::new(0),
    );
    let left = Mutex::new(Vec::new());
    in_threads(|| {
        while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = (0..BUG_LIVES_MAX).find_map(|seed| {
                Some((
                    seed,
                    run(&Plan {
                        bug: Some(*bug),
                        ..Plan::of(seed)
                    })
                    .violation?,
                ))
            });
            match found {
                Some((seed, violation)) => {
                    println!("{bug}: schedule {}: {}", seed + 1, shown(&violation))
                }
                None => left.lock().unwrap().push(bug),
            }
        }
    });
    assert_eq!(
        left.into_inner().unwrap(),
        Vec::<&Bug>::new(),
        "not found in {BUG_LIVES_MAX} schedules"
    );
}

fn shown(line: &str) -> &str {
    line.get(..200).unwrap_or(line)
}

fn in_threads(work: impl Fn() + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(&work);
        }
    });
}
