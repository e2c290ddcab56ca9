//! How long a mapping waits between two polls of a shard.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// The shortest pause after a poll that found nothing, where writes are announced. The service
/// polls four times a second, which is a needless wait on one's own machine.
const IDLE_PAUSE: Duration = Duration::from_millis(25);
/// The longest pause while no write is announced. Polls are most of what an idle stack does.
const UNANNOUNCED_PAUSE: Duration = Duration::from_secs(5);
/// Pause between two polls at the service's pace.
const SERVICE_PAUSE: Duration = Duration::from_millis(250);

/// When a mapping polls a shard again.
#[derive(Debug, Clone)]
pub(super) enum Pace {
    /// At once when the poll found records. Otherwise after [`IDLE_PAUSE`] and the next write,
    /// which changes the value. A write can go unnoticed when its client goes away before the
    /// answer. So the wait ends after [`UNANNOUNCED_PAUSE`] at the latest.
    Woken(watch::Receiver<()>),
    /// After [`SERVICE_PAUSE`], or at once when the poll was full.
    Service,
}

impl Pace {
    /// Notes that a poll begins: it finds all writes that were announced before.
    pub(super) fn poll_begins(&mut self) {
        if let Self::Woken(writes) = self {
            writes.mark_unchanged();
        }
    }

    /// Waits until the next poll. `found` says whether the last one found records, `full` whether
    /// it found as many as one poll takes.
    pub(super) async fn wait(&mut self, found: bool, full: bool) {
        sleep(self.pause(found, full)).await;
        if !found {
            // The end of the time is not an error: then the mapping polls without a write.
            timeout(UNANNOUNCED_PAUSE, self.written()).await.ok();
        }
    }

    /// The shortest pause after a poll. Writes that follow each other closely are read together
    /// after it.
    fn pause(&self, found: bool, full: bool) -> Duration {
        match self {
            Self::Service if !full => SERVICE_PAUSE,
            Self::Woken(_) if !found => IDLE_PAUSE,
            Self::Woken(_) | Self::Service => Duration::ZERO,
        }
    }

    /// Waits until there was a write since the last poll began, if this pace waits for writes.
    async fn written(&mut self) {
        if let Self::Woken(writes) = self
            && writes.changed().await.is_err()
        {
            // The engine has stopped, so there will be no more writes.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_write_wakes_a_mapping_also_when_it_came_during_the_poll() {
        let (writer, writes) = watch::channel(());
        let mut pace = Pace::Woken(writes);
        writer.send_replace(());
        pace.poll_begins();
        assert_eq!(
            pace.written().now_or_never(),
            None,
            "the poll saw this write"
        );
        writer.send_replace(());
        assert_eq!(
            pace.written().now_or_never(),
            Some(()),
            "the poll may have missed this write"
        );

        pace.poll_begins();
        let mut waiting = Box::pin(pace.written());
        assert_eq!(waiting.as_mut().now_or_never(), None);
        writer.send_replace(());
        assert_eq!(waiting.now_or_never(), Some(()));

        drop(writer);
        assert_eq!(
            pace.written().now_or_never(),
            None,
            "without an engine it waits instead of spinning"
        );
        assert_eq!(Pace::Service.written().now_or_never(), Some(()));
    }

    #[test]
    fn a_mapping_pauses_unless_there_may_be_more_records() {
        let (_writer, writes) = watch::channel(());
        for (pace, nothing, some) in [
            (Pace::Woken(writes), IDLE_PAUSE, Duration::ZERO),
            (Pace::Service, SERVICE_PAUSE, SERVICE_PAUSE),
        ] {
            assert_eq!(pace.pause(false, false), nothing, "{pace:?}");
            assert_eq!(pace.pause(true, false), some, "{pace:?}");
            assert_eq!(pace.pause(true, true), Duration::ZERO, "{pace:?}");
        }
    }
}
