//! Bounds the number of concurrent requests, and the time of each. A request that panics is an
//! internal error.
//!
//! **Invariant:** a request beyond that bound is answered 503 at once. No store is called, and its
//! body is not read (`requests_beyond_the_limit_are_refused_at_once`). The memory of answers has
//! another bound (`answer_memory`).
//!
//! **Invariant:** no request ends the task of its connection, so none is left without an answer
//! (`a_panic_is_a_logged_500_for_programs_and_persons`).
//!
//! Each store call has a separate time limit. The one of a request bounds their sum and all other
//! waiting.
//!
//! Health checks and metrics have a separate bound, so that they are answered when there are too
//! many readers.

use std::{any::Any, panic::AssertUnwindSafe, time::Duration};

use actix_web::{
    Error,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web::Data,
};
use futures_util::FutureExt;
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
        Self {
            free: Semaphore::new(max),
            max,
            refused,
        }
    }

    pub(crate) fn under_way(&self) -> usize {
        self.max - self.free.available_permits()
    }
}

/// Answers 503 when there are too many requests, or when this one takes longer than `timeout`. That
/// drops its pending work: a write may or may not have happened. Answers 500 when a handler or a
/// layer inside this one panics, which drops what the request held.
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
    // The shared state is unwind-safe: poisoned locks are taken over, and no other shared state
    // changes in several steps.
    let answer = AssertUnwindSafe(async move { next.call(request).await }).catch_unwind();
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(answer)) => answer,
        // The standard library has written the location to stderr.
        Ok(Err(panic)) => Err(audience.error(ApiError::internal(format!(
            "it panicked: {}",
            message(&*panic)
        )))),
        Err(_) => Err(audience.error(ApiError::TimedOut)),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use actix_web::{
        HttpResponse,
        body::{BodySize, MessageBody},
        http::{StatusCode, header},
        test::{TestRequest, init_service, read_body, try_call_service},
        web,
    };
    use serde_json::Value;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;
    use crate::{json::tests::service, operations};

    async fn fail() -> HttpResponse {
        panic!("this handler is wrong about {}", "something")
    }

    #[actix_web::test]
    async fn a_panic_is_a_logged_500_for_programs_and_persons() {
        const HTML: &str = "text/html; charset=utf-8";
        static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(|| LOG.make_writer())
            .finish();
        let _logging = tracing::subscriber::set_default(subscriber);
        let service = service().await;
        let app = init_service(service.app(|_, config| {
            for path in ["/api/v1/fails", "/fails", "/fragment/fails"] {
                config.route(path, web::get().to(fail));
            }
            operations::configure(config);
        }))
        .await;
        for (path, media_type) in [
            ("/api/v1/fails", "application/problem+json"),
            ("/fails", HTML),
            ("/fragment/fails", HTML),
        ] {
            let error = try_call_service(&app, TestRequest::with_uri(path).to_request())
                .await
                .err()
                .unwrap();
            let answer = error.error_response();
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
            assert_eq!(
                answer.headers().get(header::CONTENT_TYPE).unwrap(),
                media_type
            );
            assert_eq!(
                answer.headers().get(header::CACHE_CONTROL).unwrap(),
                "no-store"
            );
            assert!(
                answer.headers().contains_key("x-request-id"),
                "the layers around name it"
            );
            assert_eq!(
                answer.headers().contains_key("x-robots-tag"),
                path == "/fragment/fails"
            );
            assert!(matches!(answer.body().size(), BodySize::Sized(1..)));
            let body =
                String::from_utf8(answer.into_body().try_into_bytes().unwrap().to_vec()).unwrap();
            if path.starts_with("/api") {
                assert_eq!(
                    serde_json::from_str::<Value>(&body).unwrap()["type"],
                    "urn:pagemark:problem:internal"
                );
            }
            assert!(
                !body.contains("wrong about"),
                "the reason is for the log only: {body}"
            );
            assert_eq!(body.contains("<html"), path == "/fails", "{path}: {body}");
            assert_eq!(service.load.under_way(), 0, "its permit was not released");
        }
        let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
        assert_eq!(
            log.matches("it panicked: this handler is wrong about something")
                .count(),
            3,
            "{log}"
        );
        let metrics = try_call_service(&app, TestRequest::with_uri("/metrics").to_request())
            .await
            .unwrap();
        let metrics = String::from_utf8(read_body(metrics).await.to_vec()).unwrap();
        for route in ["/api/v1/fails", "/fails", "/fragment/fails"] {
            let counted = format!(
                "pagemark_http_requests_total{{route=\"{route}\",method=\"GET\",status=\"500\"}} 1"
            );
            assert!(metrics.contains(&counted), "{metrics}");
        }
    }

    #[test]
    fn a_permit_is_given_back_when_it_is_dropped() {
        let load = Load::new(2, Counter::default());
        let first = load.free.try_acquire();
        let second = load.free.try_acquire();
        assert!(first.is_ok() && second.is_ok());
        assert!(load.free.try_acquire().is_err());
        assert_eq!(load.under_way(), 2);
        drop(first);
        assert!(load.free.try_acquire().is_ok());
        assert_eq!(load.under_way(), 1);
    }
}
