//! Counts the units that calls to the table consume, and limits their rate.
//!
//! DynamoDB reports consumed units only in its answer (`ReturnConsumedCapacity`). So a call starts
//! when the earlier calls are paid for, and pays afterwards. The limit therefore holds over
//! seconds, not for each call. A cancelled transaction reports nothing and is not counted.

use std::time::Duration;

use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use parking_lot::Mutex;
use process::Stop;
use tokio::time::Instant;

/// Unused capacity that may accumulate while no call is made.
const BURST: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Units {
    pub read: f64,
    pub write: f64,
}

/// Counts the units that the calls of a `Table` consume, and holds calls back over a limit. The
/// default counts nothing.
#[derive(Debug, Default)]
pub struct Meter {
    pub(crate) read: RateLimiter,
    pub(crate) write: RateLimiter,
}

#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    counts: bool,
    /// Units per second; `None` means unlimited.
    limit: Option<f64>,
    stop: Stop,
    state: Mutex<LimiterState>,
}

#[derive(Debug, Default)]
struct LimiterState {
    consumed: f64,
    /// When all consumed units are paid for.
    paid_at: Option<Instant>,
}

impl Meter {
    /// A meter with limits in units per second; `None` means unlimited.
    pub fn new(read_limit: Option<u32>, write_limit: Option<u32>) -> Self {
        Self {
            read: RateLimiter::new(read_limit),
            write: RateLimiter::new(write_limit),
        }
    }

    /// Sets a stop. After it, the meter delays no call: work under way ends without a limit.
    #[must_use]
    pub fn until(mut self, stop: &Stop) -> Self {
        self.read.stop = stop.clone();
        self.write.stop = stop.clone();
        self
    }

    pub fn consumed(&self) -> Units {
        Units {
            read: self.read.state.lock().consumed,
            write: self.write.state.lock().consumed,
        }
    }

    /// The report to request from DynamoDB.
    pub(crate) fn report(&self) -> Option<ReturnConsumedCapacity> {
        self.read.counts.then_some(ReturnConsumedCapacity::Total)
    }
}

impl RateLimiter {
    fn new(limit: Option<u32>) -> Self {
        Self {
            counts: true,
            limit: limit.map(|units| f64::from(units.max(1))),
            ..Self::default()
        }
    }

    /// Waits until the consumed units are paid for, or until the stop.
    pub(crate) async fn admit(&self) {
        if self.limit.is_none() {
            return;
        }
        let paid_at = self.state.lock().paid_at;
        if let Some(paid_at) = paid_at {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(paid_at) => {}
                () = self.stop.come() => {}
            }
        }
    }

    pub(crate) fn charge<'answer>(
        &self,
        consumed: impl IntoIterator<Item = &'answer ConsumedCapacity>,
    ) {
        if self.counts {
            let units = consumed
                .into_iter()
                .filter_map(|consumed| consumed.capacity_units)
                .sum();
            self.charge_at(units, Instant::now());
        }
    }

    fn charge_at(&self, units: f64, now: Instant) {
        let mut state = self.state.lock();
        state.consumed += units;
        let Some(limit) = self.limit else { return };
        let saved = now.checked_sub(BURST).unwrap_or(now);
        let paid_at = state.paid_at.unwrap_or(saved).max(saved);
        state.paid_at = Some(paid_at + Duration::from_secs_f64(units / limit));
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
            let paid_at = meter.read.state.lock().paid_at;
            now = paid_at.unwrap_or(now).max(now);
            meter.read.charge_at(20.0, now);
            meter.write.charge_at(1_000.0, now);
        }
        // One second of capacity had accumulated. The next call, which is never made, would pay for
        // the last one.
        assert_eq!((now - began).as_secs(), 4 * 2 - 1);
        assert_eq!(meter.write.state.lock().paid_at, None);
        assert_eq!(
            meter.consumed(),
            Units {
                read: 100.0,
                write: 5_000.0
            }
        );
    }

    #[tokio::test]
    async fn a_stop_ends_waiting_for_what_is_not_paid_for() {
        let soon = Some(Instant::now() + Duration::from_millis(1));
        for (stop, is_asked) in [(Stop::default(), true), (Stop::at(soon), false)] {
            let meter = Meter::new(Some(1), None).until(&stop);
            meter.read.charge_at(1e6, Instant::now());
            if is_asked {
                stop.ask();
            }
            // Without the stop this waits eleven days.
            meter.read.admit().await;
        }
    }
}
