//! Bounds the number of concurrent requests.
//!
//! **Invariant:** a request beyond that bound is answered 503 at once. No store is called, and its body is not read
//! (`beyond_the_limit_requests_are_turned_away_at_once`). The memory of answers has another bound (`answers`).
//!
//! Health checks and metrics have a separate bound, so that they are answered when there are too many readers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use actix_web::{
    Error,
    body::{EitherBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web,
};

use crate::{
    error::{ApiError, Audience},
    ops::is_operational,
    store::State,
};

/// Counts the requests under way on all threads of the service.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    under_way: Arc<AtomicUsize>,
    max: usize,
}

/// A request under way; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Load {
    /// Allows `max` concurrent requests.
    pub(crate) fn new(max: usize) -> Self {
        Self { under_way: Arc::default(), max }
    }

    /// Admits one more request; `None` at the maximum.
    pub(crate) fn enter(&self) -> Option<Permit> {
        // The permit is made first: dropping it corrects the count, also when the request is refused.
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(Arc::clone(&self.under_way));
        (before < self.max).then_some(permit)
    }

    /// The number of requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Refuses requests beyond the limit.
pub(crate) async fn bound<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let state = request.app_data::<web::Data<State>>().cloned();
    let Some(state) = state else { return Ok(next.call(request).await?.map_into_left_body()) };
    let load = if is_operational(request.path()) { &state.operations_load } else { &state.load };
    match load.enter() {
        // The permit is dropped with the answer, or with the request when its client disconnects.
        Some(_permit) => Ok(next.call(request).await?.map_into_left_body()),
        None => {
            state.metrics.count_shed();
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
        let load = Load::new(2);
        let (first, second) = (load.enter(), load.enter());
        assert!(first.is_some() && second.is_some());
        assert!(load.enter().is_none());
        assert_eq!(load.under_way(), 2);
        drop(first);
        assert!(load.enter().is_some());
        assert_eq!(load.under_way(), 1);
    }
}
