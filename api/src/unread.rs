//! Answers that their clients do not read.
//!
//! actix waits for such a client for ever: it may hold a connection, and an answer of 5 MB, of which there are
//! [`CONNECTIONS_MAX`](crate::application) a thread. The system is told to end the connection instead
//! (`who_does_not_read_an_answer_loses_the_connection`).

use std::{any::Any, time::Duration};

use actix_web::rt::net::TcpStream;

/// Has a connection end when its client has not taken, for so long, what was sent to it (RFC 5482; tcp(7), `TCP_USER_TIMEOUT`).
/// The system tries now and then whether the client reads again, so it takes up to twice as long.
pub(crate) fn bound(connection: &dyn Any, timeout: Duration) {
    let Some(stream) = connection.downcast_ref::<TcpStream>() else { return };
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(timeout)) {
        tracing::warn!(%error, "a connection has no bound for answers that are not read");
    }
    // Other systems are for development.
    #[cfg(not(target_os = "linux"))]
    let _unbounded = (stream, timeout);
}
