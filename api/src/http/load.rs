//! Bounds the number of concurrent requests, and the time of each.
//!
//! **Invariant:** a request beyond that bound is answered 503 at once. No store is called, and its body is not read
//! (`requests_beyond_the_limit_are_refused_at_once`). The memory of answers has another bound (`answer_memory`).
//!
//! Each store call has a separate time limit. The one of a request bounds their sum and all other waiting.
//!
//! Health checks and metrics have a separate bound, so that they are answered when there are too many readers.

use std::time::Duration;

use actix_web::{
    Error,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web::Data,
};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Semaphore;

use super::audience::Audience;
use crate::error::ApiError;

/// Counts the requests under way on all threads of the service.
#[derive(Debug)]
pub(crate) struct Load {
    free: Semaphore,
    max: usize,
    refused: Counter,
}

impl Load {
    pub(crate) fn new(max: usize, refused: Counter) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self { free: Semaphore::new(max), max, refused }
    }

    pub(crate) fn under_way(&self) -> usize {
        self.max - self.free.available_permits()
    }
}

/// Answers 503 when there are too many requests, or when this one takes longer than `timeout`. That drops its pending work:
/// a write may or may not have happened.
pub(crate) async fn bound(
    load: Data<Load>,
    timeout: Duration,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let audience = Audience::of_path(request.path());
    // The permit is dropped with the answer, or with the request when its client disconnects.
    let Ok(_permit) = load.free.try_acquire() else {
        load.refused.inc();
        return Ok(request.error_response(audience.error(ApiError::Overloaded)));
    };
    let answer = tokio::time::timeout(timeout, next.call(request)).await;
    answer.unwrap_or_else(|_| Err(audience.error(ApiError::TimedOut)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_is_given_back_when_it_is_dropped() {
        let load = Load::new(2, Counter::default());
        let (first, second) = (load.free.try_acquire(), load.free.try_acquire());
        assert!(first.is_ok() && second.is_ok());
        assert!(load.free.try_acquire().is_err());
        assert_eq!(load.under_way(), 2);
        drop(first);
        assert!(load.free.try_acquire().is_ok());
        assert_eq!(load.under_way(), 1);
    }
}
