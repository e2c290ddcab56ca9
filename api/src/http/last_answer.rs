//! The last answer of a connection: later requests on the connection are not processed (RFC 9112 section 9.6).
//!
//! actix decodes requests that were sent ahead (pipelined) together with the one before. It answers them although it
//! has said `Connection: close`. So [`keep`] notes on the connection that an answer is the last, and holds further
//! requests. The connection ends when the system has taken the last answer
//! ([`TimedStream`](crate::http::connection::TimedStream)).
//!
//! An answer is the last when the client or the answer says `Connection: close`, or when the request's body was not
//! read to its end. The unread rest would be taken for a request.
//!
//! Known limit: when a request that was sent ahead says `close`, actix says so in the answers before it, too. The
//! requests up to it are answered all the same.

use std::{cell::Cell, rc::Rc};

use actix_http::ConnectionType;
use actix_web::{
    Error, HttpMessage, HttpRequest,
    body::MessageBody,
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Version,
        header::{self, HeaderMap},
    },
    middleware::Next,
};

use crate::http::connection::Progress;

/// Whether a connection ends. Shared by its stream and the requests on it, which live on one thread.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// The last answer is made.
    after_this_answer: Cell<bool>,
    /// A further request has come.
    now: Cell<bool>,
}

impl Closing {
    /// Whether the last answer is made.
    pub(crate) fn is_after_this_answer(&self) -> bool {
        self.after_this_answer.get()
    }

    /// Whether a request has come after the last answer.
    pub(crate) fn is_due(&self) -> bool {
        self.now.get()
    }
}

/// Whether a request's body was read to its end.
#[derive(Debug, Clone, Default)]
struct BodyWasRead(Rc<Cell<bool>>);

/// Notes that the body of a request is read from now on.
pub(crate) fn body_begins(request: &HttpRequest) {
    if let Some(progress) = request.conn_data::<Rc<Progress>>() {
        progress.body_begins();
    }
}

/// Notes that the body of a request was read to its end.
pub(crate) fn body_was_read(request: &HttpRequest) {
    if let Some(progress) = request.conn_data::<Rc<Progress>>() {
        progress.body_ended();
    }
    if let Some(BodyWasRead(was_read)) = request.extensions().get() {
        was_read.set(true);
    }
}

/// Accepts no request after the last answer of its connection. This layer must be around all others.
pub(crate) async fn keep<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    // Tests make requests without a connection.
    let Some(closing) = request.conn_data::<Rc<Closing>>().cloned() else { return next.call(request).await };
    if closing.after_this_answer.get() {
        closing.now.set(true);
        // The connection ends meanwhile.
        return std::future::pending().await;
    }
    let client_closes = request.head().connection_type() == ConnectionType::Close;
    let body_was_read = BodyWasRead::default();
    body_was_read.0.set(!has_body(request.headers()));
    request.extensions_mut().insert(body_was_read.clone());
    let mut answer = next.call(request).await;
    let is_last = client_closes || !body_was_read.0.get();
    match &mut answer {
        Ok(answer) => {
            let head = answer.response_mut().head_mut();
            if is_last {
                head.set_connection_type(ConnectionType::Close);
            }
            // actix reuses heads and leaves the version of the previous answer in them. With version 1.0 it would close
            // the connection.
            head.version = Version::HTTP_11;
            closing.after_this_answer.set(head.connection_type() == ConnectionType::Close);
        }
        Err(_) => closing.after_this_answer.set(is_last),
    }
    answer
}

fn has_body(headers: &HeaderMap) -> bool {
    let announced = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0");
    announced || headers.contains_key(header::TRANSFER_ENCODING)
}
