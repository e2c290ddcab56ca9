//! A running stack under faults, for as long as one likes: `make soak`.
//!
//! Real are `pagemark up` as a process, its data on a small disk, and a Redis server. Writers and
//! readers use the HTTP API while faults happen. After some 25 s the faults end, the repair job
//! runs, and the simulator's model and checks judge everything. A seed draws what is asked for and
//! which faults happen. When each happens depends on the machine, so a seed does not repeat a run
//! exactly.
//!
//! - `site`: the processes, their disk, and the lines between them. `faults`: what happens to them.
//! - `writers`, `readers`: the clients. `judge`: what holds when the faults have ended.
//! - `tally`: what was done.

mod disk;
mod faults;
mod judge;
mod line;
mod readers;
mod site;
mod tally;
mod writers;

use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use model::{Invariant, Timestamp};
use process::now;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::Instant;

use crate::simulator::{
    model::Model,
    world::{Answer, Judged, Violation},
};
use site::{Life, Site};
use tally::Tally;

const _: crate::Engines = crate::Engines::Embedded("the data folder has the embedded engine");

/// How long the faults of a round may happen.
const ROUND: Duration = Duration::from_secs(25);

const WRITERS: usize = 4;
const READERS: usize = 4;

/// What all actors of a soak share.
struct Soak {
    site: Site,
    model: Mutex<Model>,
    tally: Tally,
    violation: Mutex<Option<Violation>>,
    bodies: AtomicU64,
    /// Whether the faults of the round go on.
    is_stormy: AtomicBool,
    /// When all that is derived was whole last; `None` if it was damaged since. Readers may then take
    /// damaged ranks for absent (`docs/guarantees.md`, "Not promised").
    whole_since: Mutex<Option<Timestamp>>,
}

impl Soak {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    fn new_body(&self) -> String {
        format!("text {}", self.bodies.fetch_add(1, Ordering::Relaxed))
    }

    fn is_stormy(&self) -> bool {
        self.is_stormy.load(Ordering::Relaxed) && self.violation.lock().unwrap().is_none()
    }

    /// Waits for at most so long.
    async fn pause(&self, random: &mut StdRng, longest: Duration) {
        tokio::time::sleep(longest.mul_f64(random.random())).await;
    }
}

impl Judged for Soak {
    async fn read(&self, url: &str) -> Answer {
        self.tally.add("read: pages at rest", 1);
        readers::get(self, url).await.unwrap_or_else(|| Answer {
            status: 0,
            body: "no answer".to_owned(),
            named: Vec::new(),
        })
    }

    fn violated(&self, invariant: Invariant, what: String) {
        let violation = Violation { invariant, what };
        println!("soak: {violation}");
        self.violation.lock().unwrap().get_or_insert(violation);
    }
}

/// A variable of `make soak`.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}, and takes a number")),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes an hour: make soak"]
async fn nothing_is_lost_or_wrong_whatever_fails() {
    let time = Duration::from_secs(number("PAGEMARK_SOAK_SECONDS").unwrap_or(3_600));
    let seed = number("PAGEMARK_SOAK_SEED").unwrap_or_else(|| rand::random_range(0..1_000_000));
    println!("soak: seed {seed}, {} s", time.as_secs());
    let soak = Soak {
        site: Site::new().await,
        model: Mutex::default(),
        tally: Tally::default(),
        violation: Mutex::default(),
        bodies: AtomicU64::default(),
        is_stormy: AtomicBool::default(),
        // It has no comment yet.
        whole_since: Mutex::new(Some(now())),
    };
    faults::announce(&soak.tally);
    let began = Instant::now();
    let mut number = 0;
    while began.elapsed() < time {
        round(&soak, seed, number).await;
        let violation = soak.violation.lock().unwrap().clone();
        let so_far = began.elapsed().as_secs();
        if let Some(violation) = violation {
            println!("{}\n{}", soak.tally, soak.site.said());
            panic!("seed {seed}, round {number}, after {so_far} s: {violation}");
        }
        println!(
            "soak: round {number} held, {so_far} s; {}",
            soak.tally.line()
        );
        number += 1;
    }
    soak.site.stop().await;
    println!("{}", soak.tally);
    println!(
        "soak: {number} rounds in {} s, seed {seed}: nothing was lost or wrong",
        began.elapsed().as_secs()
    );
}

/// Faults, and then calm and a judgement.
async fn round(soak: &Soak, seed: u64, number: u64) {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(number << 32));
    soak.tally.add("rounds", 1);
    if number > 0 {
        faults::damage(soak, &mut random).await;
    }
    let life = Life::draw(&mut random);
    let is_killed = random.random();
    soak.site.begin(life, is_killed, &soak.tally).await;
    soak.is_stormy.store(true, Ordering::Relaxed);
    let writers = (0..WRITERS).map(|_| StdRng::from_rng(&mut random));
    let writers: Vec<StdRng> = writers.collect();
    let readers = (0..READERS).map(|_| StdRng::from_rng(&mut random));
    let readers: Vec<StdRng> = readers.collect();
    let of_stack = StdRng::from_rng(&mut random);
    let of_index = StdRng::from_rng(&mut random);
    tokio::join!(
        async {
            tokio::time::sleep(ROUND).await;
            soak.is_stormy.store(false, Ordering::Relaxed);
        },
        faults::of_the_stack(soak, of_stack),
        faults::of_the_index(soak, of_index),
        join_all(
            writers
                .into_iter()
                .map(|random| writers::write(soak, random))
        ),
        join_all(
            readers
                .into_iter()
                .map(|random| readers::read(soak, random))
        ),
    );
    if soak.violation.lock().unwrap().is_none() {
        judge::judge(soak, &mut random, number).await;
    }
}
