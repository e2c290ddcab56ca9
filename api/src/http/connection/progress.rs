//! What a connection is doing, and the deadline of each phase.

use std::{
    cell::{Cell, RefCell},
    task::Waker,
    time::Duration,
};

use tokio::time::Instant;

use super::places::Place;

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

#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    pub(crate) head: Duration,
    /// For a whole request, its body included.
    pub(crate) request: Duration,
    /// For each [`TAKEN_BYTES_MIN`] of an answer.
    pub(crate) unread: Duration,
    /// Between two requests.
    pub(crate) keep_alive: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Receiving,
    Handling,
    Sending,
    Idle,
}

/// The state of a connection: shared by its stream and the request on it, which live on one thread.
#[derive(Debug)]
pub(crate) struct Progress {
    deadlines: Deadlines,
    place: Place,
    pub(super) phase: Cell<Phase>,
    pub(super) deadline: Cell<Instant>,
    head_bytes: Cell<usize>,
    /// The request has a body that was not read to its end. What arrives after its answer may still belong to it, and is
    /// not counted as a head.
    pub(super) has_body: Cell<bool>,
    pub(super) wants_body: Cell<bool>,
    pub(super) reader: RefCell<Option<Waker>>,
    /// The system has not yet taken all of the answers.
    owes: Cell<bool>,
    /// The bytes taken since the deadline of an answer was last moved.
    taken_bytes: Cell<usize>,
    /// All of the answer has been handed to actix.
    pub(super) answer_is_whole: Cell<bool>,
    pub(super) is_after_last: Cell<bool>,
    pub(super) is_over: Cell<bool>,
}

impl Progress {
    pub(super) fn new(deadlines: Deadlines, place: Place) -> Self {
        Self {
            deadlines,
            place,
            phase: Cell::new(Phase::Receiving),
            // actix answers 408 before this deadline.
            deadline: Cell::new(Instant::now() + deadlines.head + GRACE),
            head_bytes: Cell::new(0),
            has_body: Cell::new(false),
            wants_body: Cell::new(false),
            reader: RefCell::default(),
            owes: Cell::new(false),
            taken_bytes: Cell::new(0),
            answer_is_whole: Cell::new(false),
            is_after_last: Cell::new(false),
            is_over: Cell::new(false),
        }
    }

    fn enter(&self, phase: Phase, time: Duration) {
        self.phase.set(phase);
        self.deadline.set(Instant::now() + time);
    }

    /// Bytes have arrived. `false` when a head exceeds its bound.
    pub(super) fn read(&self, bytes: usize) -> bool {
        match self.phase.get() {
            Phase::Idle if bytes > 0 => {
                self.enter(Phase::Receiving, self.deadlines.head + GRACE);
                self.head_bytes.set(bytes);
            }
            Phase::Receiving => self.head_bytes.set(self.head_bytes.get() + bytes),
            Phase::Idle | Phase::Handling | Phase::Sending => {}
        }
        self.phase.get() != Phase::Receiving || self.has_body.get() || self.head_bytes.get() <= HEAD_MAX_BYTES
    }

    /// Whether actix may read. It parses all that it reads at once. So a client that sends requests ahead could otherwise
    /// have it keep thousands of them.
    pub(super) fn may_read(&self) -> bool {
        match self.phase.get() {
            Phase::Receiving | Phase::Idle => true,
            Phase::Handling => self.wants_body.get(),
            Phase::Sending => false,
        }
    }

    fn wake_reader(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    pub(super) fn handling(&self, has_body: bool) {
        self.has_body.set(has_body);
        self.wants_body.set(false);
        self.phase.set(Phase::Handling);
        // The deadline of an earlier answer stays until the client has taken it.
        if !self.owes.get() {
            self.enter(Phase::Handling, self.deadlines.request + GRACE);
        }
    }

    pub(super) fn body_begins(&self) {
        self.wants_body.set(true);
        self.wake_reader();
    }

    pub(super) fn body_ended(&self) {
        self.wants_body.set(false);
        self.has_body.set(false);
    }

    pub(super) fn sending(&self) {
        self.wants_body.set(false);
        self.answer_is_whole.set(false);
        self.phase.set(Phase::Sending);
        if !self.owes.replace(true) {
            self.enter(Phase::Sending, self.deadlines.unread);
            self.taken_bytes.set(0);
        }
    }

    pub(super) fn taken(&self, bytes: usize) {
        let taken = self.taken_bytes.get() + bytes;
        if self.owes.get() && taken >= TAKEN_BYTES_MIN {
            self.deadline.set(Instant::now() + self.deadlines.unread);
            self.taken_bytes.set(0);
        } else {
            self.taken_bytes.set(taken);
        }
    }

    /// The system has taken everything that actix had for it.
    pub(super) fn flushed(&self) {
        match self.phase.get() {
            Phase::Sending if self.answer_is_whole.get() => {
                let keep_alive = self.deadlines.keep_alive;
                let idle = match self.place.is_scarce() {
                    _ if self.is_after_last.get() => LINGER,
                    true => keep_alive.min(SCARCE_KEEP_ALIVE),
                    false => keep_alive,
                };
                self.owes.set(false);
                self.enter(Phase::Idle, idle + GRACE);
                self.head_bytes.set(0);
                self.wake_reader();
            }
            // Only answers of earlier requests were left.
            Phase::Handling if self.owes.replace(false) => {
                self.enter(Phase::Handling, self.deadlines.request + GRACE);
            }
            Phase::Sending | Phase::Handling | Phase::Receiving | Phase::Idle => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::places::Places, *};

    pub(crate) const DEADLINES: Deadlines = {
        let hour = Duration::from_secs(3_600);
        Deadlines { head: hour, request: hour, unread: hour, keep_alive: hour }
    };

    fn progress() -> Progress {
        Progress::new(DEADLINES, Places::new(1_000, Default::default()).take())
    }

    /// A request is answered, and the client has taken the answer.
    fn answered(progress: &Progress, has_body: bool) {
        progress.handling(has_body);
        progress.sending();
        progress.answer_is_whole.set(true);
        progress.flushed();
    }

    #[test]
    fn every_head_is_counted_from_its_first_byte_and_no_body_is() {
        let progress = progress();
        assert!(progress.read(HEAD_MAX_BYTES), "the first head");
        for _ in 0..3 {
            progress.handling(false);
            assert!(progress.read(10 * HEAD_MAX_BYTES), "a body");
            progress.sending();
            progress.flushed();
            assert_eq!(progress.phase.get(), Phase::Sending, "a part of the answer is taken");
            progress.answer_is_whole.set(true);
            progress.flushed();
            assert_eq!(progress.phase.get(), Phase::Idle);
            assert!(progress.read(0));
            assert_eq!(progress.phase.get(), Phase::Idle, "the client sends no more");
            assert!(progress.read(1) && progress.read(HEAD_MAX_BYTES - 1), "a further head");
            assert_eq!(progress.phase.get(), Phase::Receiving);
        }
        assert!(!progress.read(1));
    }

    #[test]
    fn a_deadline_moves_only_when_enough_of_an_answer_is_taken() {
        let progress = progress();
        progress.sending();
        let passed = Instant::now();
        progress.deadline.set(passed);
        progress.taken(TAKEN_BYTES_MIN - 1);
        assert_eq!(progress.deadline.get(), passed);
        progress.taken(1);
        assert!(progress.deadline.get() > passed);
        progress.deadline.set(passed);
        progress.taken(TAKEN_BYTES_MIN - 1);
        assert_eq!(progress.deadline.get(), passed, "it is counted anew");
    }

    #[test]
    fn answers_to_requests_sent_ahead_share_one_deadline() {
        let progress = progress();
        progress.handling(false);
        progress.sending();
        let passed = Instant::now();
        progress.deadline.set(passed);
        for _ in 0..3 {
            progress.answer_is_whole.set(true);
            progress.handling(false);
            progress.sending();
        }
        assert_eq!(progress.deadline.get(), passed, "the first answer is not taken");
        progress.handling(false);
        progress.flushed();
        assert!(progress.deadline.get() > passed, "only the request that is being handled is left");
    }

    #[test]
    fn nothing_is_read_ahead_but_a_body_that_has_a_reader() {
        let progress = progress();
        assert!(progress.may_read());
        progress.handling(true);
        assert!(!progress.may_read(), "nobody reads the body yet");
        progress.body_begins();
        assert!(progress.may_read());
        progress.body_ended();
        assert!(!progress.may_read());
        progress.sending();
        assert!(!progress.may_read());
        progress.answer_is_whole.set(true);
        progress.flushed();
        assert!(progress.may_read());
    }

    #[test]
    fn after_the_last_answer_a_connection_keeps_its_place_for_moments_only() {
        let progress = progress();
        progress.is_after_last.set(true);
        answered(&progress, true);
        assert!(progress.deadline.get() - Instant::now() <= LINGER + GRACE);
    }

    #[test]
    fn idle_connections_are_kept_for_a_shorter_time_when_places_are_scarce() {
        let places = Places::new(4, Default::default());
        let idle = |place: Place| {
            let progress = Progress::new(DEADLINES, place);
            answered(&progress, false);
            progress.deadline.get() - Instant::now() <= SCARCE_KEEP_ALIVE + GRACE
        };
        let mut taken = vec![places.take(), places.take()];
        assert!(!idle(places.take()), "three of four");
        taken.push(places.take());
        assert!(idle(places.take()), "four of four");
        drop(taken);
        assert!(!idle(places.take()));
    }
}
