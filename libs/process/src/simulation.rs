//! The clock and the chance of a simulation: both follow from a seed, in the thread that runs it.
//!
//! The simulated time is that of the runtime, which must be paused. So a simulated hour takes as
//! long as its calls.

use std::cell::RefCell;

use model::Timestamp;
use rand::{
    RngExt, SeedableRng,
    distr::{Distribution, StandardUniform},
    rngs::StdRng,
};
use tokio::time::Instant;

struct Simulation {
    began: Instant,
    epoch: Timestamp,
    random: StdRng,
}

thread_local! {
    static SIMULATION: RefCell<Option<Simulation>> = const { RefCell::new(None) };
}

tokio::task_local! {
    /// How many milliseconds the clock of a process is ahead.
    static AHEAD_MS: i64;
}

/// Begins a simulation in this thread, or another one. It is `epoch` now.
pub fn begin(seed: u64, epoch: Timestamp) {
    let simulation = Simulation {
        began: Instant::now(),
        epoch,
        random: StdRng::seed_from_u64(seed),
    };
    SIMULATION.set(Some(simulation));
}

pub fn end() {
    SIMULATION.set(None);
}

/// Runs a part of the simulation by a clock that is so many milliseconds ahead.
pub async fn with_clock_ahead<T>(ms: i64, part: impl Future<Output = T>) -> T {
    AHEAD_MS.scope(ms, part).await
}

pub(crate) fn now() -> Option<Timestamp> {
    let ahead_ms = AHEAD_MS.try_with(|ms| *ms).unwrap_or_default();
    SIMULATION.with_borrow(|simulation| {
        let Simulation { began, epoch, .. } = simulation.as_ref()?;
        let passed_ms = i64::try_from(began.elapsed().as_millis()).ok()?;
        Timestamp::from_epoch_ms(epoch.epoch_ms() + passed_ms + ahead_ms).ok()
    })
}

pub(crate) fn random<T>() -> Option<T>
where
    StandardUniform: Distribution<T>,
{
    SIMULATION.with_borrow_mut(|simulation| Some(simulation.as_mut()?.random.random()))
}
