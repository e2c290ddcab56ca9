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

use std::{
    cell::Cell,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use actix_http::{HttpMessage, Payload, Request, Response, error::PayloadError};
use actix_web::{body::BoxBody, web::Bytes};
use futures_util::{Stream, future::LocalBoxFuture};

/// An answer that is being made.
pub(super) type Answering = LocalBoxFuture<'static, Response<BoxBody>>;

/// Begins to answer a request whose client waits before it sends the body. The returned request stands for the work
/// begun; the error is the answer.
pub(super) fn begin(
    mut request: Request,
    answer: impl FnOnce(Request) -> Answering,
) -> LocalBoxFuture<'static, Result<Request, Response<BoxBody>>> {
    let is_read = Rc::new(Cell::new(false));
    let body = ObservedBody { body: request.take_payload(), is_read: Rc::clone(&is_read) };
    *request.payload() = Payload::Stream { payload: Box::pin(body) };
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

/// Answers a request, or continues with what was begun.
pub(super) fn resume(request: Request, answer: impl FnOnce(Request) -> Answering) -> Answering {
    let begun = request.extensions_mut().remove::<Answering>();
    begun.unwrap_or_else(|| answer(request))
}

/// A body that notes that it is read.
struct ObservedBody {
    body: Payload,
    is_read: Rc<Cell<bool>>,
}

impl Stream for ObservedBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.is_read.set(true);
        Pin::new(&mut this.body).poll_next(context)
    }
}
