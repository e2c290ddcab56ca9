//! Until when a connection may wait.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

use super::Bounds;

/// A client may take `Bounds::unread` for each of these in an answer: the floor is 35 KB a second.
const ANSWER_PART_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Deadline {
    bounds: Arc<Bounds>,
    timer: Pin<Box<Sleep>>,
    /// Whether no request has come yet.
    pub(super) is_of_first_head: bool,
}

impl Deadline {
    pub(super) fn of_first_head(bounds: Arc<Bounds>) -> Self {
        Self {
            timer: Box::pin(sleep(bounds.head)),
            bounds,
            is_of_first_head: true,
        }
    }

    /// Completes when the deadline has passed.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(context)
    }

    /// The head of a request is whole.
    pub(super) fn of_answer(&mut self) {
        self.is_of_first_head = false;
        // The service's own bound comes first, because it ends the request with an answer.
        self.end_after(self.bounds.request * 2);
    }

    /// The answer is made. A client that takes the last part of it slowly is not idle.
    pub(super) fn of_next_head(&mut self, answer_bytes: usize) {
        let Bounds {
            head,
            unread,
            keep_alive,
            ..
        } = *self.bounds;
        let parts = u32::try_from(answer_bytes / ANSWER_PART_BYTES).unwrap_or(u32::MAX);
        self.end_after(unread * parts + unread.max(keep_alive + head));
    }

    fn end_after(&mut self, time: Duration) {
        self.timer.as_mut().reset(Instant::now() + time);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[tokio::test]
    async fn a_client_has_time_for_each_mib_of_an_answer_and_then_to_be_idle() {
        let [head, request, unread, keep_alive] = [1, 10, 100, 1_000].map(Duration::from_secs);
        let bounds = Bounds {
            head,
            request,
            unread,
            keep_alive,
            connections_max: 1,
            malformed: Counter::default(),
        };
        let closing = Bounds {
            keep_alive: Duration::ZERO,
            ..bounds.clone()
        };
        for (bounds, idle) in [(bounds, 1_001), (closing, 100)] {
            let mut deadline = Deadline::of_first_head(Arc::new(bounds));
            for (bytes, parts) in [
                (0, 0),
                (ANSWER_PART_BYTES - 1, 0),
                (ANSWER_PART_BYTES * 4 - 1, 3),
            ] {
                let before = Instant::now();
                deadline.of_next_head(bytes);
                assert_eq!(
                    (deadline.timer.deadline() - before).as_secs(),
                    parts * 100 + idle,
                    "{bytes} bytes"
                );
            }
        }
    }
}
