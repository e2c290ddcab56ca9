//! How many units calls to the table consume, and how many they may.
//!
//! DynamoDB tells what a call has consumed when it answers (`ReturnConsumedCapacity`), so a call is let through when those
//! before it have been paid for, and is paid for afterwards: a limit is kept over seconds, not by each call. A transaction
//! that is cancelled tells nothing and is not counted.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use tokio::{sync::watch, time::Instant};

use crate::Table;

/// What may be saved up while nothing is called.
const BURST: Duration = Duration::from_secs(1);

/// Units of reading and of writing, of the table and its index together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Units {
    /// Read units.
    pub read: f64,
    /// Write units.
    pub write: f64,
}

/// Ends waiting: at an instant, or when somebody says so. Clones are the same interrupt.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    deadline: Option<Instant>,
    said: Arc<watch::Sender<bool>>,
}

impl Interrupt {
    /// An interrupt at an instant, `None` for never by itself.
    pub fn at(deadline: Option<Instant>) -> Self {
        Self { deadline, said: Arc::default() }
    }

    /// When it comes by itself.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Ends waiting now.
    pub fn interrupt(&self) {
        self.said.send_replace(true);
    }

    async fn come(&self) {
        let mut said = self.said.subscribe();
        // The sender lives as long as this.
        let said = async { said.wait_for(|said| *said).await.is_ok() };
        match self.deadline {
            Some(deadline) => drop(tokio::time::timeout_at(deadline, said).await),
            None => drop(said.await),
        }
    }
}

/// Counts the units that the calls of a [`Table`] consume, and holds calls back over a limit.
#[derive(Debug, Default)]
pub struct Meter {
    read: Bucket,
    write: Bucket,
    interrupt: Interrupt,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Units a second, `None` for any number.
    limit: Option<f64>,
    state: Mutex<BucketState>,
}

#[derive(Debug, Default)]
struct BucketState {
    consumed: f64,
    /// When everything that was consumed has been paid for.
    paid_at: Option<Instant>,
}

impl Meter {
    /// A meter with limits in units a second, `None` for none.
    pub fn new(read_limit: Option<u32>, write_limit: Option<u32>) -> Self {
        let bucket =
            |limit: Option<u32>| Bucket { limit: limit.map(|units| f64::from(units.max(1))), state: Mutex::default() };
        Self { read: bucket(read_limit), write: bucket(write_limit), interrupt: Interrupt::default() }
    }

    /// The same, but after the interrupt no call is held back: what is under way ends, whatever it consumes.
    #[must_use]
    pub fn until(self, interrupt: Interrupt) -> Self {
        Self { interrupt, ..self }
    }

    /// What has been consumed so far.
    pub fn consumed(&self) -> Units {
        Units { read: self.read.locked().consumed, write: self.write.locked().consumed }
    }
}

impl Bucket {
    fn locked(&self) -> MutexGuard<'_, BucketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until what was consumed has been paid for, or for the interrupt.
    async fn admit(&self, interrupt: &Interrupt) {
        let paid_at = self.locked().paid_at;
        if let Some(paid_at) = paid_at {
            tokio::select! {
                () = tokio::time::sleep_until(paid_at) => {}
                () = interrupt.come() => {}
            }
        }
    }

    fn charge(&self, units: f64) {
        self.charge_at(units, Instant::now());
    }

    fn charge_at(&self, units: f64, now: Instant) {
        let mut state = self.locked();
        state.consumed += units;
        let Some(limit) = self.limit else { return };
        let saved = now.checked_sub(BURST).unwrap_or(now);
        let from = state.paid_at.map_or(saved, |paid_at| paid_at.max(saved));
        state.paid_at = Some(from + Duration::from_secs_f64(units / limit));
    }
}

/// The units that an answer tells.
fn told<'answer>(answers: impl IntoIterator<Item = &'answer ConsumedCapacity>) -> f64 {
    answers.into_iter().filter_map(|consumed| consumed.capacity_units).sum()
}

impl Table {
    /// What a call asks to be told: nothing of a table without a meter.
    pub(crate) fn wants_capacity(&self) -> Option<ReturnConsumedCapacity> {
        self.meter.as_ref().map(|_| ReturnConsumedCapacity::Total)
    }

    /// Waits until a call that reads may be made.
    pub(crate) async fn admit_read(&self) {
        if let Some(meter) = &self.meter {
            meter.read.admit(&meter.interrupt).await;
        }
    }

    /// Waits until a call that writes may be made.
    pub(crate) async fn admit_write(&self) {
        if let Some(meter) = &self.meter {
            meter.write.admit(&meter.interrupt).await;
        }
    }

    /// Counts what a call that read says it has consumed.
    pub(crate) fn charge_read_units(&self, units: f64) {
        if let Some(meter) = &self.meter {
            meter.read.charge(units);
        }
    }

    /// Counts what a call that read has consumed.
    pub(crate) fn charge_read<'answer>(&self, consumed: impl IntoIterator<Item = &'answer ConsumedCapacity>) {
        if let Some(meter) = &self.meter {
            meter.read.charge(told(consumed));
        }
    }

    /// Counts what a call that wrote has consumed.
    pub(crate) fn charge_write<'answer>(&self, consumed: impl IntoIterator<Item = &'answer ConsumedCapacity>) {
        if let Some(meter) = &self.meter {
            meter.write.charge(told(consumed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_consumed_is_paid_for_before_the_next_call() {
        let meter = Meter::new(Some(10), None);
        let began = Instant::now();
        let mut now = began;
        for _ in 0..5 {
            now = meter.read.locked().paid_at.map_or(now, |paid_at| paid_at.max(now));
            meter.read.charge_at(20.0, now);
            meter.write.charge_at(1_000.0, now);
        }
        // A second was saved up, and what the last call consumed is paid for by the next.
        assert_eq!((now - began).as_secs(), 4 * 2 - 1);
        assert_eq!(meter.write.locked().paid_at, None);
        assert_eq!(meter.consumed(), Units { read: 100.0, write: 5_000.0 });
    }

    #[tokio::test]
    async fn an_interrupt_ends_waiting_for_what_is_not_paid_for() {
        let soon = Some(Instant::now() + Duration::from_millis(1));
        for (interrupt, is_said) in [(Interrupt::default(), true), (Interrupt::at(soon), false)] {
            let meter = Meter::new(Some(1), None).until(interrupt.clone());
            meter.read.charge(1e6);
            if is_said {
                interrupt.interrupt();
            }
            // Otherwise, eleven days.
            meter.read.admit(&meter.interrupt).await;
        }
    }
}
