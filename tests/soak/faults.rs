//! What fails while readers and writers are at work, and what is damaged before.

use std::{fmt::Display, time::Duration};

use model::{Comment, Invariant};
use process::now;
use rand::{
    RngExt,
    rngs::StdRng,
    seq::{IndexedRandom, SliceRandom},
};
use redis::InfoDict;
use strum::VariantArray;

use super::{Soak, site::CLOCK_BACK, tally::Tally};
use crate::{
    fixture::damage::{Damage, Damaged, inflict},
    simulator::world::Judged,
};

/// The longest that a fault lasts.
const FAULT_MAX: Duration = Duration::from_secs(5);

/// The longest time between two faults of the stack, and of Redis. A page index that was lost needs
/// some seconds until it is believed again.
const BETWEEN_MAX: Duration = Duration::from_secs(6);
const BETWEEN_OF_INDEX_MAX: Duration = Duration::from_secs(12);

/// How many comments are damaged before a round, at most.
const DAMAGES_MAX: usize = 12;

#[derive(Debug, Clone, Copy, strum::Display, VariantArray)]
enum StackFault {
    #[strum(to_string = "kill -9 of pagemark")]
    Kill,
    #[strum(to_string = "orderly stop of pagemark")]
    Restart,
    #[strum(to_string = "SIGSTOP of pagemark")]
    Stop,
    #[strum(to_string = "full disk")]
    FullDisk,
    #[strum(to_string = "slow engine")]
    SlowEngine,
    #[strum(to_string = "connections to the engine cut")]
    CutEngine,
}

#[derive(Debug, Clone, Copy, strum::Display, VariantArray)]
enum IndexFault {
    #[strum(to_string = "kill -9 of Redis, which loses everything")]
    Empty,
    #[strum(to_string = "kill -9 of Redis, which has an old snapshot")]
    Restore,
    #[strum(to_string = "SIGSTOP of Redis")]
    Stop,
    #[strum(to_string = "eviction")]
    Evict,
    #[strum(to_string = "slow Redis")]
    Slow,
    #[strum(to_string = "connections to Redis cut")]
    Cut,
}

/// The kinds of damage that are repaired. Without its primary item a comment is lost, and nothing
/// promises to bring it back.
fn kinds_of_damage() -> Vec<Damage> {
    let mut kinds = Damage::VARIANTS.to_vec();
    kinds.retain(|damage| *damage != Damage::DropPrimary);
    kinds
}

/// The table names also what is never drawn.
pub(super) fn announce(tally: &Tally) {
    tally.add(CLOCK_BACK, 0);
    for fault in StackFault::VARIANTS {
        tally.add(format!("fault: {fault}"), 0);
    }
    for fault in IndexFault::VARIANTS {
        tally.add(format!("fault: {fault}"), 0);
    }
    for damage in kinds_of_damage() {
        tally.add(format!("damage: {damage:?}"), 0);
    }
}

fn note(soak: &Soak, fault: impl Display) {
    soak.tally.add(format!("fault: {fault}"), 1);
}

/// The faults of the stack's process, its disk, and its engine, one after another.
pub(super) async fn of_the_stack(soak: &Soak, mut random: StdRng) {
    let mut faults = StackFault::VARIANTS.to_vec();
    if !soak.site.disk.can_be_full() {
        faults.retain(|fault| !matches!(fault, StackFault::FullDisk));
    }
    loop {
        soak.pause(&mut random, BETWEEN_MAX).await;
        if soak.site.has_ended_unasked().await {
            return soak.violated(
                Invariant::WorkEnds,
                "pagemark up has ended without being asked to".to_owned(),
            );
        }
        if !soak.is_stormy() {
            return;
        }
        let fault = *faults.choose(&mut random).unwrap();
        let lasts = FAULT_MAX.mul_f64(random.random());
        let site = &soak.site;
        match fault {
            StackFault::Kill | StackFault::Restart => {
                let is_killed = matches!(fault, StackFault::Kill);
                let down = lasts.div_f64(4.0);
                site.restart(is_killed, down, &soak.tally).await;
            }
            StackFault::Stop => {
                note(soak, fault);
                site.signal("STOP").await;
                tokio::time::sleep(lasts).await;
                site.signal("CONT").await;
            }
            StackFault::FullDisk => {
                note(soak, fault);
                site.disk.fill();
                tokio::time::sleep(lasts).await;
                site.disk.make_room();
            }
            StackFault::SlowEngine => {
                if let Some(line) = site.engine_line().await {
                    note(soak, fault);
                    line.delay(Duration::from_millis(random.random_range(20..1_500)));
                    tokio::time::sleep(lasts).await;
                    line.delay(Duration::ZERO);
                }
            }
            StackFault::CutEngine => {
                if let Some(line) = site.engine_line().await {
                    note(soak, fault);
                    line.cut();
                }
            }
        }
    }
}

/// The faults of Redis, one after another.
pub(super) async fn of_the_index(soak: &Soak, mut random: StdRng) {
    loop {
        soak.pause(&mut random, BETWEEN_OF_INDEX_MAX).await;
        if !soak.is_stormy() {
            return;
        }
        // An old snapshot, for later.
        if random.random_ratio(1, 3) {
            soak.site.redis.ask::<()>("SAVE").await;
        }
        let fault = *IndexFault::VARIANTS.choose(&mut random).unwrap();
        let lasts = FAULT_MAX.mul_f64(random.random());
        let redis = &soak.site.redis;
        match fault {
            IndexFault::Empty => {
                note(soak, fault);
                redis.server.kill().await;
                soak.site.forget_dump();
                tokio::time::sleep(lasts).await;
                redis.server.restart().await;
            }
            IndexFault::Restore => {
                if !soak.site.has_dump() {
                    continue;
                }
                note(soak, fault);
                redis.server.kill().await;
                tokio::time::sleep(lasts).await;
                redis.server.restart().await;
            }
            IndexFault::Stop => {
                note(soak, fault);
                redis.server.signal("STOP");
                tokio::time::sleep(lasts).await;
                redis.server.signal("CONT");
            }
            IndexFault::Evict => {
                if evict(soak, &mut random).await {
                    note(soak, fault);
                }
            }
            IndexFault::Slow => {
                note(soak, fault);
                let delay = Duration::from_millis(random.random_range(5..500));
                soak.site.redis_line.delay(delay);
                tokio::time::sleep(lasts).await;
                soak.site.redis_line.delay(Duration::ZERO);
            }
            IndexFault::Cut => {
                note(soak, fault);
                soak.site.redis_line.cut();
            }
        }
    }
}

/// Has Redis evict some keys, as after a change of its policy. Returns whether it did.
async fn evict(soak: &Soak, random: &mut StdRng) -> bool {
    let redis = &soak.site.redis;
    let before = info(soak, "evicted_keys").await;
    let used = info(soak, "used_memory").await;
    redis
        .ask::<()>("CONFIG SET maxmemory-policy allkeys-random")
        .await;
    let limit = used - random.random_range(10_000..used / 4);
    redis
        .ask::<()>(&format!("CONFIG SET maxmemory {limit}"))
        .await;
    redis.ask::<()>("PING").await;
    redis.ask::<()>("CONFIG SET maxmemory 0").await;
    redis
        .ask::<()>("CONFIG SET maxmemory-policy noeviction")
        .await;
    info(soak, "evicted_keys").await > before
}

async fn info(soak: &Soak, field: &str) -> u64 {
    let info: InfoDict = soak.site.redis.ask("INFO").await;
    info.get(field).expect("a number")
}

/// Damages what is derived from some comments, in a quiet system.
pub(super) async fn damage(soak: &Soak, random: &mut StdRng) {
    // After damage neither a 404 nor a gap in a walk can be judged, so half of the rounds have none.
    if random.random() {
        return;
    }
    let count = random.random_range(1..=DAMAGES_MAX);
    *soak.whole_since.lock().unwrap() = None;
    let mut comments: Vec<Comment> = Vec::new();
    for comment in soak.model().stable_since(now()) {
        comments.push(comment.clone());
    }
    comments.shuffle(random);
    let kinds = kinds_of_damage();
    let table = soak.site.table().await;
    let config = soak.site.index_config(&table).await;
    let index = redis_index::connect(&config).unwrap();
    let damaged = Damaged {
        table: &table,
        index: &index,
        redis: Some(&config),
    };
    for comment in comments.iter().take(count) {
        let kind = *kinds.choose(random).unwrap();
        inflict(damaged, comment, kind).await;
        soak.tally.add(format!("damage: {kind:?}"), 1);
    }
}
