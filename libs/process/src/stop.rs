//! Asks a run to stop.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio::{sync::watch, time::Instant};

/// Why a run stops: a later reason outweighs an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A part of the run has failed. Work under way completes, and nothing new begins.
    #[strum(to_string = "the run has failed")]
    StoreFailed,
    #[strum(to_string = "its time is up")]
    TimeIsUp,
    #[strum(to_string = "it was asked to stop")]
    Asked,
    #[strum(to_string = "its lease was lost to another run")]
    LeaseLost,
}

/// Asks a run to stop: the run completes what it has begun, stores its position, and reports.
/// Clones share one stop.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    deadline: Option<Instant>,
    asked: Arc<watch::Sender<Option<StopReason>>>,
}

impl Stop {
    /// A stop after some time. With `None`, only a call stops the run.
    pub fn after(max_run_time: Option<Duration>) -> Self {
        Self::at(max_run_time.map(|time| Instant::now() + time))
    }

    /// A stop at an instant. With `None`, only a call stops the run.
    pub fn at(deadline: Option<Instant>) -> Self {
        Self {
            deadline,
            ..Self::default()
        }
    }

    pub fn ask(&self) {
        self.ask_because(StopReason::Asked);
    }

    pub fn ask_because(&self, reason: StopReason) {
        self.asked
            .send_modify(|asked| *asked = (*asked).max(Some(reason)));
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub fn reason(&self) -> Option<StopReason> {
        let asked = *self.asked.borrow();
        if asked.is_some() {
            return asked;
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Some(StopReason::TimeIsUp),
            Some(_) | None => None,
        }
    }

    /// Waits until there is a reason.
    pub async fn come(&self) {
        let mut asked = self.asked.subscribe();
        // `self` owns the sender, so waiting cannot fail.
        let asked = async { asked.wait_for(Option::is_some).await.is_ok() };
        match self.deadline {
            Some(deadline) => drop(tokio::time::timeout_at(deadline, asked).await),
            None => drop(asked.await),
        }
    }
}
