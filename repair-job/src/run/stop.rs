//! Asks a run to stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use table::capacity::Interrupt;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::Display)]
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
    asked: Arc<AtomicU8>,
}

const ASKED: u8 = 1;
const LEASE_LOST: u8 = 2;

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
        self.asked.fetch_max(ASKED, Ordering::Relaxed);
        self.interrupt.interrupt();
    }

    pub(crate) fn lose_lease(&self) {
        self.asked.fetch_max(LEASE_LOST, Ordering::Relaxed);
        self.interrupt.interrupt();
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.interrupt.deadline()
    }

    pub(crate) fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    pub fn reason(&self) -> Option<StopReason> {
        match self.asked.load(Ordering::Relaxed) {
            0 => self.deadline().filter(|deadline| Instant::now() >= *deadline).map(|_| StopReason::TimeIsUp),
            ASKED => Some(StopReason::Asked),
            _ => Some(StopReason::LeaseLost),
        }
    }
}
