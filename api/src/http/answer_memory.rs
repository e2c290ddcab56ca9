//! Bounds the memory that answers hold, from their making until their clients have taken them.
//!
//! **Invariant:** the sum of all answers larger than [`SMALL_BYTES`] is bounded. An answer without room is refused with
//! 503; no answer is cut (`answers_that_nobody_reads_hold_a_bounded_memory`). Smaller answers count as
//! part of their connection.
//!
//! A page reserves room before it reads the table. Once it is made, it keeps only room for its own size. The answer is
//! stored in parts, and each part gives its room back when hyper takes it, which queues up to two parts.

use std::{convert::Infallible, sync::Arc, time::Duration};

use actix_web::{
    Error, HttpMessage, HttpRequest,
    body::{BodySize, BoxBody, MessageBody, SizedStream},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web::Bytes,
};
use futures_util::{Stream, StreamExt, stream};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::audience::Audience;
use crate::error::ApiError;

/// Answers larger than this need room in the memory for answers.
const SMALL_BYTES: usize = PART_BYTES;

/// The size of a part.
const PART_BYTES: usize = 32 * 1024;

/// The memory for one comment of the longest text while its page is made: 40 KB in the table's answer, 40 KB parsed,
/// and 80 KB in the page, whose buffer doubles as it grows.
const MAKING_COMMENT_BYTES: usize = 160 * 1024;

/// The longest wait for room: a page is made in less, so a short peak is served and not refused.
const ROOM_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
pub(crate) struct AnswerMemory {
    free: Arc<Semaphore>,
    bytes: usize,
    refused: Counter,
}

impl AnswerMemory {
    pub(crate) fn new(bytes: usize, refused: Counter) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes)), bytes, refused }
    }

    /// Reserves room for a page of this many comments before they are read. The request's answer then owns the room.
    ///
    /// # Errors
    /// [`ApiError::Overloaded`] without room.
    pub(crate) async fn make_room(&self, request: &HttpRequest, comments: u16) -> Result<(), ApiError> {
        let room = self.reserve(usize::from(comments) * MAKING_COMMENT_BYTES).await?;
        request.extensions_mut().insert(room);
        Ok(())
    }

    async fn reserve(&self, bytes: usize) -> Result<Room, ApiError> {
        let room = async {
            let permits = u32::try_from(bytes).ok().filter(|_| bytes <= self.bytes)?;
            let room = Arc::clone(&self.free).acquire_many_owned(permits);
            tokio::time::timeout(ROOM_TIMEOUT, room).await.ok()?.ok()
        };
        room.await.ok_or_else(|| {
            self.refused.inc();
            ApiError::Overloaded
        })
    }

    pub(crate) fn held(&self) -> usize {
        self.bytes.saturating_sub(self.free.available_permits())
    }
}

/// Room for an answer, a permit for each byte.
type Room = OwnedSemaphorePermit;

/// Keeps an answer's room until the answer is sent, or its connection has ended. Without `memory`, answers need no room.
pub(crate) async fn hold(
    memory: Option<AnswerMemory>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let answer = next.call(request).await?;
    let Some(memory) = memory else { return Ok(answer) };
    let reserved = answer.request().extensions_mut().remove::<Room>();
    let bytes = match answer.response().body().size() {
        BodySize::Sized(bytes) if bytes > SMALL_BYTES as u64 => usize::try_from(bytes).unwrap_or(usize::MAX),
        BodySize::None | BodySize::Sized(_) | BodySize::Stream => return Ok(answer),
    };
    let room = match reserved {
        Some(mut room) if room.num_permits() >= bytes => {
            drop(room.split(room.num_permits() - bytes));
            Ok(room)
        }
        // The answer is larger than reserved, or nothing was reserved.
        reserved => {
            drop(reserved);
            memory.reserve(bytes).await
        }
    };
    match room {
        Ok(room) => Ok(answer.map_body(|_, body| match body.try_into_bytes() {
            Ok(body) => BoxBody::new(in_parts(&body, room)),
            Err(body) => body,
        })),
        Err(error) => {
            let error = Audience::of_path(answer.request().path()).error(error);
            Ok(answer.error_response(error))
        }
    }
}

/// A body in parts, each of which gives its room back when it is taken.
fn in_parts(body: &[u8], mut room: Room) -> SizedStream<impl Stream<Item = Result<Bytes, Infallible>> + Unpin + use<>> {
    let parts: Vec<Bytes> = body.chunks(PART_BYTES).map(Bytes::copy_from_slice).collect();
    let parts = stream::iter(parts).inspect(move |part| drop(room.split(part.len())));
    SizedStream::new(body.len() as u64, parts.map(Ok))
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use actix_web::{App, HttpResponse, body::to_bytes, middleware::from_fn, test, web};

    use super::*;

    #[tokio::test]
    async fn no_more_memory_is_reserved_than_there_is() {
        let memory = AnswerMemory::new(100, Counter::default());
        let (mut first, second) = (memory.reserve(60).await.unwrap(), memory.reserve(40).await.unwrap());
        assert!(memory.reserve(1).await.is_err());
        assert_eq!(memory.held(), 100);
        let waiting = tokio::spawn({
            let memory = memory.clone();
            async move { memory.reserve(20).await.is_ok() }
        });
        tokio::task::yield_now().await;
        drop(first.split(20));
        assert!(waiting.await.unwrap(), "room that becomes free in time is used");
        assert_eq!((first.num_permits(), memory.held()), (40, 80));
        drop((first, second));
        assert_eq!(memory.held(), 0);
        assert!(memory.reserve(101).await.is_err() && memory.reserve(usize::MAX).await.is_err());
    }

    #[actix_web::test]
    async fn without_room_only_answers_that_need_none_are_given() {
        let memory = AnswerMemory::new(1, Counter::default());
        for (memory, status) in [(Some(memory), 503), (None, 200)] {
            let app = App::new()
                .wrap(from_fn(move |request, next| hold(memory.clone(), request, next)))
                .default_service(web::to(|| async { HttpResponse::Ok().body("x".repeat(2 * SMALL_BYTES)) }));
            let service = test::init_service(app).await;
            let answer = test::call_service(&service, test::TestRequest::default().to_request()).await;
            assert_eq!(answer.status().as_u16(), status);
        }
    }

    #[actix_web::test]
    async fn an_answer_in_parts_is_whole_and_gives_its_room_back() {
        let memory = AnswerMemory::new(1_000_000, Counter::default());
        let text: Vec<u8> = (0..PART_BYTES * 3 + 5).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let held = async || in_parts(&text, memory.reserve(text.len()).await.unwrap());
        let mut body = held().await;
        assert_eq!(body.size(), BodySize::Sized(text.len() as u64));
        let first = std::future::poll_fn(|context| Pin::new(&mut body).poll_next(context)).await;
        assert_eq!(first.unwrap().unwrap(), text[..PART_BYTES]);
        assert_eq!(memory.held(), text.len() - PART_BYTES, "what is sent is not held");
        drop(body);
        assert_eq!(memory.held(), 0, "an answer that is given up is not held");
        assert_eq!(to_bytes(held().await).await.unwrap(), text);
        assert_eq!(memory.held(), 0);
    }
}
