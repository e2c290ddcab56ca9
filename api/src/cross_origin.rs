//! Scripts of other sites may read the JSON API: what it tells is public and depends on nothing that a browser adds, so
//! `Access-Control-Allow-Origin` is `*`, for everybody alike, and caches need not tell origins apart (Fetch, section 3.2).
//! They may not write: a write token has no place in a page.
//!
//! A preflight is answered here, before anything is counted as under way: it costs nothing.

use actix_web::{
    Error, HttpResponse,
    body::{EitherBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    error::InternalError,
    http::{
        Method,
        header::{self, HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
};

/// What a script may read of an answer besides what it always may.
const EXPOSED: &str = "ETag, Link, Location, Retry-After, X-Request-Id";

const PREFLIGHT: [(HeaderName, &str); 3] = [
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD"),
    (header::ACCESS_CONTROL_ALLOW_HEADERS, "If-None-Match, Traceparent, X-Request-Id"),
    // Two hours; no browser remembers it for longer.
    (header::ACCESS_CONTROL_MAX_AGE, "7200"),
];

/// Lets scripts of any site read what the JSON API answers, errors included.
pub(crate) async fn admit<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let path = request.path();
    if !path.starts_with("/api/") && path != "/openapi.json" {
        return Ok(next.call(request).await?.map_into_left_body());
    }
    if is_preflight(request.method(), request.headers()) {
        let mut answer = HttpResponse::NoContent();
        PREFLIGHT.into_iter().for_each(|header| {
            answer.insert_header(header);
        });
        answer.insert_header((header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"));
        return Ok(request.into_response(answer.finish()).map_into_right_body());
    }
    match next.call(request).await {
        Ok(answer) => {
            let mut answer = answer.map_into_left_body();
            expose(answer.headers_mut());
            Ok(answer)
        }
        // The request was given up while it was answered.
        Err(error) => {
            let mut answer = error.error_response();
            expose(answer.headers_mut());
            Err(InternalError::from_response(error, answer).into())
        }
    }
}

fn expose(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
}

/// Whether a browser asks if a script may send a request (Fetch, section 3.2.2). Any other `OPTIONS` is no method of ours.
fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}
