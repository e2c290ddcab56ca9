//! The bound of a request as a whole. Every call of a store is bounded by itself; this bounds their sum, and whatever
//! else a request may wait for.

use std::time::Duration;

use actix_web::{
    Error,
    body::{EitherBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web,
};

use crate::{
    error::{self, ApiError},
    state::State,
};

/// The longest that a request may take: longer than one call of each store with its retries.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(25);

/// Answers 503 when a request takes too long. What it was waiting for is dropped; a write may have happened or not.
pub(crate) async fn bound<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let audience = error::Audience::of_path(request.path());
    let state = request.app_data::<web::Data<State>>();
    let timeout = state.map_or(REQUEST_TIMEOUT, |state| state.request_timeout);
    match tokio::time::timeout(timeout, next.call(request)).await {
        Ok(answer) => Ok(answer?.map_into_left_body()),
        Err(_) => Err(audience.error(ApiError::TimedOut)),
    }
}
