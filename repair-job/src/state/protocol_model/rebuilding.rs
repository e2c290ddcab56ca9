//! A run of `rebuild`, as the calls that it makes: `commands/rebuild.rs`, `state/filling.rs` and
//! `redis-index/src/rebuild.rs`. Its steps are planned by the product.

use std::collections::{BTreeSet, VecDeque};

use model::Timestamp;
use page_index::{FinishStep, IndexPartition, LastConfirmation, Rebuild, ServerIdentity};

use super::world::{OWNER, PARTITIONS, Progress, TICK, World};
use crate::{
    run::settings::{JobSettings, ms},
    state::rebuild_plan::{RebuildStep, confirmation_of, pass, plan},
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Rebuilding {
    rebuild: Rebuild,
    began: Timestamp,
    unfilled: BTreeSet<IndexPartition>,
    reconciled_to: Timestamp,
    /// What the table stored when this was read.
    stored: Option<LastConfirmation>,
    /// Whether every partition got the nonce.
    is_mine: bool,
    calls: VecDeque<Call>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Call {
    FindMissing,
    AskWhetherUnderWay(Progress),
    AskServers,
    LeaveToken(IndexPartition),
    RemoveMarker(IndexPartition),
    Empty(IndexPartition),
    Fill(IndexPartition),
    StoreProgress,
    ReadJournal { from: Timestamp },
    Repair(usize),
    ReadConfirmation,
    StoreConfirmation,
    LeaveNonce(IndexPartition),
    AssertServers,
    Mark(IndexPartition),
}

impl Rebuilding {
    pub(super) fn begin(world: &World, is_whole: bool) -> Self {
        let token = format!("rebuild-{}", world.runs_begun);
        let mut partitions = BTreeSet::new();
        let mut first = Call::FindMissing;
        if is_whole {
            partitions = IndexPartition::all(PARTITIONS).collect();
            first = Call::AskServers;
        }
        Self {
            rebuild: Rebuild {
                token,
                servers: ServerIdentity::default(),
                partitions,
            },
            began: world.now,
            unfilled: BTreeSet::new(),
            reconciled_to: world.now,
            stored: None,
            is_mine: true,
            calls: [first].into(),
        }
    }

    /// Makes the next call. Returns whether the run has ended.
    pub(super) fn go_on(&mut self, world: &mut World, settings: &JobSettings) -> bool {
        if let Some(call) = self.calls.pop_front() {
            self.make(call, world, settings);
        }
        self.calls.is_empty()
    }

    /// The call that it makes next.
    pub(super) fn next_call(&self) -> String {
        match self.calls.front() {
            Some(call) => format!("{call:?}"),
            None => "end".to_owned(),
        }
    }

    fn make(&mut self, call: Call, world: &mut World, settings: &JobSettings) {
        match call {
            Call::FindMissing => self.find_missing(world),
            Call::AskWhetherUnderWay(progress) => {
                let rebuild = &progress.rebuild;
                let mut is_under_way = world.identity() == rebuild.servers;
                for partition in &rebuild.partitions {
                    let state = &world.server(*partition).data.state;
                    is_under_way &= state.is_filled_by(&rebuild.token);
                }
                if is_under_way {
                    self.rebuild = progress.rebuild;
                    self.began = progress.began;
                    self.unfilled = progress.unfilled;
                    self.fill(settings);
                } else {
                    self.calls.push_back(Call::AskServers);
                }
            }
            Call::AskServers => {
                self.began = world.now;
                self.rebuild.servers = world.identity();
                self.unfilled = self.rebuild.partitions.clone();
                self.each(Call::LeaveToken);
                self.each(Call::RemoveMarker);
                self.each(Call::Empty);
                self.fill(settings);
            }
            Call::LeaveToken(partition) => {
                let token = self.rebuild.token.clone();
                world.data(partition).state.rebuild = Some(token);
            }
            Call::RemoveMarker(partition) => {
                let state = &mut world.data(partition).state;
                state.marker = Default::default();
                state.nonce = None;
            }
            Call::Empty(partition) => {
                let data = world.data(partition);
                if data.state.is_filled_by(&self.rebuild.token) {
                    data.ranked.clear();
                }
            }
            Call::Fill(partition) => self.fill_one(world, partition),
            Call::StoreProgress => {
                world.progress = Some(Progress {
                    rebuild: self.rebuild.clone(),
                    began: self.began,
                    unfilled: self.unfilled.clone(),
                });
            }
            Call::ReadJournal { from } => {
                let pass = pass(from, world.now, settings);
                for number in world.named(pass.window).into_iter().rev() {
                    self.calls.push_front(Call::Repair(number));
                }
                self.reconciled_to = pass.reconciled_to;
            }
            Call::Repair(number) => {
                let partition = world.changes[number].partition;
                if self.rebuild.partitions.contains(&partition) {
                    world.rank(number);
                }
            }
            Call::ReadConfirmation => self.stored = world.confirmation.clone(),
            Call::StoreConfirmation => self.store_confirmation(world),
            Call::LeaveNonce(partition) => {
                self.is_mine &= self.finish_step(world, partition, false);
            }
            Call::AssertServers => {
                if world.identity() != self.rebuild.servers {
                    self.calls.clear();
                }
            }
            Call::Mark(partition) => {
                if self.is_mine {
                    self.finish_step(world, partition, true);
                }
            }
        }
    }

    fn find_missing(&mut self, world: &World) {
        for (partition, server) in &world.servers {
            if server.data.state.marker.owner.is_none() {
                self.rebuild.partitions.insert(*partition);
            }
        }
        if self.rebuild.partitions.is_empty() {
            return;
        }
        match &world.progress {
            Some(progress) if progress.rebuild.partitions == self.rebuild.partitions => {
                self.calls
                    .push_back(Call::AskWhetherUnderWay(progress.clone()));
            }
            Some(_) | None => self.calls.push_back(Call::AskServers),
        }
    }

    fn each(&mut self, call: fn(IndexPartition) -> Call) {
        let partitions = self.rebuild.partitions.iter().copied();
        self.calls.extend(partitions.map(call));
    }

    fn is_whole(&self) -> bool {
        self.rebuild.partitions.len() == usize::from(PARTITIONS)
    }

    /// Takes the steps of the product's plan apart into calls.
    fn fill(&mut self, settings: &JobSettings) {
        for step in plan(self.began, settings) {
            match step {
                RebuildStep::Fill => {
                    for partition in self.unfilled.clone() {
                        self.calls.push_back(Call::Fill(partition));
                        self.calls.push_back(Call::StoreProgress);
                    }
                }
                RebuildStep::Reconcile { from } => {
                    self.calls.push_back(Call::ReadJournal { from });
                }
                RebuildStep::Remember => {
                    if !self.is_whole() {
                        self.calls.push_back(Call::ReadConfirmation);
                    }
                    self.calls.push_back(Call::StoreConfirmation);
                }
                RebuildStep::Finish => {
                    for step in FinishStep::all() {
                        match step {
                            FinishStep::LeaveNonce => self.each(Call::LeaveNonce),
                            FinishStep::AssertServers => {
                                self.calls.push_back(Call::AssertServers);
                            }
                            FinishStep::Mark => self.each(Call::Mark),
                        }
                    }
                }
            }
        }
    }

    /// The table's index lags as far behind as it may.
    fn fill_one(&mut self, world: &mut World, partition: IndexPartition) {
        let indexed_to = world.now.plus_ms(-ms(TICK));
        for number in 0..world.changes.len() {
            let change = &world.changes[number];
            if change.partition == partition && change.at < indexed_to {
                world.rank(number);
            }
        }
        self.unfilled.remove(&partition);
    }

    fn store_confirmation(&mut self, world: &mut World) {
        let is_whole = self.is_whole();
        if !is_whole && world.confirmation != self.stored {
            // Another run has stored its own, so this one reads again.
            self.calls.push_front(Call::StoreConfirmation);
            self.calls.push_front(Call::ReadConfirmation);
            return;
        }
        let next = confirmation_of(&self.rebuild, is_whole, self.stored.as_ref());
        world.confirmation = Some(next);
        self.stored = None;
    }

    fn finish_step(&self, world: &mut World, partition: IndexPartition, is_last: bool) -> bool {
        let token = &self.rebuild.token;
        let nonce = format!("nonce-{token}");
        let state = &mut world.data(partition).state;
        state.finish_step(token, OWNER, self.reconciled_to, &nonce, is_last)
    }
}
