//! The whole system: the world, the runs of the repair job in it, and what may still happen.

use super::{rebuilding::Rebuilding, recent::Recent, world::World};
use crate::run::settings::JobSettings;

pub(super) const RUNS: usize = 2;

/// How often each thing may still happen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Limits {
    pub(super) ticks: u8,
    pub(super) changes: u8,
    pub(super) copies: u8,
    pub(super) losses: u8,
    pub(super) flushes: u8,
    pub(super) deaths: u8,
    pub(super) runs: u8,
    /// How many of the runs may be rebuilds of all partitions, as an operator asks for.
    pub(super) whole_rebuilds: u8,
    /// Whether each run of `recent` is stopped after its first confirmation.
    pub(super) stops_early: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Run {
    Recent(Recent),
    Rebuilding(Rebuilding),
}

impl Run {
    pub(super) fn next_call(&self) -> String {
        match self {
            Self::Recent(recent) => recent.next_call(),
            Self::Rebuilding(rebuilding) => rebuilding.next_call(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Command {
    Recent,
    RebuildMissing,
    RebuildAll,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct System {
    pub(super) world: World,
    pub(super) runs: [Option<Run>; RUNS],
    pub(super) left: Limits,
}

impl System {
    pub(super) fn of(world: World, left: &Limits) -> Self {
        Self {
            world,
            runs: [const { None }; RUNS],
            left: left.clone(),
        }
    }

    pub(super) fn begin(&mut self, slot: usize, command: Command) {
        self.world.runs_begun += 1;
        let run = match command {
            Command::Recent => Run::Recent(Recent::begin(&self.world, self.left.stops_early)),
            Command::RebuildMissing => Run::Rebuilding(Rebuilding::begin(&self.world, false)),
            Command::RebuildAll => Run::Rebuilding(Rebuilding::begin(&self.world, true)),
        };
        self.runs[slot] = Some(run);
    }

    /// The run makes its next call.
    pub(super) fn go_on(&mut self, slot: usize, settings: &JobSettings) {
        let Some(mut run) = self.runs[slot].take() else {
            return;
        };
        let has_ended = match &mut run {
            Run::Recent(recent) => recent.go_on(&mut self.world, settings),
            Run::Rebuilding(rebuilding) => rebuilding.go_on(&mut self.world, settings),
        };
        if !has_ended {
            self.runs[slot] = Some(run);
        }
    }
}
