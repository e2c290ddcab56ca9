//! A run of `recent`, as the calls that it makes: `commands/recent.rs`, `state/confirm.rs` and
//! `repair/index_snapshot.rs`. What a confirmation does is planned by the product.

use std::collections::{BTreeMap, VecDeque};

use model::Timestamp;
use page_index::{Check, ConfirmationTime, IndexPartition, LastConfirmation, ServerIdentity};

use super::world::{OWNER, World};
use crate::{
    find::journal::Window,
    run::settings::{JobSettings, ms},
    state::confirm_plan::{Seen, Step, plan},
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Recent {
    number: u8,
    /// Names the tokens of the run.
    tokens: u8,
    began: Timestamp,
    /// The servers and the watermarks that it began with.
    servers: ServerIdentity,
    watermarks: BTreeMap<IndexPartition, Timestamp>,
    seen: SeenSoFar,
    /// The calls that the confirmation under way still makes, and the others.
    confirmation: VecDeque<Call>,
    rest: VecDeque<Call>,
}

/// What a confirmation has read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct SeenSoFar {
    present: Option<Timestamp>,
    servers: ServerIdentity,
    stored: Option<LastConfirmation>,
    sampled_at: Option<Timestamp>,
}

/// One call to the table or to the page index. A server may be lost, or the run may die, between
/// any two.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Call {
    AskServers,
    ReadMarks,
    BeginConfirmation,
    ReadConfirmation,
    Plan,
    Store(LastConfirmation),
    LeaveToken {
        partition: IndexPartition,
        read: String,
        token: String,
        time: Time,
    },
    CheckLosses(Check),
    Repair(usize),
    StoreChecked(Timestamp),
    Sample,
    AssertServers(ServerIdentity),
    BeginAnew,
    ReadJournal,
    LeaveNonce(IndexPartition),
    Advance(IndexPartition),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Time {
    Given(ConfirmationTime),
    OfSample,
}

/// What a call may end.
enum End {
    OfConfirmation,
    OfRun,
}

impl Recent {
    pub(super) fn begin(world: &World, stops_early: bool) -> Self {
        let mut rest = VecDeque::from([
            Call::AskServers,
            Call::ReadMarks,
            Call::BeginConfirmation,
            Call::ReadJournal,
            Call::BeginConfirmation,
        ]);
        if stops_early {
            rest.truncate(3);
        }
        Self {
            number: world.runs_begun,
            tokens: 0,
            began: world.now,
            servers: ServerIdentity::default(),
            watermarks: BTreeMap::new(),
            seen: SeenSoFar::default(),
            confirmation: VecDeque::new(),
            rest,
        }
    }

    /// Makes the next call. Returns whether the run has ended.
    pub(super) fn go_on(&mut self, world: &mut World, settings: &JobSettings) -> bool {
        let next = self.confirmation.pop_front();
        if let Some(call) = next.or_else(|| self.rest.pop_front()) {
            match self.make(call, world, settings) {
                Ok(()) => {}
                Err(End::OfConfirmation) => self.confirmation.clear(),
                Err(End::OfRun) => return true,
            }
        }
        if self.confirmation.is_empty() {
            self.seen = SeenSoFar::default();
        }
        self.confirmation.is_empty() && self.rest.is_empty()
    }

    /// The call that it makes next.
    pub(super) fn next_call(&self) -> String {
        let next = self.confirmation.front().or_else(|| self.rest.front());
        match next {
            Some(call) => format!("{call:?}"),
            None => "end".to_owned(),
        }
    }

    fn make(&mut self, call: Call, world: &mut World, settings: &JobSettings) -> Result<(), End> {
        match call {
            Call::AskServers => self.servers = world.identity(),
            Call::ReadMarks => {
                for (partition, mark) in world.marks() {
                    self.watermarks.insert(partition, mark.watermark);
                }
            }
            Call::BeginConfirmation => {
                self.seen.present = Some(world.now);
                self.seen.servers = world.identity();
                self.confirmation = [Call::ReadConfirmation, Call::Plan].into();
            }
            Call::ReadConfirmation => self.seen.stored = world.confirmation.clone(),
            Call::Plan => self.plan(world, settings),
            Call::Store(next) => self.replace(world, next)?,
            Call::LeaveToken {
                partition,
                read,
                token,
                time,
            } => {
                let time = match (time, self.seen.sampled_at) {
                    (Time::Given(time), _) => time,
                    (Time::OfSample, Some(at)) => ConfirmationTime::At(at),
                    (Time::OfSample, None) => panic!("confirmed without a sample"),
                };
                let state = &mut world.data(partition).state;
                state.leave_token(OWNER, &read, &token, time);
            }
            Call::CheckLosses(check) => self.check_losses(world, &check),
            Call::Repair(change) => self.repair(world, change),
            Call::StoreChecked(to) => {
                if let Some(known) = self.seen.stored.clone() {
                    let check = known.check.map(|check| Check { from: to, ..check });
                    self.replace(world, LastConfirmation { check, ..known })?;
                }
            }
            Call::Sample => self.sample(world, settings)?,
            Call::AssertServers(servers) => {
                if world.identity() != servers {
                    return Err(End::OfRun);
                }
            }
            Call::BeginAnew => return Err(End::OfRun),
            Call::ReadJournal => self.read_journal(world),
            Call::LeaveNonce(partition) => {
                let from = self.watermarks[&partition];
                let state = &mut world.data(partition).state;
                if !state.advance_step(OWNER, &self.nonce(), from, None) {
                    self.lose(partition);
                }
            }
            Call::Advance(partition) => {
                let from = self.watermarks[&partition];
                let state = &mut world.data(partition).state;
                if !state.advance_step(OWNER, &self.nonce(), from, Some(self.began)) {
                    self.lose(partition);
                }
            }
        }
        Ok(())
    }

    /// Each partition is advanced once in a run.
    fn nonce(&self) -> String {
        format!("nonce-{}", self.number)
    }

    /// A partition whose marker has changed is not repaired any more.
    fn lose(&mut self, partition: IndexPartition) {
        self.watermarks.remove(&partition);
        self.rest.retain(|call| *call != Call::Advance(partition));
    }

    fn replace(&mut self, world: &mut World, next: LastConfirmation) -> Result<(), End> {
        if world.confirmation != self.seen.stored {
            return Err(End::OfConfirmation);
        }
        self.seen.stored = Some(next.clone());
        world.confirmation = Some(next);
        Ok(())
    }

    /// Plans the confirmation as the product does, and takes its steps apart into calls.
    fn plan(&mut self, world: &World, settings: &JobSettings) {
        let mut marks = world.marks();
        marks.retain(|(partition, _)| self.watermarks.contains_key(partition));
        let Some(present) = self.seen.present else {
            return;
        };
        if marks.is_empty() {
            return;
        }
        self.tokens += 1;
        let tokens = ["check", "next"]
            .map(|which| format!("confirm-{}-{}-{which}", self.number, self.tokens));
        let seen = Seen {
            stored: self.seen.stored.as_ref(),
            marks: &marks,
            servers: &self.seen.servers,
            began_with: &self.servers,
            present,
        };
        let mut calls = VecDeque::new();
        for step in plan(&seen, settings, tokens) {
            match step {
                Step::Store(next) => calls.push_back(Call::Store(next)),
                Step::Leave { read, token, time } => {
                    calls.extend(leave(read, &token, Time::Given(time)));
                }
                Step::Confirm { read, token } => calls.extend(leave(read, &token, Time::OfSample)),
                Step::Report { .. } => {}
                Step::CheckLosses(check) => calls.push_back(Call::CheckLosses(check)),
                Step::Sample => calls.push_back(Call::Sample),
                Step::AssertServers(servers) => calls.push_back(Call::AssertServers(servers)),
                Step::BeginAnew => calls.push_back(Call::BeginAnew),
                Step::RemoveMarkers | Step::GiveUp(_) | Step::Refuse(_) => {
                    panic!("no server of the model evicts keys")
                }
            }
        }
        self.confirmation = calls;
    }

    /// Each change is a part of the journal: how far the check has come is stored after it.
    fn check_losses(&mut self, world: &World, check: &Check) {
        let window = Window {
            from: check.from,
            to: check.to,
        };
        let mut calls = Vec::new();
        for number in world.named(window) {
            calls.push(Call::Repair(number));
            calls.push(Call::StoreChecked(world.changes[number].at.plus_ms(1)));
        }
        calls.push(Call::StoreChecked(check.to));
        for call in calls.into_iter().rev() {
            self.confirmation.push_front(call);
        }
    }

    fn repair(&self, world: &mut World, number: usize) {
        let partition = world.changes[number].partition;
        if self.watermarks.contains_key(&partition) {
            world.rank(number);
        }
    }

    /// The sample finds what a page indexer has not delivered that is behind. It is repaired, and
    /// the confirmation refused. Few of the comments are sampled, so it never finds what a server has
    /// lost.
    fn sample(&mut self, world: &mut World, settings: &JobSettings) -> Result<(), End> {
        let until = world.now.plus_ms(-ms(settings.indexer_lag));
        let reconciled = self.watermarks.values().min().copied();
        let window = Window {
            from: reconciled.unwrap_or(world.now),
            to: until,
        };
        let mut has_missed = false;
        for number in world.named(window) {
            let partition = world.changes[number].partition;
            let is_ranked = world.server(partition).data.ranked.contains(&number);
            if number >= world.delivered && !is_ranked {
                has_missed |= self.watermarks.contains_key(&partition);
                self.repair(world, number);
            }
        }
        if has_missed {
            return Err(End::OfConfirmation);
        }
        self.seen.sampled_at = Some(world.now);
        Ok(())
    }

    /// Plans to repair what the journal names since the watermarks, and to advance them.
    fn read_journal(&mut self, world: &World) {
        let Some(from) = self.watermarks.values().min().copied() else {
            return;
        };
        let to = self.began;
        let mut calls = Vec::new();
        for number in world.named(Window { from, to }) {
            calls.push(Call::Repair(number));
        }
        let mut behind = Vec::new();
        for (partition, watermark) in &self.watermarks {
            if *watermark < to {
                behind.push(*partition);
            }
        }
        if !behind.is_empty() {
            calls.extend(behind.iter().copied().map(Call::LeaveNonce));
            calls.push(Call::AssertServers(self.servers.clone()));
            calls.extend(behind.into_iter().map(Call::Advance));
        }
        for call in calls.into_iter().rev() {
            self.rest.push_front(call);
        }
    }
}

fn leave(read: Vec<(IndexPartition, String)>, token: &str, time: Time) -> Vec<Call> {
    let mut calls = Vec::new();
    for (partition, read) in read {
        calls.push(Call::LeaveToken {
            partition,
            read,
            token: token.to_owned(),
            time,
        });
    }
    calls
}
