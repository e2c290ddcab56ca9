//! What the model checks in every state. Each is a sentence of `docs/guarantees.md`.

use model::Timestamp;
use page_index::IndexPartition;
use stateright::Property;

use super::{
    Protocol,
    system::{Command, System},
    world::{PARTITIONS, Partition, World},
};
use crate::run::settings::{JobSettings, ms};

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumIter)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Promise {
    /// A partition that readers believe ranks every change up to its confirmation. The page indexer
    /// may lag.
    BelievedIsComplete,
    /// A partition that a rebuild has marked ranks every change up to its watermark.
    MarkedIsFilled,
    /// A partition ranks every change that its watermark has passed.
    WatermarkPassesNoLoss,
    /// When faults have ended, the page index is ready and whole after a few runs.
    ReadyAgain,
    /// A partition that readers believe ranks everything that the page indexer has delivered.
    /// Not promised.
    NoLossIsBelieved,
    /// The same, for readers who also compare the servers with those of the last confirmation.
    NoLossIsBelievedByServers,
}

impl Promise {
    /// The sentence of `docs/guarantees.md`.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::BelievedIsComplete => {
                "a page index that lost writes is checked before it is confirmed again"
            }
            Self::MarkedIsFilled => "a rebuild marks a page index ready only when it is right",
            Self::WatermarkPassesNoLoss => {
                "`recent` repairs all drift of changes in the journal, `audit` all drift"
            }
            Self::ReadyAgain => "a job may die anywhere; the next run (`audit --since`) goes on",
            Self::NoLossIsBelieved | Self::NoLossIsBelievedByServers => {
                "After a fail-over to a lagging replica, a restored snapshot, or an eviction, readers may believe lost ranks"
            }
        }
    }

    pub(super) fn property(self) -> Property<Protocol> {
        match self {
            Self::BelievedIsComplete => Property::always(
                "believed-is-complete",
                |protocol: &Protocol, system: &System| {
                    believed_is_complete(&system.world, &protocol.settings)
                },
            ),
            Self::MarkedIsFilled => Property::always("marked-is-filled", |_, system: &System| {
                marked_is_filled(&system.world)
            }),
            Self::WatermarkPassesNoLoss => {
                Property::always("watermark-passes-no-loss", |_, system: &System| {
                    watermark_passes_no_loss(&system.world)
                })
            }
            Self::ReadyAgain => {
                Property::always("ready-again", |protocol: &Protocol, system: &System| {
                    is_ready_again(system, &protocol.settings)
                })
            }
            Self::NoLossIsBelieved => {
                Property::always("no-loss-is-believed", |_, system: &System| {
                    let world = &system.world;
                    no_loss_is_believed(world, |partition| world.is_believed(partition))
                })
            }
            Self::NoLossIsBelievedByServers => {
                Property::always("no-loss-is-believed-by-servers", |_, system: &System| {
                    let world = &system.world;
                    no_loss_is_believed(world, |partition| {
                        world.is_believed(partition) && has_confirmed_servers(world)
                    })
                })
            }
        }
    }
}

fn believed_is_complete(world: &World, settings: &JobSettings) -> bool {
    IndexPartition::all(PARTITIONS).all(|partition| {
        let data = &world.server(partition).data;
        let Some(confirmed) = data.state.marker.confirmed else {
            return true;
        };
        let sampled_to = confirmed.plus_ms(-ms(settings.indexer_lag));
        !world.is_believed(partition) || world.ranks_all_before(partition, data, sampled_to)
    })
}

fn marked_is_filled(world: &World) -> bool {
    every_partition(world, |data| {
        let marker = &data.state.marker;
        let token = marker.token.as_deref().unwrap_or_default();
        let is_of_rebuild = token.starts_with("rebuild");
        marker.watermark.filter(|_| is_of_rebuild)
    })
}

fn watermark_passes_no_loss(world: &World) -> bool {
    every_partition(world, |data| data.state.marker.watermark)
}

/// Whether every partition, and every copy of one, ranks all changes before its instant.
fn every_partition(world: &World, before: fn(&Partition) -> Option<Timestamp>) -> bool {
    world.servers.iter().all(|(partition, server)| {
        [&server.data, &server.copy].into_iter().all(|data| {
            before(data).is_none_or(|end| world.ranks_all_before(*partition, data, end))
        })
    })
}

fn no_loss_is_believed(world: &World, is_believed: impl Fn(IndexPartition) -> bool) -> bool {
    let mut delivered = world.changes.iter().take(world.delivered).enumerate();
    delivered.all(|(number, change)| {
        let data = &world.server(change.partition).data;
        data.ranked.contains(&number) || !is_believed(change.partition)
    })
}

/// What the rule adds to a reader's judgement: no other server answers than when the table was
/// confirmed last, and nothing is being checked.
fn has_confirmed_servers(world: &World) -> bool {
    let stored = world.confirmation.as_ref();
    stored.is_some_and(|last| last.has_confirmed(&world.identity()))
}

/// How many pairs of scheduled runs, `recent` and a rebuild of what is missing, may be needed.
const ROUNDS_MAX: u32 = 3;

/// How many calls such a run may make.
const CALLS_MAX: u32 = 100;

/// Whether the scheduled runs make the page index ready and whole once nothing fails any more. Runs
/// under way end by themselves, so the promise is checked where there is none.
fn is_ready_again(system: &System, settings: &JobSettings) -> bool {
    if system.runs.iter().any(Option::is_some) {
        return true;
    }
    let mut system = system.clone();
    while system.world.delivered < system.world.changes.len() {
        system.world.deliver();
    }
    for _ in 0..ROUNDS_MAX {
        for command in [Command::Recent, Command::RebuildMissing] {
            run_alone(&mut system, command, settings);
        }
        if is_ready(&system.world) {
            return true;
        }
    }
    false
}

fn run_alone(system: &mut System, command: Command, settings: &JobSettings) {
    system.begin(0, command);
    for _ in 0..CALLS_MAX {
        if system.runs[0].is_none() {
            return;
        }
        system.go_on(0, settings);
    }
    panic!("a run made more than {CALLS_MAX} calls");
}

fn is_ready(world: &World) -> bool {
    IndexPartition::all(PARTITIONS).all(|partition| {
        let data = &world.server(partition).data;
        world.is_believed(partition) && world.ranks_all_before(partition, data, world.now)
    })
}
