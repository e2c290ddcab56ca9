//! How many requests may be under way at the same time.
//!
//! **Invariant:** a request beyond that is answered 503 at once, without a store being asked and without its body being
//! read: memory does not grow with the load (`beyond_the_limit_requests_are_turned_away_at_once`).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use actix_web::{
    Error,
    body::MessageBody,
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web,
};

use super::is_operational;
use crate::{
    error::{ApiError, Audience},
    state::State,
};

/// Counts the requests under way, of all the service's threads.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    under_way: Arc<AtomicUsize>,
    max: usize,
}

/// A request under way; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Load {
    /// Allows `max` requests at the same time.
    pub(crate) fn new(max: usize) -> Self {
        Self { under_way: Arc::default(), max }
    }

    /// Lets one more request in; `None` when there are as many as may be.
    pub(crate) fn enter(&self) -> Option<Permit> {
        // The permit is made first: it takes the count back also when the request is turned away.
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(Arc::clone(&self.under_way));
        (before < self.max).then_some(permit)
    }

    /// How many there are.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Turns requests away beyond the limit. The checks of whoever runs the service are always answered.
pub(crate) async fn bound<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let state = request.app_data::<web::Data<State>>().cloned();
    let (Some(state), false) = (state, is_operational(request.path())) else { return next.call(request).await };
    match state.load.enter() {
        // It is dropped with the answer, or with the request when its client goes away.
        Some(_permit) => next.call(request).await,
        None => {
            state.metrics.count_shed();
            Err(Audience::of_path(request.path()).error(ApiError::Overloaded))
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
