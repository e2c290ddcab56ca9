//! Asks a run to stop.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::Serialize;
use table::capacity::Interrupt;
use tokio::time::Instant;

/// Why a run stops: a later reason outweighs an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    #[strum(to_string = "its time is up")]
    TimeIsUp,
    #[strum(to_string = "it was asked to stop")]
    Asked,
    #[strum(to_string = "its lease was lost to another run")]
    LeaseLost,
}

/// Asks a run to stop: the run completes what it has begun, stores its position, and reports. Clones share one stop.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Its deadline. It also ends waiting for a limit of units.
    interrupt: Interrupt,
    asked: Arc<Mutex<Option<StopReason>>>,
}

impl Stop {
    /// A stop after some time. With `None`, only [`Stop::ask`] stops the run.
    pub fn after(max_run_time: Option<Duration>) -> Self {
        Self::at(max_run_time.map(|time| Instant::now() + time))
    }

    /// A stop at an instant. With `None`, only [`Stop::ask`] stops the run.
    pub fn at(deadline: Option<Instant>) -> Self {
        Self { interrupt: Interrupt::at(deadline), asked: Arc::default() }
    }

    pub fn ask(&self) {
        self.say(StopReason::Asked);
    }

    pub(crate) fn lose_lease(&self) {
        self.say(StopReason::LeaseLost);
    }

    fn say(&self, reason: StopReason) {
        let mut asked = self.asked.lock();
        *asked = (*asked).max(Some(reason));
        self.interrupt.interrupt();
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.interrupt.deadline()
    }

    pub(crate) fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    pub fn reason(&self) -> Option<StopReason> {
        let is_up = |deadline: &Instant| Instant::now() >= *deadline;
        self.asked.lock().or_else(|| self.deadline().filter(is_up).map(|_| StopReason::TimeIsUp))
    }
}
