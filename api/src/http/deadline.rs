//! The time limit of a whole request. Each store call has a separate limit. This one bounds their sum and all other
//! waiting.

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
    store::State,
};

/// Maximum duration of a request. It exceeds one call of each store with its retries.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(25);

/// Answers 503 when a request takes too long, and drops the pending work. A write may or may not have happened.
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
