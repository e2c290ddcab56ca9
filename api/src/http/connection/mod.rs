//! A client's connection, on the socket's side: every phase has a deadline, and its memory has a bound.
//!
//! actix bounds two phases: the first head, and the idle time after a complete request. It does not bound later heads,
//! bodies without a reader, or answers that their client does not take. It also continues to read from such a client.
//!
//! So the service hands actix a [`TimedStream`]. [`follow`] tells it by [`Progress`] what happens to a request (ADR 42):
//!
//! | phase | from | until | the deadline is moved |
//! | --- | --- | --- | --- |
//! | receiving | the connection, or the first byte after an answer | the head is whole | never |
//! | handling | the head is whole | the answer is made | never |
//! | sending | the answer is made | the system has taken all of it | with each MiB that is taken |
//! | idle | the answer is taken | the next byte | never |
//! | lingering | the last answer is taken | actix has ended the connection | never |
//!
//! While a request is handled or its answer is taken, nothing is read but a body that has a reader. A client that waits
//! with `Expect: 100-continue` is asked for its body only then, so it does not send one to get 401 (RFC 9110 section
//! 10.1.1). A connection that misses its deadline is reset, so that the system keeps no data for it either. An idle one is
//! closed, and sooner when less than a quarter of the places for connections is left.
//!
//! **Invariant:** no request after the last answer of a connection is processed (RFC 9112 section 9.6). actix would
//! answer requests that were sent ahead (pipelined), although it has said `Connection: close`. So [`follow`] holds them,
//! and the connection ends when the system has taken the last answer.
//!
//! An answer is the last in two cases. The client or the answer says `Connection: close`. Or the request's body was not
//! read to its end, because its rest would be taken for a request.
//!
//! A read ends with a head, so actix has one request at a time. Known limit: it may have another one that came in one read
//! with the end of a body. If that says `close`, actix says so in the answer before it, too. If it is malformed, actix
//! refuses it without saying that the connection closes, and it is not counted.

mod phase;
mod stream;

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use actix_http::ConnectionType;
use actix_web::{
    Error, HttpRequest,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Version,
        header::{self, HeaderMap},
    },
    middleware::Next,
    web::Bytes,
};

use phase::Progress;
pub(crate) use {
    phase::{Bounds, LINGER},
    stream::TimedStream,
};

type SharedProgress = Rc<RefCell<Progress>>;

/// Notes that the body of a request is read, and afterwards that it was read to its end if `reading` succeeds.
pub(crate) async fn while_body_is_read<T, E>(
    request: &HttpRequest,
    reading: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Some(progress) = request.conn_data::<SharedProgress>() else { return reading.await };
    progress.borrow_mut().body_begins();
    let body = reading.await?;
    progress.borrow_mut().body_ended();
    Ok(body)
}

/// Tells a connection what happens to the request on it, and accepts no request after the last answer. This layer must be
/// around all others.
pub(crate) async fn follow(request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse, Error> {
    // Tests make requests without a connection.
    let Some(progress) = request.conn_data::<SharedProgress>().cloned() else {
        return next.call(request).await;
    };
    if !progress.borrow_mut().begin(has_body(request.headers()), request.head().expect()) {
        // The connection ends meanwhile.
        return std::future::pending().await;
    }
    let client_closes = request.head().connection_type() == ConnectionType::Close;
    let answer = next.call(request).await;
    let is_last = client_closes || progress.borrow().body_is_left();
    // actix turns an error into a short answer, and hands it to the stream as a whole.
    let mut answer = answer.inspect_err(|_| {
        progress.borrow_mut().answer_is_made(is_last);
        progress.borrow_mut().answer_is_whole();
    })?;
    let head = answer.response_mut().head_mut();
    if is_last {
        head.set_connection_type(ConnectionType::Close);
    }
    // actix reuses heads and leaves the version of the previous answer in them. With version 1.0 it would close the
    // connection.
    head.version = Version::HTTP_11;
    progress.borrow_mut().answer_is_made(head.connection_type() == ConnectionType::Close);
    Ok(answer.map_body(|_, body| BoxBody::new(FollowedBody { body, progress })))
}

fn has_body(headers: &HeaderMap) -> bool {
    let announced = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0");
    announced || headers.contains_key(header::TRANSFER_ENCODING)
}

/// A body that records its end: actix drops the body when it has all of it.
struct FollowedBody {
    body: BoxBody,
    progress: SharedProgress,
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
        self.progress.borrow_mut().answer_is_whole();
    }
}
