//! What a connection is doing, and until when.

use std::{sync::Arc, time::Duration};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// The largest head of a request; browsers send far less. actix takes 128 KB, and panics on a header's name of 65,536
/// bytes. This bound is lower, because the read that ended the previous request may have brought the beginning of the
/// head.
const HEAD_MAX_BYTES: usize = 48 * 1024;

/// How much of an answer a client must take in the time that it may leave one unread: the floor is 35 KB a second.
const TAKEN_BYTES_MIN: usize = 1024 * 1024;

/// How long a client whose body has no reader may still send it after the answer, so that it reads the answer.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// How much later the deadline of a phase is than the service's own bound. That bound comes first, because it ends the
/// phase with an answer.
const GRACE: Duration = Duration::from_secs(2);

/// How long an idle connection is kept when places are scarce.
const SCARCE_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The bounds of a listener's connections.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// For the head of a request.
    pub(crate) head: Duration,
    /// For a whole request, its body included.
    pub(crate) request: Duration,
    /// For each [`TAKEN_BYTES_MIN`] of an answer.
    pub(crate) unread: Duration,
    /// Between two requests.
    pub(crate) keep_alive: Duration,
    /// Connections of all threads; further ones wait until others end.
    pub(crate) connections_max: usize,
    /// Counts the requests that actix refuses before it has a head.
    pub(crate) malformed: Counter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// A head arrives, of which this many bytes have come.
    Receiving {
        head_bytes: usize,
    },
    Handling {
        body: Body,
    },
    /// An answer is made. It is whole when actix has all of it.
    Sending {
        is_whole: bool,
        is_last: bool,
    },
    Idle,
    /// The last answer is taken. For a moment the client may still send its body.
    Lingering,
    /// A request came after the last answer. The connection ends when that answer is taken.
    Over,
}

/// The body of the request that is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// There is none, or it was read to its end.
    None,
    /// It has no reader yet. Its client may wait to be asked for it.
    Unread {
        is_asked_for: bool,
    },
    Wanted,
}

/// What actix may read from a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readable {
    Nothing,
    Head,
    Body,
}

/// The state of a connection. The stream owns it, and the request on the connection tells it what happens.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(super) bounds: Bounds,
    place: Option<OwnedSemaphorePermit>,
    phase: Phase,
    deadline: Instant,
    /// While the system has not taken all answers: the bytes that it took since the deadline was last moved.
    owed: Option<usize>,
    /// The next `100 Continue` is actix's own, and not for the client.
    pub(super) drops_continue: bool,
    /// The client is to be asked for the body.
    pub(super) asks: bool,
}

impl Progress {
    pub(super) fn new(bounds: Bounds, places: &Arc<Semaphore>) -> Self {
        Self {
            place: Arc::clone(places).try_acquire_owned().ok(),
            phase: Phase::Receiving { head_bytes: 0 },
            // actix answers 408 before this deadline.
            deadline: Instant::now() + bounds.head + GRACE,
            bounds,
            owed: None,
            drops_continue: false,
            asks: false,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    fn enter(&mut self, phase: Phase, time: Duration) {
        self.phase = phase;
        self.deadline = Instant::now() + time;
    }

    /// Whether less than a quarter of the places for connections is left.
    fn places_are_scarce(&self) -> bool {
        let free = self.place.as_ref().map_or(0, |place| place.semaphore().available_permits());
        free < self.bounds.connections_max / 4
    }

    /// actix parses all that it reads at once. So a client that sends requests ahead could otherwise have it keep thousands
    /// of them.
    pub(super) fn readable(&self) -> Readable {
        match self.phase {
            Phase::Receiving { .. } | Phase::Idle | Phase::Lingering => Readable::Head,
            Phase::Handling { body: Body::Wanted } => Readable::Body,
            Phase::Handling { .. } | Phase::Sending { .. } | Phase::Over => Readable::Nothing,
        }
    }

    /// Bytes have arrived. `false` when a head exceeds its bound.
    pub(super) fn read(&mut self, bytes: usize) -> bool {
        let head_bytes = match self.phase {
            Phase::Idle if bytes > 0 => {
                self.enter(Phase::Receiving { head_bytes: bytes }, self.bounds.head + GRACE);
                bytes
            }
            Phase::Receiving { head_bytes } => {
                let head_bytes = head_bytes + bytes;
                self.phase = Phase::Receiving { head_bytes };
                head_bytes
            }
            Phase::Idle | Phase::Handling { .. } | Phase::Sending { .. } | Phase::Lingering | Phase::Over => 0,
        };
        head_bytes <= HEAD_MAX_BYTES
    }

    /// A request begins. `expects` when its client waits to be asked for the body. `false` when the request comes after the
    /// last answer, and must not be handled.
    pub(super) fn begin(&mut self, has_body: bool, expects: bool) -> bool {
        if matches!(self.phase, Phase::Sending { is_last: true, .. } | Phase::Lingering | Phase::Over) {
            self.phase = Phase::Over;
            return false;
        }
        // Behind an earlier answer, actix asks by itself: its `100 Continue` cannot be told from that answer.
        self.drops_continue = expects && self.owed.is_none();
        let body = if has_body { Body::Unread { is_asked_for: !self.drops_continue } } else { Body::None };
        self.phase = Phase::Handling { body };
        // The deadline of an earlier answer stays until the client has taken it.
        if self.owed.is_none() {
            self.enter(self.phase, self.bounds.request + GRACE);
        }
        true
    }

    pub(super) fn body_begins(&mut self) {
        if let Phase::Handling { body: Body::Unread { is_asked_for } } = self.phase {
            self.asks = !is_asked_for;
            self.phase = Phase::Handling { body: Body::Wanted };
        }
    }

    pub(super) fn body_ended(&mut self) {
        if let Phase::Handling { body } = &mut self.phase {
            *body = Body::None;
        }
    }

    /// Whether a part of the body was not read. It would be taken for a request.
    pub(super) fn body_is_left(&self) -> bool {
        !matches!(self.phase, Phase::Handling { body: Body::None })
    }

    pub(super) fn answer_is_made(&mut self, is_last: bool) {
        self.phase = Phase::Sending { is_whole: false, is_last };
        if self.owed.is_none() {
            self.owed = Some(0);
            self.enter(self.phase, self.bounds.unread);
        }
    }

    pub(super) fn answer_is_whole(&mut self) {
        if let Phase::Sending { is_whole, .. } = &mut self.phase {
            *is_whole = true;
        }
    }

    pub(super) fn taken(&mut self, bytes: usize) {
        let Some(taken) = &mut self.owed else { return };
        *taken += bytes;
        if *taken >= TAKEN_BYTES_MIN {
            *taken = 0;
            self.deadline = Instant::now() + self.bounds.unread;
        }
    }

    /// The system has taken everything that actix had for it. `false` when the connection ends with that.
    pub(super) fn flushed(&mut self) -> bool {
        match self.phase {
            Phase::Sending { is_whole: true, is_last } => {
                self.owed = None;
                let keep_alive = self.bounds.keep_alive;
                let (phase, time) = match is_last {
                    true => (Phase::Lingering, LINGER),
                    false if self.places_are_scarce() => (Phase::Idle, keep_alive.min(SCARCE_KEEP_ALIVE)),
                    false => (Phase::Idle, keep_alive),
                };
                self.enter(phase, time + GRACE);
            }
            // Only answers of earlier requests were left.
            Phase::Handling { .. } if self.owed.take().is_some() => {
                self.enter(self.phase, self.bounds.request + GRACE);
            }
            Phase::Sending { .. } | Phase::Handling { .. } | Phase::Receiving { .. } => {}
            Phase::Idle | Phase::Lingering => {}
            Phase::Over => return false,
        }
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn bounds() -> Bounds {
        let hour = Duration::from_secs(3_600);
        let (connections_max, malformed) = (4, Counter::default());
        Bounds { head: hour, request: hour, unread: hour, keep_alive: hour, connections_max, malformed }
    }

    fn progress() -> Progress {
        Progress::new(bounds(), &Arc::new(Semaphore::new(4)))
    }

    /// A request without a body is answered, and the client has taken the answer.
    fn answered(progress: &mut Progress, is_last: bool) {
        assert!(progress.begin(false, false));
        progress.answer_is_made(is_last);
        progress.answer_is_whole();
        assert!(progress.flushed());
    }

    #[test]
    fn every_head_is_counted_from_its_first_byte_and_no_body_is() {
        let mut progress = progress();
        assert!(progress.read(HEAD_MAX_BYTES), "the first head");
        for _ in 0..3 {
            progress.begin(true, false);
            assert!(progress.read(10 * HEAD_MAX_BYTES), "a body");
            progress.answer_is_made(false);
            progress.flushed();
            assert_eq!(progress.phase, Phase::Sending { is_whole: false, is_last: false }, "a part is taken");
            progress.answer_is_whole();
            progress.flushed();
            assert_eq!(progress.phase, Phase::Idle);
            assert!(progress.read(0));
            assert_eq!(progress.phase, Phase::Idle, "the client sends no more");
            assert!(progress.read(1) && progress.read(HEAD_MAX_BYTES - 1), "a further head");
            assert_eq!(progress.phase, Phase::Receiving { head_bytes: HEAD_MAX_BYTES });
        }
        assert!(!progress.read(1));
    }

    #[test]
    fn a_deadline_moves_only_when_enough_of_an_answer_is_taken() {
        let mut progress = progress();
        progress.answer_is_made(false);
        let passed = Instant::now();
        progress.deadline = passed;
        progress.taken(TAKEN_BYTES_MIN - 1);
        assert_eq!(progress.deadline, passed);
        progress.taken(1);
        assert!(progress.deadline > passed);
        progress.deadline = passed;
        progress.taken(TAKEN_BYTES_MIN - 1);
        assert_eq!(progress.deadline, passed, "it is counted anew");
    }

    #[test]
    fn answers_to_requests_sent_ahead_share_one_deadline() {
        let mut progress = progress();
        progress.begin(false, false);
        progress.answer_is_made(false);
        let passed = Instant::now();
        progress.deadline = passed;
        for _ in 0..3 {
            progress.answer_is_whole();
            progress.begin(false, false);
            progress.answer_is_made(false);
        }
        assert_eq!(progress.deadline, passed, "the first answer is not taken");
        progress.begin(false, false);
        progress.flushed();
        assert!(progress.deadline > passed, "only the request that is being handled is left");
    }

    #[test]
    fn nothing_is_read_ahead_but_a_body_that_has_a_reader() {
        let mut progress = progress();
        assert_eq!(progress.readable(), Readable::Head);
        progress.begin(true, false);
        assert_eq!(progress.readable(), Readable::Nothing, "nobody reads the body yet");
        progress.body_begins();
        assert_eq!(progress.readable(), Readable::Body);
        assert!(progress.body_is_left());
        progress.body_ended();
        assert_eq!(progress.readable(), Readable::Nothing);
        assert!(!progress.body_is_left());
        progress.answer_is_made(false);
        assert_eq!(progress.readable(), Readable::Nothing);
        progress.answer_is_whole();
        progress.flushed();
        assert_eq!(progress.readable(), Readable::Head);
    }

    #[test]
    fn only_a_client_that_waits_is_asked_for_its_body_and_only_once_it_is_read() {
        let mut progress = progress();
        progress.begin(true, false);
        progress.body_begins();
        assert!(!progress.drops_continue && !progress.asks, "it does not wait");
        progress.begin(true, true);
        assert!(progress.drops_continue && !progress.asks, "nobody reads the body yet");
        progress.body_begins();
        assert!(std::mem::take(&mut progress.asks));
        progress.body_ended();
        progress.answer_is_made(false);
        progress.answer_is_whole();
        progress.begin(true, true);
        progress.body_begins();
        assert!(!progress.drops_continue && !progress.asks, "behind an earlier answer actix asks");
    }

    #[test]
    fn after_the_last_answer_a_connection_keeps_its_place_for_moments_only() {
        let mut progress = progress();
        answered(&mut progress, true);
        assert!(progress.read(10 * HEAD_MAX_BYTES), "the rest of a body");
        assert!(progress.deadline - Instant::now() <= LINGER + GRACE);
        assert!(!progress.begin(false, false), "a request after the last answer");
        assert!(!progress.flushed(), "it ends");
    }

    #[test]
    fn idle_connections_are_kept_for_a_shorter_time_when_places_are_scarce() {
        let places = Arc::new(Semaphore::new(4));
        let take = || Progress::new(bounds(), &places);
        let idle = |mut progress: Progress| {
            answered(&mut progress, false);
            progress.deadline - Instant::now() <= SCARCE_KEEP_ALIVE + GRACE
        };
        let mut taken = vec![take(), take()];
        assert!(!idle(take()), "three of four");
        taken.push(take());
        assert!(idle(take()), "four of four");
        drop(taken);
        assert!(!idle(take()));
    }
}
