//! `Expect: 100-continue`: a client is asked for its body only when a handler reads it (RFC 9110 section 10.1.1).
//!
//! Without this module, actix says `100 Continue` as soon as it has the head. A client then sends a body only to get
//! 401. But actix asks a service of ours first: [`begin`] begins to answer, and notes when the body is read for the
//! first time.
//!
//! | what happens first | what the client gets |
//! | --- | --- |
//! | the answer is made | the answer, and nothing before it |
//! | a handler reads the body | `100 Continue`; then [`resume`] continues with the answer where it was |

use std::{cell::Cell, future::poll_fn, pin::Pin, rc::Rc, task::Poll};

use actix_http::{HttpMessage, Payload, Request, Response};
use actix_web::body::BoxBody;
use futures_util::{Stream, future::LocalBoxFuture, stream};

pub(super) type Answering = LocalBoxFuture<'static, Response<BoxBody>>;

/// Begins to answer a request whose client waits before it sends the body. The returned request stands for the work
/// begun; the error is the answer.
pub(super) fn begin(
    mut request: Request,
    answer: impl FnOnce(Request) -> Answering,
) -> LocalBoxFuture<'static, Result<Request, Response<BoxBody>>> {
    let is_read = Rc::new(Cell::new(false));
    let notes_read = Rc::clone(&is_read);
    let mut body = request.take_payload();
    let observed_body = stream::poll_fn(move |context| {
        notes_read.set(true);
        Pin::new(&mut body).poll_next(context)
    });
    *request.payload() = Payload::Stream { payload: Box::pin(observed_body) };
    let mut answering = answer(request);
    Box::pin(async move {
        let answer = poll_fn(|context| match answering.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if is_read.get() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        match answer.await {
            Some(answer) => Err(answer),
            None => {
                let begun = Request::new();
                begun.extensions_mut().insert(answering);
                Ok(begun)
            }
        }
    })
}

pub(super) fn resume(request: Request, answer: impl FnOnce(Request) -> Answering) -> Answering {
    let begun = request.extensions_mut().remove::<Answering>();
    begun.unwrap_or_else(|| answer(request))
}
