//! Bounds the number of concurrent requests.
//!
//! **Invariant:** a request beyond that bound is answered 503 at once. No store is called, and its body is not read
//! (`requests_beyond_the_limit_are_refused_at_once`). The memory of answers has another bound (`answer_memory`).
//!
//! Health checks and metrics have a separate bound, so that they are answered when there are too many readers.

use actix_web::{
    Error,
    body::{EitherBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use super::audience::Audience;
use crate::error::ApiError;

/// Counts the requests under way on all threads of the service.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    under_way: Gauge,
    max: i64,
    refused: Counter,
}

/// A request under way; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Permit(Gauge);

impl Load {
    /// Allows `max` concurrent requests.
    pub(crate) fn new(max: usize, under_way: Gauge, refused: Counter) -> Self {
        Self { under_way, max: i64::try_from(max).unwrap_or(i64::MAX), refused }
    }

    /// Admits one more request; `None` at the maximum.
    fn enter(&self) -> Option<Permit> {
        // The permit is made first: dropping it corrects the count, also when the request is refused.
        let before = self.under_way.inc();
        let permit = Permit(self.under_way.clone());
        (before < self.max).then_some(permit)
    }

    /// The number of requests under way.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> i64 {
        self.under_way.get()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Refuses requests beyond the limit.
pub(crate) async fn bound<B: MessageBody + 'static>(
    load: Load,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    match load.enter() {
        // The permit is dropped with the answer, or with the request when its client disconnects.
        Some(_permit) => Ok(next.call(request).await?.map_into_left_body()),
        None => {
            load.refused.inc();
            let answer = Audience::of_path(request.path()).error(ApiError::Overloaded).error_response();
            Ok(request.into_response(answer).map_into_right_body())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_is_given_back_when_it_is_dropped() {
        let load = Load::new(2, Gauge::default(), Counter::default());
        let (first, second) = (load.enter(), load.enter());
        assert!(first.is_some() && second.is_some());
        assert!(load.enter().is_none());
        assert_eq!(load.under_way(), 2);
        drop(first);
        assert!(load.enter().is_some());
        assert_eq!(load.under_way(), 1);
    }
}
