//! Bounds the memory that answers hold, from their making until their clients have taken them.
//!
//! **Invariant:** the sum of all answers larger than [`SMALL_BYTES`] is bounded. An answer without
//! room is refused with 503; no answer is cut (`answers_that_nobody_reads_hold_a_bounded_memory`).
//! Smaller answers count as part of their connection.
//!
//! A page reserves room before it reads the table. Once made, it keeps room for its own size. It
//! gives that back when the system has taken all of it.

use std::{sync::Arc, time::Duration};

use actix_web::{
    Error, HttpMessage, HttpRequest,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web::Bytes,
};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::audience::Audience;
use crate::error::ApiError;

/// Answers larger than this need room in the memory for answers.
const SMALL_BYTES: usize = 32 * 1024;

/// The memory for one comment of the longest text while its page is made. The table's answer and the
/// parsed comment have 40 KB each. The page has 80 KB, because its buffer doubles as it grows. The page
/// without its marks has 40 KB.
const MAKING_COMMENT_BYTES: usize = 200 * 1024;

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
        Self {
            free: Arc::new(Semaphore::new(bytes)),
            bytes,
            refused,
        }
    }

    /// Reserves room for a page of this many comments before they are read. The request's answer
    /// then owns the room.
    ///
    /// # Errors
    /// [`ApiError::Overloaded`] without room.
    pub(crate) async fn make_room(
        &self,
        request: &HttpRequest,
        comments: u16,
    ) -> Result<(), ApiError> {
        let room = self
            .reserve(usize::from(comments) * MAKING_COMMENT_BYTES)
            .await?;
        request.extensions_mut().insert(room);
        Ok(())
    }

    async fn reserve(&self, bytes: usize) -> Result<Room, ApiError> {
        let room = self.wait_for_room(bytes).await;
        room.ok_or_else(|| {
            self.refused.inc();
            ApiError::Overloaded
        })
    }

    /// `None` when room does not become free in time.
    async fn wait_for_room(&self, bytes: usize) -> Option<Room> {
        if bytes > self.bytes {
            return None;
        }
        let permits = u32::try_from(bytes).ok()?;
        let room = Arc::clone(&self.free).acquire_many_owned(permits);
        tokio::time::timeout(ROOM_TIMEOUT, room).await.ok()?.ok()
    }

    pub(crate) fn held(&self) -> usize {
        self.bytes.saturating_sub(self.free.available_permits())
    }
}

/// Room for an answer, a permit for each byte.
type Room = OwnedSemaphorePermit;

/// Keeps an answer's room until the answer is sent, or its connection has ended. Without `memory`,
/// answers need no room.
pub(crate) async fn hold(
    memory: Option<AnswerMemory>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let answer = next.call(request).await?;
    let Some(memory) = memory else {
        return Ok(answer);
    };
    let reserved = answer.request().extensions_mut().remove::<Room>();
    let bytes = match answer.response().body().size() {
        BodySize::Sized(bytes) if bytes > SMALL_BYTES as u64 => {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        }
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
            Ok(body) => BoxBody::new(Bytes::from_owner(Held { body, _room: room })),
            Err(body) => body,
        })),
        Err(error) => {
            let error = Audience::of_path(answer.request().path()).error(error);
            Ok(answer.error_response(error))
        }
    }
}

/// A body with its room. hyper drops both when the system has taken all of the body.
struct Held {
    body: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use actix_web::{App, HttpResponse, middleware::from_fn, test, web};

    use super::*;

    #[tokio::test]
    async fn no_more_memory_is_reserved_than_there_is() {
        let memory = AnswerMemory::new(100, Counter::default());
        let mut first = memory.reserve(60).await.unwrap();
        let second = memory.reserve(40).await.unwrap();
        assert!(memory.reserve(1).await.is_err());
        assert_eq!(memory.held(), 100);
        let waiting = tokio::spawn({
            let memory = memory.clone();
            async move { memory.reserve(20).await.is_ok() }
        });
        tokio::task::yield_now().await;
        drop(first.split(20));
        assert!(
            waiting.await.unwrap(),
            "room that becomes free in time is used"
        );
        assert_eq!((first.num_permits(), memory.held()), (40, 80));
        drop((first, second));
        assert_eq!(memory.held(), 0);
        assert!(memory.reserve(101).await.is_err() && memory.reserve(usize::MAX).await.is_err());
    }

    fn held(memory: &Option<AnswerMemory>) -> usize {
        match memory {
            Some(memory) => memory.held(),
            None => 0,
        }
    }

    #[actix_web::test]
    async fn an_answer_needs_room_until_it_is_dropped() {
        let large = AnswerMemory::new(3 * SMALL_BYTES, Counter::default());
        let small = AnswerMemory::new(SMALL_BYTES, Counter::default());
        for (memory, status) in [(Some(large), 200), (Some(small), 503), (None, 200)] {
            let given = memory.clone();
            let app = App::new()
                .wrap(from_fn(move |request, next| {
                    hold(given.clone(), request, next)
                }))
                .default_service(web::to(|| async {
                    HttpResponse::Ok().body("x".repeat(2 * SMALL_BYTES))
                }));
            let service = test::init_service(app).await;
            let answer =
                test::call_service(&service, test::TestRequest::default().to_request()).await;
            assert_eq!(answer.status().as_u16(), status);
            let is_held = memory.is_some() && status == 200;
            let body = answer.into_body().try_into_bytes().unwrap();
            assert_eq!(held(&memory), if is_held { body.len() } else { 0 });
            let rest = body.slice(body.len() / 2..);
            drop(body);
            assert_eq!(
                held(&memory) > 0,
                is_held,
                "a part of it is still to be sent"
            );
            drop(rest);
            assert_eq!(held(&memory), 0);
        }
    }
}
