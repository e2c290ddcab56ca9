//! What a mapping makes of a stream that cannot be read: how long it pauses, and which reasons it
//! says. An engine without streams fails for ever, and would otherwise fill the log.

use std::time::Duration;

/// Pause after the first failure; doubled for each further one, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause. So long may changes wait that are made after the engine has come back.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// The failures since a call succeeded.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failures: u32,
    said: Option<String>,
}

impl Outage {
    /// Counts a failure, and logs its reason if that is not the last one. Returns the pause before
    /// the next call.
    pub(super) fn failed(&mut self, function: &str, reason: &str) -> Duration {
        if self.is_new(reason) {
            tracing::warn!(
                function,
                reason,
                "until the stream can be read, changes reach neither filters nor page numbers; trying again"
            );
        }
        self.pause()
    }

    /// Ends the outage, if there was one.
    pub(super) fn succeeded(&mut self, function: &str) {
        if self.said.is_some() {
            tracing::info!(function, "the stream can be read again");
        }
        *self = Self::default();
    }

    fn is_new(&mut self, reason: &str) -> bool {
        let is_new = self.said.as_deref() != Some(reason);
        if is_new {
            self.said = Some(reason.to_owned());
        }
        is_new
    }

    fn pause(&mut self) -> Duration {
        let doublings = self.failures.min(10);
        self.failures += 1;
        (PAUSE * 2_u32.pow(doublings)).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_once_and_pauses_grow_until_a_call_succeeds() {
        let mut outage = Outage::default();
        let said = ["no streams", "no streams", "refused", "no streams"];
        assert_eq!(
            said.map(|reason| outage.is_new(reason)),
            [true, false, true, true]
        );
        let first: Vec<Duration> = (0..3).map(|_| outage.pause()).collect();
        assert_eq!(first, [PAUSE, PAUSE * 2, PAUSE * 4]);
        for _ in 0..100 {
            outage.pause();
        }
        assert_eq!(outage.pause(), PAUSE_MAX);
        outage.succeeded("a function");
        assert!(outage.is_new("no streams"));
        assert_eq!(outage.pause(), PAUSE);
    }
}
