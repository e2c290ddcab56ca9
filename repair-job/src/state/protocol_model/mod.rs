//! A model of what decides whether readers may believe the page index, explored exhaustively by
//! [stateright](https://docs.rs/stateright).
//!
//! Two partitions are on two servers. Each may be replaced by a replica that lags or by its
//! snapshot, or lose everything, at any moment. Readers may come at any moment. Around one run of the
//! repair job, changes arrive, and a page indexer lags as it likes. Two runs may go on at the same
//! time, and one may die between any two calls. Then no more changes arrive, and each run of `recent`
//! ends after its first confirmation.
//!
//! The model decides nothing that the product decides: it calls `confirm_plan::plan`,
//! `rebuild_plan::plan`, `pass` and `confirmation_of`, `FinishStep::all`, `MarkerState` and
//! `Marker::judge`. It adds the order of calls, and what may happen between them.
//!
//! It leaves out clocks that differ and late entries of the journal: both are margins of
//! `JobSettings`. It leaves out evicted keys and deletions, too. Limits bound how many changes,
//! losses and runs it explores. A step that repairs several changes is one call for each here.

mod promises;
mod rebuilding;
mod recent;
mod system;
mod world;

use std::time::Instant;

use model::planted::{Bug, plant};
use page_index::IndexPartition;
use stateright::{Checker, Model, Path, Property};
use strum::IntoEnumIterator;

use self::{
    promises::Promise,
    system::{Command, Limits, RUNS, System},
    world::{PARTITIONS, World, settings},
};
use crate::run::settings::JobSettings;

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Tick,
    /// A comment is posted, whose rank is in this partition.
    Post(IndexPartition),
    /// The page indexer delivers the oldest change that it has not delivered yet.
    Deliver,
    /// The server of a partition saves a snapshot, or its replica catches up.
    Copy(IndexPartition),
    /// A server's replica or snapshot takes its place.
    Replace(IndexPartition),
    Flush(IndexPartition),
    Begin(usize, Command),
    /// A run makes its next call.
    GoOn(usize),
    Die(usize),
}

#[derive(Debug)]
struct Protocol {
    starts: Vec<System>,
    settings: JobSettings,
    bug: Option<Bug>,
    promises: Vec<Promise>,
}

impl Model for Protocol {
    type State = System;
    type Action = Action;

    fn init_states(&self) -> Vec<System> {
        self.starts.clone()
    }

    fn actions(&self, system: &System, actions: &mut Vec<Action>) {
        let world = &system.world;
        let left = &system.left;
        if left.ticks > 0 {
            actions.push(Action::Tick);
        }
        if world.delivered < world.changes.len() {
            actions.push(Action::Deliver);
        }
        for partition in IndexPartition::all(PARTITIONS) {
            let server = world.server(partition);
            if left.changes > 0 {
                actions.push(Action::Post(partition));
            }
            if left.copies > 0 && server.copy != server.data {
                actions.push(Action::Copy(partition));
            }
            if left.losses > 0 {
                actions.push(Action::Replace(partition));
            }
            if left.flushes > 0 {
                actions.push(Action::Flush(partition));
            }
        }
        let free = system.runs.iter().position(Option::is_none);
        if left.runs > 0
            && let Some(slot) = free
        {
            actions.push(Action::Begin(slot, Command::Recent));
            actions.push(Action::Begin(slot, Command::RebuildMissing));
            if left.whole_rebuilds > 0 {
                actions.push(Action::Begin(slot, Command::RebuildAll));
            }
        }
        for slot in 0..RUNS {
            if system.runs[slot].is_some() {
                actions.push(Action::GoOn(slot));
                if left.deaths > 0 {
                    actions.push(Action::Die(slot));
                }
            }
        }
    }

    fn next_state(&self, last: &System, action: Action) -> Option<System> {
        // The checker has threads of its own.
        plant(self.bug);
        let mut system = last.clone();
        let world = &mut system.world;
        let left = &mut system.left;
        match action {
            Action::Tick => {
                left.ticks -= 1;
                world.tick();
            }
            Action::Post(partition) => {
                left.changes -= 1;
                world.post(partition);
            }
            Action::Deliver => world.deliver(),
            Action::Copy(partition) => {
                left.copies -= 1;
                world.copy(partition);
            }
            Action::Replace(partition) => {
                left.losses -= 1;
                world.replace(partition);
            }
            Action::Flush(partition) => {
                left.flushes -= 1;
                world.flush(partition);
            }
            Action::Begin(slot, command) => {
                left.runs -= 1;
                if command == Command::RebuildAll {
                    left.whole_rebuilds -= 1;
                }
                system.begin(slot, command);
            }
            Action::GoOn(slot) => system.go_on(slot, &self.settings),
            Action::Die(slot) => {
                left.deaths -= 1;
                system.runs[slot] = None;
            }
        }
        Some(system)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let properties = self.promises.iter().map(|promise| promise.property());
        properties.collect()
    }
}

/// One run of the repair job, with everything that may happen around it.
const ONE_RUN: Limits = Limits {
    ticks: 1,
    changes: 1,
    copies: 1,
    losses: 1,
    flushes: 0,
    deaths: 0,
    runs: 1,
    whole_rebuilds: 1,
    stops_early: false,
};

/// Two runs, at the same time or one after the other, of which one may die.
const TWO_RUNS: Limits = Limits {
    ticks: 0,
    changes: 0,
    copies: 0,
    losses: 1,
    flushes: 0,
    deaths: 1,
    runs: 2,
    whole_rebuilds: 0,
    stops_early: true,
};

/// The same, and a server is emptied instead of replaced.
const TWO_RUNS_AND_A_FLUSH: Limits = Limits {
    losses: 0,
    flushes: 1,
    ..TWO_RUNS
};

/// What `make prove` explores instead of one run and two.
const ONE_RUN_OF_PROOF: Limits = Limits {
    ticks: 2,
    ..ONE_RUN
};
const TWO_RUNS_OF_PROOF: Limits = Limits {
    copies: 1,
    ..TWO_RUNS
};

fn is_proof() -> bool {
    std::env::var("PAGEMARK_PROVE").is_ok_and(|value| !value.is_empty())
}

fn of_one_run(left: &Limits) -> Vec<System> {
    [World::ready(), World::empty()]
        .map(|world| System::of(world, left))
        .into()
}

fn of_two_runs(left: &Limits) -> Vec<System> {
    [World::changed(), World::empty()]
        .map(|world| System::of(world, left))
        .into()
}

fn protocol(starts: Vec<System>, bug: Option<Bug>, promises: &[Promise]) -> Protocol {
    Protocol {
        starts,
        settings: settings(),
        bug,
        promises: promises.to_vec(),
    }
}

/// Explores everything that may follow, and prints how much that was. Returns the number of states,
/// and the promises that are broken in one of them.
fn explore(what: &str, protocol: Protocol) -> (usize, Vec<&'static str>) {
    let began = Instant::now();
    let checker = protocol.checker().spawn_bfs().join();
    let count = checker.unique_state_count();
    let seconds = began.elapsed().as_secs_f64();
    println!("{what}: {count} states in {seconds:.1} s");
    let mut broken = Vec::new();
    for (name, path) in checker.discoveries() {
        println!("{name} is broken:\n{}", trace(path));
        broken.push(name);
    }
    plant(None);
    (count, broken)
}

/// A shortest way to break a promise, one line for each thing that happens. The checker explores
/// breadth first, and stops at the first violation because no other promise is left.
fn shortest(starts: Vec<System>, bug: Option<Bug>, promise: Promise) -> Option<String> {
    let protocol = protocol(starts, bug, &[promise]);
    let checker = protocol.checker().spawn_bfs().join();
    let path = checker.discovery(promise.property().name);
    plant(None);
    path.map(trace)
}

fn trace(path: Path<System, Action>) -> String {
    let mut lines = String::new();
    for (system, action) in path.into_vec() {
        let line = match action {
            Some(Action::GoOn(slot)) => match &system.runs[slot] {
                Some(run) => format!("run {slot}: {}", run.next_call()),
                None => continue,
            },
            Some(action) => format!("{action:?}"),
            None => continue,
        };
        lines += &format!("  {line}\n");
    }
    lines
}

const KEPT: [Promise; 4] = [
    Promise::BelievedIsComplete,
    Promise::MarkedIsFilled,
    Promise::WatermarkPassesNoLoss,
    Promise::ReadyAgain,
];

#[test]
fn each_promise_is_a_sentence_of_the_guarantees() {
    let document = include_str!("../../../../docs/guarantees.md");
    let document = document.replace('\n', " ");
    for promise in Promise::iter() {
        let sentence = promise.sentence();
        if KEPT.contains(&promise) {
            // In the table of the model, and as a promise.
            assert!(
                document.contains(&format!("| `{promise}` | {sentence} |")),
                "{promise}"
            );
            assert_eq!(
                document.matches(&format!("| {sentence} |")).count(),
                2,
                "{sentence}"
            );
        } else {
            assert!(
                document.contains(&format!("| `{promise}` | not promised |")),
                "{promise}"
            );
            assert!(document.contains(sentence), "{sentence}");
        }
        assert_eq!(promise.property().name, promise.to_string());
    }
}

#[test]
fn no_order_of_calls_breaks_what_the_guarantees_promise() {
    const STATES_MIN: usize = 100_000;
    const STATES_OF_PROOF_MIN: usize = 1_000_000;
    let mut one = ONE_RUN;
    let mut two = TWO_RUNS;
    let mut states_min = STATES_MIN;
    if is_proof() {
        one = ONE_RUN_OF_PROOF;
        two = TWO_RUNS_OF_PROOF;
        states_min = STATES_OF_PROOF_MIN;
    }
    let mut states = 0;
    for (what, starts) in [
        ("one run", of_one_run(&one)),
        ("two runs", of_two_runs(&two)),
        ("two runs and a flush", of_two_runs(&TWO_RUNS_AND_A_FLUSH)),
    ] {
        let (count, broken) = explore(what, protocol(starts, None, &KEPT));
        assert!(broken.is_empty(), "{broken:?}");
        states += count;
    }
    assert!(states >= states_min, "only {states} states");
}

#[test]
fn each_planted_bug_breaks_a_promise() {
    let left = Limits {
        ticks: 0,
        ..ONE_RUN
    };
    for (bug, promise) in [
        (Bug::SnapshotBelieved, Promise::BelievedIsComplete),
        (Bug::ConfirmedTooEarly, Promise::BelievedIsComplete),
        (Bug::MarkedBeforeJournal, Promise::MarkedIsFilled),
        (Bug::MarkedRestored, Promise::MarkedIsFilled),
    ] {
        let mut starts = of_one_run(&left);
        starts.push(System::of(World::changed(), &left));
        let trace = shortest(starts, Some(bug), promise);
        let trace = trace.unwrap_or_else(|| panic!("{bug} is not found"));
        println!("{bug} breaks {promise}:\n{trace}");
    }
}

/// What is not promised, and a rule that would change that (ADR 99).
#[test]
fn a_lost_rank_is_believed_only_by_readers_who_do_not_ask_for_the_servers() {
    let starts = of_one_run(&ONE_RUN);
    let trace = shortest(starts.clone(), None, Promise::NoLossIsBelieved);
    let trace = trace.expect("a lost rank that is believed");
    println!("a lost rank is believed:\n{trace}");
    assert_eq!(trace.lines().count(), 3, "{trace}");
    let by_servers = [Promise::NoLossIsBelievedByServers];
    for (what, starts) in [("one run", starts), ("two runs", of_two_runs(&TWO_RUNS))] {
        let what = format!("{what}, and readers ask for the servers");
        let (_, broken) = explore(&what, protocol(starts, None, &by_servers));
        assert!(broken.is_empty(), "{broken:?}");
    }
}
