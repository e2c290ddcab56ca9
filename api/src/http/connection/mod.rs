//! A client's connection, on the socket's side: every phase has a deadline, and its memory has a bound.
//!
//! actix bounds two phases: the first head, and the idle time after a complete request. It does not bound later heads,
//! bodies without a reader, or answers that their client does not take. It also continues to read from such a client.
//!
//! So the service hands actix a [`TimedStream`]. [`follow`] notes the connection's phase (ADR 42):
//!
//! | phase | from | until | the deadline is moved |
//! | --- | --- | --- | --- |
//! | [`Phase::Receiving`] | the connection, or the first byte after an answer | the head is whole | never |
//! | [`Phase::Handling`] | the head is whole | the answer is made | never |
//! | [`Phase::Sending`] | the answer is made | the system has taken all of it | with each [`TAKEN_BYTES_MIN`] that are taken |
//! | [`Phase::Idle`] | the answer is taken | the next byte | never |
//!
//! While a request is handled or its answer is taken, nothing is read but a body that has a reader.
//!
//! A connection that misses its deadline is reset, so that the system keeps no data for it either. An idle one is
//! closed. When less than a quarter of the places for connections is left, idle ones are kept only for
//! [`SCARCE_KEEP_ALIVE`].

mod places;

use std::{
    cell::{Cell, RefCell},
    io,
    net::Shutdown,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use actix_web::{
    Error,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::header,
    middleware::Next,
    rt::net::TcpStream,
    web::Bytes,
};
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use crate::http::last_answer::Closing;
use places::Place;
pub(crate) use places::Places;

/// The largest head of a request; browsers send far less. actix takes 128 KB, and panics on a header's name of 65,536
/// bytes. This bound is lower, because the read that ended the previous request may have brought the beginning of the
/// head.
const HEAD_MAX_BYTES: usize = 48 * 1024;

/// How much of an answer a client must take in the time that it may leave one unread: the floor is 35 KB a second.
const TAKEN_BYTES_MIN: usize = 1024 * 1024;

/// Maximum length of one read of heads, after which actix parses and keeps all requests in it. Clients that sent short
/// requests ahead took 0.3 MB each. Nothing more is read before these requests are answered.
const HEAD_READ_BYTES: usize = 1024;

/// Maximum length of one read of a body.
const BODY_READ_BYTES: usize = 8 * 1024;

/// How long a client whose body has no reader may still send it after the answer, so that it reads the answer.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// Bytes of an answer that the system may keep for its client; Linux doubles the number. Without this bound Linux keeps
/// up to 4 MB.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// How much later the deadline of a phase is than the service's own bound. That bound comes first, because it ends the
/// phase with an answer.
const GRACE: Duration = Duration::from_secs(2);

const HEAD_TOO_LARGE: &[u8] =
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The most bytes of a too large head that are read and dropped. A client whose bytes are not read gets a reset instead
/// of the answer.
const THROWN_AWAY_MAX_BYTES: usize = 512 * 1024;

/// How long an idle connection is kept when places are scarce.
const SCARCE_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The deadlines of a connection's phases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    /// For the head of a request.
    pub(crate) head: Duration,
    /// For a whole request, its body included.
    pub(crate) request: Duration,
    /// For each [`TAKEN_BYTES_MIN`] of an answer.
    pub(crate) unread: Duration,
    /// Between two requests.
    pub(crate) keep_alive: Duration,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
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
    phase: Cell<Phase>,
    deadline: Cell<Instant>,
    /// The bytes of the arriving head so far.
    head_bytes: Cell<usize>,
    /// The request has a body that was not read to its end. What arrives after its answer may still belong to it, and is
    /// not counted as a head.
    has_body: Cell<bool>,
    /// The request's body is being read.
    wants_body: Cell<bool>,
    /// actix waits until it may read.
    reader: RefCell<Option<Waker>>,
    /// The system has not yet taken all of the answers.
    owes: Cell<bool>,
    /// The bytes taken since the deadline of an answer was last moved.
    taken_bytes: Cell<usize>,
    /// All of the answer has been handed to actix.
    answer_is_whole: Cell<bool>,
}

impl Progress {
    fn new(deadlines: Deadlines, place: Place) -> Self {
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
        }
    }

    fn enter(&self, phase: Phase, time: Duration) {
        self.phase.set(phase);
        self.deadline.set(Instant::now() + time);
    }

    /// Bytes have arrived. `false` when a head exceeds its bound.
    fn read(&self, bytes: usize) -> bool {
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
    fn may_read(&self) -> bool {
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

    fn handling(&self, has_body: bool) {
        self.has_body.set(has_body);
        self.wants_body.set(false);
        self.phase.set(Phase::Handling);
        // The deadline of an earlier answer stays until the client has taken it.
        if !self.owes.get() {
            self.enter(Phase::Handling, self.deadlines.request + GRACE);
        }
    }

    /// The request's body is read from now on.
    pub(crate) fn body_begins(&self) {
        self.wants_body.set(true);
        self.wake_reader();
    }

    /// The request's body was read to its end.
    pub(crate) fn body_ended(&self) {
        self.wants_body.set(false);
        self.has_body.set(false);
    }

    fn sending(&self) {
        self.wants_body.set(false);
        self.answer_is_whole.set(false);
        self.phase.set(Phase::Sending);
        if !self.owes.replace(true) {
            self.enter(Phase::Sending, self.deadlines.unread);
            self.taken_bytes.set(0);
        }
    }

    /// The system has taken bytes.
    fn taken(&self, bytes: usize) {
        let taken = self.taken_bytes.get() + bytes;
        if self.owes.get() && taken >= TAKEN_BYTES_MIN {
            self.deadline.set(Instant::now() + self.deadlines.unread);
            self.taken_bytes.set(0);
        } else {
            self.taken_bytes.set(taken);
        }
    }

    /// The system has taken everything that actix had for it. `is_last`: no request may follow the answer.
    fn flushed(&self, is_last: bool) {
        match self.phase.get() {
            Phase::Sending if self.answer_is_whole.get() => {
                let keep_alive = self.deadlines.keep_alive;
                let idle = match self.place.is_scarce() {
                    _ if is_last => LINGER,
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

/// A connection as actix reads and writes it.
pub(crate) struct TimedStream {
    io: Rc<TcpStream>,
    progress: Rc<Progress>,
    closing: Rc<Closing>,
    /// Wakes the connection's task, at the latest at the deadline.
    timer: Pin<Box<Sleep>>,
    /// A full read is followed by a pause, in which actix parses.
    pause: bool,
}

impl TimedStream {
    pub(crate) fn new(io: TcpStream, deadlines: Deadlines, places: &Places) -> Self {
        bound_socket(&io, deadlines.unread);
        let io = Rc::new(io);
        let progress = Rc::new(Progress::new(deadlines, places.take()));
        let timer = Box::pin(tokio::time::sleep_until(progress.deadline.get()));
        Self { io, progress, closing: Rc::default(), timer, pause: false }
    }

    /// The progress, for the requests on the connection.
    pub(crate) fn progress(&self) -> Rc<Progress> {
        Rc::clone(&self.progress)
    }

    /// The end of the connection, for the requests on it.
    pub(crate) fn closing(&self) -> Rc<Closing> {
        Rc::clone(&self.closing)
    }

    /// The means to answer when actix no longer can.
    pub(crate) fn last_words(&self) -> LastWords {
        LastWords { io: Rc::clone(&self.io), progress: self.progress() }
    }

    /// Fails when the deadline has passed; otherwise wakes the task at the deadline.
    fn check_deadline(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let deadline = self.progress.deadline.get();
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
        // A deadline that has moved meanwhile is waited for again.
        while self.timer.as_mut().poll(context).is_ready() {
            if deadline <= Instant::now() {
                let phase = self.progress.phase.get();
                tracing::debug!(?phase, "a connection has missed its deadline");
                if phase != Phase::Idle {
                    self.reset();
                }
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.timer.as_mut().reset(deadline);
        }
        Ok(())
    }

    /// Makes the system drop the data that it holds for the client, as soon as the connection is dropped.
    fn reset(&self) {
        if let Err(error) = SockRef::from(&*self.io).set_linger(Some(Duration::ZERO)) {
            tracing::debug!(%error, "a connection ends with what its client has not taken");
        }
    }
}

/// Refuses a head that is too large. This happens here, because actix has no such answer before it parses.
fn refuse_head(io: &TcpStream) {
    let mut thrown_away = 0;
    let mut buffer = [0; BODY_READ_BYTES];
    while let Ok(bytes @ 1..) = io.try_read(&mut buffer) {
        thrown_away += bytes;
        if thrown_away > THROWN_AWAY_MAX_BYTES {
            break;
        }
    }
    if let Err(error) = io.try_write(HEAD_TOO_LARGE) {
        tracing::debug!(%error, "a head that is too large is refused without an answer");
    }
}

/// The rest of a connection whose task has panicked.
pub(crate) struct LastWords {
    io: Rc<TcpStream>,
    progress: Rc<Progress>,
}

impl LastWords {
    /// Answers and ends the connection. actix panics only when it parses a head. That may also be a head that a client
    /// sends while the previous request is handled; such a head is not counted.
    pub(crate) fn say(self) {
        // The refusal would become a part of the answer that is being sent.
        if self.progress.phase.get() != Phase::Sending {
            refuse_head(&self.io);
        }
    }
}

/// Bounds how much the system keeps for a client, and for how long without progress (RFC 5482; tcp(7),
/// `TCP_USER_TIMEOUT`). The bounds also hold after the service has closed the connection.
fn bound_socket(io: &TcpStream, unread: Duration) {
    let socket = SockRef::from(io);
    let bounded = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
    #[cfg(target_os = "linux")]
    let bounded = bounded.and_then(|()| socket.set_tcp_user_timeout(Some(unread)));
    // Other systems are used for development only.
    #[cfg(not(target_os = "linux"))]
    let _unbounded = unread;
    if let Err(error) = bounded {
        tracing::warn!(%error, "the system keeps answers that are not read without a bound");
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check_deadline(context)?;
        // Unread bytes stay with the client. Only its end is noticed.
        if !this.progress.may_read() {
            let mut byte = [0];
            if let Poll::Ready(0) = this.io.poll_peek(context, &mut ReadBuf::new(&mut byte))? {
                return Poll::Ready(Ok(()));
            }
            this.progress.reader.replace(Some(context.waker().clone()));
            return Poll::Pending;
        }
        if std::mem::take(&mut this.pause) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read_max = if this.progress.wants_body.get() { BODY_READ_BYTES } else { HEAD_READ_BYTES };
        let space = buffer.remaining().min(read_max);
        let bytes = loop {
            ready!(this.io.poll_read_ready(context))?;
            match this.io.try_read(buffer.initialize_unfilled_to(space)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        buffer.advance(bytes);
        this.pause = bytes == space;
        if !this.progress.read(bytes) {
            refuse_head(&this.io);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        // The first byte of a head sets an earlier deadline.
        this.check_deadline(context)?;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check_deadline(context)?;
        let written = loop {
            ready!(this.io.poll_write_ready(context))?;
            match this.io.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => break written?,
            }
        };
        this.progress.taken(written);
        Poll::Ready(Ok(written))
    }

    /// actix flushes when the stream has taken all answers so far.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.progress.flushed(this.closing.is_after_this_answer());
        this.check_deadline(context)?;
        // A request after the last answer ends the connection. The bytes that the socket has taken are on their way.
        let ended = this.closing.is_due().then_some(io::ErrorKind::ConnectionAborted.into());
        Poll::Ready(ended.map_or(Ok(()), Err))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check_deadline(context)?;
        match SockRef::from(&*this.io).shutdown(Shutdown::Write) {
            // The client was faster.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            ended => Poll::Ready(ended),
        }
    }
}

/// Records what a connection is doing while a request is on it. This layer must be around all others that answer.
pub(crate) async fn follow<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // Tests make requests without a connection.
    let Some(progress) = request.conn_data::<Rc<Progress>>().cloned() else {
        return Ok(next.call(request).await?.map_into_boxed_body());
    };
    let headers = request.headers();
    progress
        .handling([header::TRANSFER_ENCODING, header::CONTENT_LENGTH].iter().any(|name| headers.contains_key(name)));
    let answer = next.call(request).await;
    progress.sending();
    match answer {
        Ok(answer) => Ok(answer.map_body(|_, body| BoxBody::new(FollowedBody { body: body.boxed(), progress }))),
        // actix turns this into a short answer, and hands it to the stream as a whole.
        Err(error) => {
            progress.answer_is_whole.set(true);
            Err(error)
        }
    }
}

/// A body that records its end: actix drops the body when it has all of it.
struct FollowedBody {
    body: BoxBody,
    progress: Rc<Progress>,
}

impl MessageBody for FollowedBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        self.body.as_pin_mut().poll_next(context)
    }
}

impl Drop for FollowedBody {
    fn drop(&mut self) {
        self.progress.answer_is_whole.set(true);
    }
}

#[cfg(test)]
mod tests;
