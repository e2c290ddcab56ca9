//! The time limit of a whole request. Each store call has a separate limit. This one bounds their sum and all other
//! waiting.

use std::time::Duration;

use actix_web::{
    Error,
    body::{EitherBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
};

use super::audience::Audience;
use crate::error::ApiError;

/// Answers 503 when a request takes too long, and drops the pending work. A write may or may not have happened.
pub(crate) async fn bound<B: MessageBody + 'static>(
    timeout: Duration,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let audience = Audience::of_path(request.path());
    match tokio::time::timeout(timeout, next.call(request)).await {
        Ok(answer) => Ok(answer?.map_into_left_body()),
        Err(_) => Err(audience.error(ApiError::TimedOut)),
    }
}
