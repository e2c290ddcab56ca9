//! The time limit of a whole request. Each store call has a separate limit. This one bounds their sum and all other
//! waiting.

use std::time::Duration;

use actix_web::{
    Error,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
};

use super::audience::Audience;
use crate::error::ApiError;

/// Answers 503 when a request takes too long, and drops the pending work. A write may or may not have happened.
pub(crate) async fn bound(
    timeout: Duration,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let audience = Audience::of_path(request.path());
    let answer = tokio::time::timeout(timeout, next.call(request)).await;
    answer.unwrap_or_else(|_| Err(audience.error(ApiError::TimedOut)))
}
