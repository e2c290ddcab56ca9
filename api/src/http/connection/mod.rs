//! A client's connection: every wait has a deadline, and its memory has a bound.
//!
//! hyper speaks HTTP on it. It handles one request at a time, the next when the system has taken
//! the answer. It answers `Expect: 100-continue` when the body is read. So no client sends a body
//! to get 401 (RFC 9110 section 10.1.1). A malformed request gets an answer, and the connection
//! closes.
//!
//! hyper has no deadline for an answer that its client does not take. So each connection has a
//! [`Deadline`] (ADR 42):
//!
//! | from | until | at most |
//! | --- | --- | --- |
//! | the connection | the first head is whole | `head` |
//! | a head is whole | its answer is made | twice `request` |
//! | an answer is made | the next head is whole | `unread` for each MiB of the answer, then it or `keep_alive` with `head` |
//!
//! A connection that misses its deadline ends. A connection whose client does not end it too is
//! reset, so that the system keeps no data for it. A first head that misses its deadline is
//! answered 408.
//!
//! **Invariant:** no request after the last answer of a connection is processed (RFC 9112 section
//! 9.6). An answer is the last when the client or the answer says `Connection: close`, or when the
//! request's body was not read to its end.

mod deadline;
mod exchange;

use std::{
    cell::RefCell, future::poll_fn, net::SocketAddr, pin::pin, rc::Rc, sync::Arc, time::Duration,
};

use actix_http::Request;
use actix_web::{
    Error,
    dev::{Service, ServiceResponse},
    http::StatusCode,
    rt::net::TcpStream,
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::counter::Counter;
use socket2::SockRef;
use tokio::{
    io::{AsyncWriteExt, copy, sink},
    time::timeout,
};

use deadline::Deadline;

/// The largest head of a request; browsers send far smaller ones.
const BUFFER_MAX_BYTES: usize = 48 * 1024;

/// Bytes of an answer that the system may keep for its client; Linux doubles the number. Without
/// this bound Linux keeps up to 4 MB.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// How long a client may still send after the last answer. One whose bytes are not read gets a
/// reset instead of the answer.
const LINGER: Duration = Duration::from_secs(1);

const HEAD_TOO_SLOW: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The bounds of a listener's connections.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// For the head of a request.
    pub(crate) head: Duration,
    /// For a whole request, its body included.
    pub(crate) request: Duration,
    /// For each MiB of an answer, and at least for the last part. The time after which the system
    /// ends a connection that takes nothing.
    pub(crate) unread: Duration,
    /// Between two requests.
    pub(crate) keep_alive: Duration,
    /// Connections of all threads; further ones wait until others end.
    pub(crate) connections_max: usize,
    /// Counts the requests that are refused before they have a head.
    pub(crate) malformed: Counter,
}

/// Serves the requests on a connection until it ends. After `stopping`, the request under way is
/// its last.
pub(crate) async fn serve<S>(
    io: TcpStream,
    bounds: Arc<Bounds>,
    app: Rc<S>,
    stopping: impl Future<Output = ()>,
) where
    S: Service<Request, Response = ServiceResponse, Error = Error>,
{
    bound_socket(&io, bounds.unread);
    let client = Client {
        address: io.peer_addr().ok(),
        malformed: bounds.malformed.clone(),
    };
    let keeps_alive = !bounds.keep_alive.is_zero();
    let deadline = RefCell::new(Deadline::of_first_head(bounds));
    let mut connection = http1::Builder::new()
        .half_close(true)
        .keep_alive(keeps_alive)
        .header_read_timeout(None)
        .max_buf_size(BUFFER_MAX_BYTES)
        .max_header_size(BUFFER_MAX_BYTES)
        .serve_connection(
            TokioIo::new(io),
            service_fn(|request| exchange::answer(&*app, &client, &deadline, request)),
        );
    let mut stopping = pin!(stopping);
    let mut is_stopping = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut connection => break Some(ended),
            () = poll_fn(|context| deadline.borrow_mut().poll(context)) => break None,
            () = &mut stopping, if !is_stopping => {
                is_stopping = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    let mut io = connection.into_parts().io.into_inner();
    let mut last: &[u8] = b"";
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => client.broke(&error),
        None => {
            if deadline.borrow().is_of_first_head {
                client.is_refused(StatusCode::REQUEST_TIMEOUT);
                last = HEAD_TOO_SLOW;
            }
            // When the connection is dropped, the system drops what the client has not taken.
            if let Err(error) = io.set_zero_linger() {
                tracing::debug!(%error, "a connection ends with what its client has not taken");
            }
        }
    }
    let rest = async {
        io.write_all(last).await?;
        io.shutdown().await?;
        copy(&mut io, &mut sink()).await
    };
    if let Ok(Err(error)) = timeout(LINGER, rest).await {
        tracing::debug!(%error, "a client did not end its connection");
    }
}

/// Bounds how much the system keeps for a client, and for how long without progress (RFC 5482;
/// tcp(7), `TCP_USER_TIMEOUT`). The bounds also hold after the service has closed the connection.
/// The end of a long answer does not wait until the client acknowledges what came before (tcp(7),
/// `TCP_NODELAY`): that takes 40 ms.
fn bound_socket(io: &TcpStream, unread: Duration) {
    let socket = SockRef::from(io);
    let bounded = socket
        .set_tcp_nodelay(true)
        .and_then(|()| socket.set_send_buffer_size(SEND_BUFFER_BYTES));
    #[cfg(target_os = "linux")]
    let bounded = bounded.and_then(|()| socket.set_tcp_user_timeout(Some(unread)));
    // Other systems are used for development only.
    #[cfg(not(target_os = "linux"))]
    let _unbounded = unread;
    if let Err(error) = bounded {
        tracing::warn!(%error, "the system keeps answers that are not read without a bound");
    }
}

/// The address at the other end.
struct Client {
    address: Option<SocketAddr>,
    malformed: Counter,
}

impl Client {
    /// hyper ended the connection. It has answered what it could not read as a request, except the
    /// preface of HTTP/2.
    fn broke(&self, error: &hyper::Error) {
        if error.is_parse_too_large() {
            self.is_refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        } else if error.is_parse() {
            self.is_refused(StatusCode::BAD_REQUEST);
        } else {
            tracing::debug!(%error, "a connection broke");
        }
    }

    /// No request reached the service, which logs and counts the others.
    fn is_refused(&self, status: StatusCode) {
        self.malformed.inc();
        let status = format!("HTTP/1.1 {status}");
        let peer = self.address.map(|address| address.ip().to_string());
        tracing::info!(target: "access", status, peer, "refused a request that is not HTTP, or came too slowly");
    }
}
