//! Cross-origin access. Scripts of other sites may read the JSON API, the fragments of pages, and the
//! web component, which browsers load as a module only then. These answers are public and depend on nothing that a browser adds. So
//! `Access-Control-Allow-Origin` is `*` for all origins, and caches need not distinguish origins
//! (Fetch, section 3.2). Scripts may not write, because a write token does not belong in a page.
//!
//! This module answers a preflight before the load limit counts it, because it costs nothing.

use actix_web::{
    Error, HttpResponse,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{self, HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
};

use super::routing::changed;

/// Answer headers that a script may read besides those that Fetch always allows.
const EXPOSED: &str = "ETag, Link, Location, Retry-After, X-Request-Id";

/// Where the answers are that scripts of any site may read.
const PATHS: [&str; 4] = ["/api/", "/fragment/", "/openapi.json", "/static/"];

const PREFLIGHT: [(HeaderName, &str); 4] = [
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD"),
    // Browser monitoring adds `Traceparent` unasked; without it here, each such read would fail.
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        "If-None-Match, Traceparent, X-Request-Id",
    ),
    // Two hours. No browser caches a preflight for longer.
    (header::ACCESS_CONTROL_MAX_AGE, "7200"),
];

/// Lets scripts of any site read the answers at [`PATHS`], including errors.
pub(crate) async fn admit(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let path = request.path();
    if !PATHS.iter().any(|open| path.starts_with(open)) {
        return next.call(request).await;
    }
    if is_preflight(request.method(), request.headers()) {
        let mut answer = HttpResponse::NoContent();
        for header in PREFLIGHT {
            answer.insert_header(header);
        }
        return Ok(request.into_response(answer.finish()));
    }
    changed(next.call(request).await, |mut answer| {
        let headers = answer.headers_mut();
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            HeaderValue::from_static("*"),
        );
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(EXPOSED),
        );
        answer
    })
}

/// Whether a browser asks if a script may send a request (Fetch, section 3.2.2). Any other
/// `OPTIONS` is an unsupported method.
fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}
