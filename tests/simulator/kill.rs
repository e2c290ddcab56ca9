//! `kill -9` of `pagemark up`, and its start.
//!
//! Everything runs in its process. Requests, invocations, and runs of the repair job end at once,
//! and the page index is gone. A start finds the stream and the last snapshot of the page index,
//! and takes the steps of `local_stack::stack`.

use std::{path::Path, time::Duration};

use embedded_index::EmbeddedIndex;
use local_stack::{
    index_keeper::{IndexKeeper, KeeperState},
    repair::release_leases,
};
use process::now;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};

use super::{index::PARTITIONS, mappings::Position, world::World};

/// The most kills in a schedule. A start makes both API processes, which takes long.
const KILLS_MAX: usize = 3;

/// The longest lives. A short one ends while the start reads the stream or reconciles the journal.
const LIVES: [Duration; 3] = [
    Duration::from_secs(30),
    Duration::from_secs(200),
    Duration::from_secs(1_500),
];

/// The longest pause between two snapshots.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(200);

/// Kills it again and again, also while it starts. In a calm world the last start comes to its end.
pub(crate) async fn kills(world: &World) {
    let mut random = world.plan.random("kills");
    let snapshot = world.folder.path().join("page-index.snapshot");
    let table_id = world.calm_table().describe().await.unwrap().id;
    for number in 0..=KILLS_MAX {
        let lives_for = LIVES.choose(&mut random).unwrap().mul_f64(random.random());
        let life = async {
            if number > 0 {
                Box::pin(start(world, &snapshot, &table_id, &mut random)).await;
            }
            while !world.is_calm() {
                let pause = SNAPSHOT_EVERY.mul_f64(random.random());
                world.while_not_calm(pause).await;
                save(world, &snapshot, &table_id).await;
            }
        };
        let ends = async {
            tokio::time::sleep(lives_for).await;
            if number == KILLS_MAX || world.is_calm() {
                std::future::pending().await
            }
        };
        tokio::select! {
            biased;
            () = life => return,
            () = ends => {}
        }
        world.trace.note(|| "pagemark is killed".to_owned());
        world.is_starting.set(true);
        world.killed.notify_waiters();
    }
}

/// Writes a snapshot of the page index if readers may believe it.
async fn save(world: &World, snapshot: &Path, table_id: &str) {
    let index = world.servers.calm_client();
    let is_ready = index.is_ready(table_id, now()).await.unwrap();
    world
        .trace
        .note(|| format!("a snapshot of the page index: {is_ready}"));
    if is_ready {
        world.servers.present().save(snapshot, table_id).unwrap();
    }
}

async fn start(world: &World, snapshot: &Path, table_id: &str, random: &mut StdRng) {
    let opened = EmbeddedIndex::open(snapshot, table_id, PARTITIONS);
    let is_from_snapshot = opened.is_ok();
    let index = opened.unwrap_or_else(|_| EmbeddedIndex::new(PARTITIONS));
    world.servers.restart_with(index);
    Position::restart(&world.positions, random);
    world
        .trace
        .note(|| format!("pagemark starts, with a snapshot: {is_from_snapshot}"));
    world.restart_apis().await;
    release_leases(&world.calm_table()).await.unwrap();
    world.stream.poll(&world.engine);
    let newest = world.stream.end();
    while !world.positions[1].is_past(newest) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let keeper = IndexKeeper::new(
        world.table("keeper"),
        table_id.to_owned(),
        world.index("keeper"),
    );
    let mut state = keeper.state();
    tokio::select! {
        biased;
        () = Box::pin(keeper.run(std::future::ready(()), is_from_snapshot)) => unreachable!("it runs for ever"),
        ready = state.wait_for(|state| *state == KeeperState::Ready) => drop(ready),
    }
    world
        .trace
        .note(|| "the page index is ready after the start".to_owned());
    world.is_starting.set(false);
}
