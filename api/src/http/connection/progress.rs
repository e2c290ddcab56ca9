//! What a connection is doing, and until when.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_web::rt::net::TcpStream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::Listener;

/// How much of an answer a client must take in the time that it may leave one unread: the floor is 35 KB a second.
const TAKEN_BYTES_MIN: usize = 1024 * 1024;

/// How long an idle connection is kept when places are scarce.
const SCARCE_KEEP_ALIVE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Receiving,
    Handling,
    /// An answer is made. It is whole when hyper has all of it. `taken` counts bytes since the deadline was last moved.
    Sending {
        is_whole: bool,
        taken: usize,
    },
    Idle,
}

/// The state of a connection. The stream and the request on the connection tell it what happens.
#[derive(Debug)]
pub(super) struct Progress {
    listener: Arc<Listener>,
    pub(super) phase: Phase,
    /// Ends at the deadline of the phase.
    timer: Pin<Box<Sleep>>,
}

impl Progress {
    pub(super) fn new(listener: Arc<Listener>) -> Self {
        let timer = Box::pin(sleep(listener.bounds.head));
        Self { listener, phase: Phase::Receiving, timer }
    }

    /// Completes when the deadline of the phase has passed.
    pub(super) fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(context)
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        let bounds = &self.listener.bounds;
        let time = match phase {
            Phase::Receiving => bounds.head,
            // The service's own bound comes first, because it ends the phase with an answer.
            Phase::Handling => bounds.request * 2,
            Phase::Sending { .. } => bounds.unread,
            Phase::Idle if self.listener.places_are_scarce() => bounds.keep_alive.min(SCARCE_KEEP_ALIVE),
            Phase::Idle => bounds.keep_alive,
        };
        self.timer.as_mut().reset(Instant::now() + time);
        self.phase = phase;
    }

    pub(super) fn answer_is_made(&mut self) {
        self.enter(Phase::Sending { is_whole: false, taken: 0 });
    }

    pub(super) fn answer_is_whole(&mut self) {
        if let Phase::Sending { is_whole, .. } = &mut self.phase {
            *is_whole = true;
        }
    }

    /// Bytes have arrived.
    fn read(&mut self) {
        if self.phase == Phase::Idle {
            self.enter(Phase::Receiving);
        }
    }

    /// The system has taken bytes of an answer.
    fn taken(&mut self, bytes: usize) {
        let Phase::Sending { is_whole, taken } = &mut self.phase else { return };
        *taken += bytes;
        if *taken >= TAKEN_BYTES_MIN {
            let is_whole = *is_whole;
            self.enter(Phase::Sending { is_whole, taken: 0 });
        }
    }

    /// The system has taken everything that hyper had for it.
    fn flushed(&mut self) {
        if let Phase::Sending { is_whole: true, .. } = self.phase {
            self.enter(Phase::Idle);
        }
    }
}

/// The socket as hyper reads and writes it.
pub(super) struct TimedStream {
    pub(super) io: TcpStream,
    pub(super) progress: Rc<RefCell<Progress>>,
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.progress.borrow_mut().read();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let taken = ready!(Pin::new(&mut self.io).poll_write_vectored(context, parts))?;
        self.progress.borrow_mut().taken(taken);
        Poll::Ready(Ok(taken))
    }

    /// So hyper does not copy answers.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.progress.borrow_mut().flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::{super::Bounds, *};

    fn listener() -> Arc<Listener> {
        let hour = Duration::from_secs(3_600);
        let (connections_max, malformed) = (4, Counter::default());
        let bounds = Bounds { head: hour, request: hour, unread: hour, keep_alive: hour, connections_max, malformed };
        Arc::new(Listener::new(bounds))
    }

    #[tokio::test]
    async fn a_deadline_moves_only_when_enough_of_an_answer_is_taken() {
        let mut progress = Progress::new(listener());
        progress.answer_is_made();
        let passed = Instant::now();
        progress.timer.as_mut().reset(passed);
        progress.taken(TAKEN_BYTES_MIN - 1);
        assert_eq!(progress.timer.deadline(), passed);
        progress.taken(1);
        assert!(progress.timer.deadline() > passed);
        progress.timer.as_mut().reset(passed);
        progress.taken(TAKEN_BYTES_MIN - 1);
        assert_eq!(progress.timer.deadline(), passed, "it is counted anew");
    }

    #[tokio::test]
    async fn idle_connections_are_kept_for_a_shorter_time_when_places_are_scarce() {
        let listener = listener();
        let take = || listener.places.try_acquire().unwrap();
        let idle = || {
            let mut progress = Progress::new(Arc::clone(&listener));
            progress.enter(Phase::Handling);
            progress.answer_is_made();
            progress.flushed();
            assert_eq!(progress.phase, Phase::Sending { is_whole: false, taken: 0 }, "a part is taken");
            progress.answer_is_whole();
            progress.flushed();
            assert_eq!(progress.phase, Phase::Idle);
            progress.timer.deadline() - Instant::now() <= SCARCE_KEEP_ALIVE
        };
        let taken = [take(), take(), take()];
        assert!(!idle(), "three of four");
        let fourth = take();
        assert!(idle(), "four of four");
        drop((taken, fourth));
        assert!(!idle());
    }
}
