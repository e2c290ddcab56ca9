//! What runs work on: the table, the servers of the page index, and the page indexer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use model::Timestamp;
use page_index::{IndexPartition, LastConfirmation, Mark, MarkerState, Rebuild, ServerIdentity};

use crate::{
    find::journal::Window,
    run::settings::{JobSettings, ms},
};

pub(super) const PARTITIONS: u16 = 2;
pub(super) const OWNER: &str = "table";

/// The unit of the model's clock: as long as an index of the table may lag.
pub(super) const TICK: Duration = Duration::from_secs(600);

/// Longer than the model's clock goes, so that only the protocol takes a confirmation away.
const MAX_AGE: Duration = Duration::from_secs(24 * 3_600);

/// The product's plans with small numbers: clocks agree, nothing arrives late, and a page indexer
/// that lags by a tick still keeps up.
pub(super) fn settings() -> JobSettings {
    JobSettings {
        min_age: Duration::ZERO,
        overlap: Duration::ZERO,
        indexer_lag: TICK,
        ..JobSettings::default()
    }
}

/// A comment that was posted. The table has it, and its journal an entry with this time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub(super) at: Timestamp,
    pub(super) partition: IndexPartition,
}

/// A partition as its server holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Partition {
    pub(super) state: MarkerState,
    /// The changes that it ranks, by their numbers.
    pub(super) ranked: BTreeSet<usize>,
}

/// The server of one partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// Names the process.
    process: u8,
    pub(super) data: Partition,
    /// Its last snapshot, or what its replica has received: the partition of an earlier moment,
    /// because writes are replicated in their order.
    pub(super) copy: Partition,
}

/// The progress of a rebuild, as the table stores it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Progress {
    pub(super) rebuild: Rebuild,
    pub(super) began: Timestamp,
    pub(super) unfilled: BTreeSet<IndexPartition>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) changes: Vec<Change>,
    /// How many of the changes the page indexer has put into the page index.
    pub(super) delivered: usize,
    pub(super) servers: BTreeMap<IndexPartition, Server>,
    pub(super) confirmation: Option<LastConfirmation>,
    pub(super) progress: Option<Progress>,
    pub(super) runs_begun: u8,
    processes: u8,
}

impl World {
    /// A page index without anything in it.
    pub(super) fn empty() -> Self {
        let mut servers = BTreeMap::new();
        for partition in IndexPartition::all(PARTITIONS) {
            let server = Server {
                process: 0,
                data: Partition::default(),
                copy: Partition::default(),
            };
            servers.insert(partition, server);
        }
        Self {
            now: Timestamp::parse("2024-01-31T06:00:00Z").expect("an instant"),
            changes: Vec::new(),
            delivered: 0,
            servers,
            confirmation: None,
            progress: None,
            runs_begun: 0,
            processes: 0,
        }
    }

    /// A page index that a rebuild has made ready.
    pub(super) fn ready() -> Self {
        let mut world = Self::empty();
        for server in world.servers.values_mut() {
            let state = &mut server.data.state;
            state.rebuild = Some("rebuild-0".to_owned());
            for is_last in [false, true] {
                state.finish_step("rebuild-0", OWNER, world.now, "nonce", is_last);
            }
            // The nonce stays in the marker, and nothing asks for it any more.
            state.nonce = None;
            server.copy = server.data.clone();
        }
        world.confirmation = Some(LastConfirmation {
            token: "rebuild-0".to_owned(),
            before: None,
            servers: world.identity(),
            check: None,
        });
        world
    }

    /// A ready page index, in which a change is ranked that a replica or a snapshot of its server
    /// lacks. The change is so old that a confirmation covers it.
    pub(super) fn changed() -> Self {
        let mut world = Self::ready();
        if let Some(partition) = IndexPartition::all(PARTITIONS).next() {
            world.post(partition);
            world.deliver();
            world.tick();
            world.tick();
        }
        world
    }

    pub(super) fn identity(&self) -> ServerIdentity {
        let mut texts = Vec::new();
        for server in self.servers.values() {
            texts.push(format!("process-{}", server.process));
        }
        ServerIdentity(texts.join(" "))
    }

    pub(super) fn server(&self, partition: IndexPartition) -> &Server {
        &self.servers[&partition]
    }

    pub(super) fn data(&mut self, partition: IndexPartition) -> &mut Partition {
        let server = self.servers.get_mut(&partition).expect("a partition");
        &mut server.data
    }

    /// The partitions that the repair job keeps up to date.
    pub(super) fn marks(&self) -> Vec<(IndexPartition, Mark)> {
        let mut marks = Vec::new();
        for (partition, server) in &self.servers {
            if let Some(mark) = server.data.state.marker.clone().of_owner(OWNER) {
                marks.push((*partition, mark));
            }
        }
        marks
    }

    /// The numbers of the changes that the journal names in this time.
    pub(super) fn named(&self, window: Window) -> Vec<usize> {
        let mut named = Vec::new();
        for (number, change) in self.changes.iter().enumerate() {
            if window.from <= change.at && change.at < window.to {
                named.push(number);
            }
        }
        named
    }

    /// Puts a change into the page index.
    pub(super) fn rank(&mut self, number: usize) {
        let partition = self.changes[number].partition;
        self.data(partition).ranked.insert(number);
    }

    /// Posts a comment. The clock goes on with each, so that all instants differ.
    pub(super) fn post(&mut self, partition: IndexPartition) {
        self.changes.push(Change {
            at: self.now,
            partition,
        });
        self.tick();
    }

    pub(super) fn tick(&mut self) {
        self.now = self.now.plus_ms(ms(TICK));
    }

    pub(super) fn deliver(&mut self) {
        self.rank(self.delivered);
        self.delivered += 1;
    }

    pub(super) fn copy(&mut self, partition: IndexPartition) {
        let server = self.servers.get_mut(&partition).expect("a partition");
        server.copy = server.data.clone();
    }

    /// The replica takes over, or the server comes back with its snapshot.
    pub(super) fn replace(&mut self, partition: IndexPartition) {
        self.processes += 1;
        let server = self.servers.get_mut(&partition).expect("a partition");
        server.process = self.processes;
        server.data = server.copy.clone();
    }

    /// The same server loses everything.
    pub(super) fn flush(&mut self, partition: IndexPartition) {
        *self.data(partition) = Partition::default();
    }

    /// Whether readers believe a partition.
    pub(super) fn is_believed(&self, partition: IndexPartition) -> bool {
        let marker = &self.server(partition).data.state.marker;
        marker.judge(OWNER, self.now, MAX_AGE).is_ok()
    }

    /// Whether a partition ranks all of its changes before this instant.
    pub(super) fn ranks_all_before(
        &self,
        partition: IndexPartition,
        data: &Partition,
        end: Timestamp,
    ) -> bool {
        let mut changes = self.changes.iter().enumerate();
        changes.all(|(number, change)| {
            change.partition != partition || change.at >= end || data.ranked.contains(&number)
        })
    }
}
