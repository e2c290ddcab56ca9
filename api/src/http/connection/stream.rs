//! A client's connection as actix reads and writes it.

use std::{
    cell::RefCell,
    io,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_web::rt::net::TcpStream;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Semaphore,
    time::{Instant, Sleep},
};

use super::phase::{Bounds, Phase, Progress, Readable};

/// Maximum length of one read of heads, after which actix parses and keeps all requests in it. Clients that sent short
/// requests ahead took 0.3 MB each. Nothing more is read before these requests are answered.
const HEAD_READ_BYTES: usize = 1024;

const BODY_READ_BYTES: usize = 8 * 1024;

/// Bytes of an answer that the system may keep for its client; Linux doubles the number. Without this bound Linux keeps
/// up to 4 MB.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

const HEAD_TOO_LARGE: &[u8] =
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The most bytes of a too large head that are read and dropped. A client whose bytes are not read gets a reset instead
/// of the answer.
const THROWN_AWAY_MAX_BYTES: usize = 512 * 1024;

/// actix's answer to `Expect: 100-continue`. It is dropped, and the stream says the same once the body is read.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

pub(crate) struct TimedStream {
    io: TcpStream,
    progress: Rc<RefCell<Progress>>,
    /// Wakes the connection's task, at the latest at the deadline.
    timer: Pin<Box<Sleep>>,
    /// A full read is followed by a pause, in which actix parses.
    pause: bool,
    /// actix asked for bytes that it may not read yet.
    is_held: bool,
    /// What the client must get before anything else.
    question: &'static [u8],
    is_refused: bool,
}

impl TimedStream {
    pub(crate) fn new(io: TcpStream, bounds: Bounds, places: &Arc<Semaphore>) -> Self {
        bound_socket(&io, bounds.unread);
        let progress = Progress::new(bounds, places);
        let timer = Box::pin(tokio::time::sleep_until(progress.deadline()));
        let progress = Rc::new(RefCell::new(progress));
        Self { io, progress, timer, pause: false, is_held: false, question: &[], is_refused: false }
    }

    /// Refuses a head that actix cannot read, with actix's status. actix then closes the connection but does not say so,
    /// and a load balancer would send the next request there.
    fn refuse_malformed(&mut self, answer: &[u8]) {
        self.is_refused = true;
        self.progress.borrow().bounds.malformed.inc();
        let status = String::from_utf8_lossy(answer.split(|byte| *byte == b'\r').next().unwrap_or_default());
        let peer = self.io.peer_addr().map(|peer| peer.ip().to_string()).ok();
        tracing::info!(target: "access", %status, peer, "refused a request that is not HTTP, or came too slowly");
        let answer = format!("{status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        if let Err(error) = self.io.try_write(answer.as_bytes()) {
            tracing::debug!(%error, "a request is refused without an answer");
        }
    }

    pub(crate) fn progress(&self) -> Rc<RefCell<Progress>> {
        Rc::clone(&self.progress)
    }

    /// Asks the client for the body if a handler has begun to read it, and lets actix read what it was held from.
    fn poll_question(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut progress = self.progress.borrow_mut();
        if self.is_held && progress.readable() != Readable::Nothing {
            self.is_held = false;
            context.waker().wake_by_ref();
        }
        if std::mem::take(&mut progress.asks) {
            self.question = CONTINUE;
        }
        while !self.question.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(context, self.question))?;
            self.question = self.question.get(written..).unwrap_or_default();
        }
        Poll::Ready(Ok(()))
    }

    /// Fails when the deadline has passed; otherwise wakes the task at the deadline.
    fn check_deadline(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let (phase, deadline) = {
            let progress = self.progress.borrow();
            (progress.phase(), progress.deadline())
        };
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
        // A deadline that has moved meanwhile is waited for again.
        while self.timer.as_mut().poll(context).is_ready() {
            if deadline <= Instant::now() {
                tracing::debug!(?phase, "a connection has missed its deadline");
                // The system then drops the data that it holds for the client, as soon as the connection is dropped.
                if !matches!(phase, Phase::Idle | Phase::Lingering)
                    && let Err(error) = self.io.set_zero_linger()
                {
                    tracing::debug!(%error, "a connection ends with what its client has not taken");
                }
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.timer.as_mut().reset(deadline);
        }
        Ok(())
    }
}

/// The length of the head that ends in these bytes, if one does. Not of one whose end is in two reads: what follows that
/// end may be parsed together with it.
fn length_of_head(bytes: &[u8]) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    bytes.windows(END.len()).position(|window| window == END).map(|at| at + END.len())
}

/// Refuses a head that is too large. This happens here, because actix has no such answer before it parses.
fn refuse_head(io: &TcpStream) {
    let mut thrown_away = 0;
    let mut buffer = [0; BODY_READ_BYTES];
    while thrown_away <= THROWN_AWAY_MAX_BYTES
        && let Ok(bytes @ 1..) = io.try_read(&mut buffer)
    {
        thrown_away += bytes;
    }
    if let Err(error) = io.try_write(HEAD_TOO_LARGE) {
        tracing::debug!(%error, "a head that is too large is refused without an answer");
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
        let readable = this.progress.borrow().readable();
        this.is_held = readable == Readable::Nothing;
        // Unread bytes stay with the client. Only its end is noticed.
        if this.is_held {
            let mut byte = [0];
            let end = this.io.poll_peek(context, &mut ReadBuf::new(&mut byte))?;
            return if end == Poll::Ready(0) { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        if std::mem::take(&mut this.pause) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let is_body = readable == Readable::Body;
        let space = buffer.remaining().min(if is_body { BODY_READ_BYTES } else { HEAD_READ_BYTES });
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(space));
        // What follows a head stays with the system until the request is answered. If actix itself answers to it, that can
        // be told from the answer to the request.
        let head = match is_body {
            true => None,
            false => {
                ready!(this.io.poll_peek(context, &mut part))?;
                length_of_head(part.filled())
            }
        };
        let space = head.unwrap_or(space);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(space));
        ready!(Pin::new(&mut this.io).poll_read(context, &mut part))?;
        let bytes = part.filled().len();
        buffer.advance(bytes);
        this.pause = bytes == space;
        if !this.progress.borrow_mut().read(bytes) {
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
        // No request is being handled, so the answer is actix's own.
        let is_unhandled = matches!(this.progress.borrow().phase(), Phase::Receiving { .. } | Phase::Lingering);
        if !this.is_refused && is_unhandled && bytes.starts_with(b"HTTP/1.1 4") {
            this.refuse_malformed(bytes);
        }
        if this.is_refused {
            return Poll::Ready(Ok(bytes.len()));
        }
        if bytes.starts_with(CONTINUE) && std::mem::take(&mut this.progress.borrow_mut().drops_continue) {
            return Poll::Ready(Ok(CONTINUE.len()));
        }
        ready!(this.poll_question(context))?;
        let written = ready!(Pin::new(&mut this.io).poll_write(context, bytes))?;
        this.progress.borrow_mut().taken(written);
        Poll::Ready(Ok(written))
    }

    /// actix flushes when the stream has taken all answers so far.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let continues = this.progress.borrow_mut().flushed();
        this.check_deadline(context)?;
        // A request after the last answer ends the connection. The bytes that the socket has taken are on their way.
        if !continues {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        this.poll_question(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check_deadline(context)?;
        Pin::new(&mut this.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::{super::phase::tests::bounds, *};

    #[tokio::test]
    async fn while_an_answer_is_not_taken_nothing_more_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (io, _) = listener.accept().await.unwrap();
        let mut stream = TimedStream::new(io, bounds(), &Arc::new(Semaphore::new(1)));
        let progress = stream.progress();
        progress.borrow_mut().begin(false, false);
        progress.borrow_mut().answer_is_made(false);
        let part = [7; 1024];
        let mut written = 0;
        while let Poll::Ready(bytes) =
            poll_fn(|context| Poll::Ready(Pin::new(&mut stream).poll_write(context, &part))).await
        {
            written += bytes.unwrap();
        }
        client.write_all(b"more").await.unwrap();
        stream.io.readable().await.unwrap();
        let mut buffer = [0; 16];
        let mut buffer = ReadBuf::new(&mut buffer);
        let read = poll_fn(|context| Poll::Ready(Pin::new(&mut stream).poll_read(context, &mut buffer))).await;
        assert!(read.is_pending() && buffer.filled().is_empty(), "{:?}", buffer.filled());

        let taken = tokio::spawn(async move {
            let mut all = vec![0; written + part.len()];
            client.read_exact(&mut all).await.unwrap();
            client
        });
        stream.write_all(&part).await.unwrap();
        progress.borrow_mut().answer_is_whole();
        stream.flush().await.unwrap();
        let mut more = [0; 4];
        stream.read_exact(&mut more).await.unwrap();
        assert_eq!(&more, b"more");
        taken.await.unwrap();
    }
}
