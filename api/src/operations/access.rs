//! Every request has an id, belongs to its caller's trace, is counted, and leaves one line in the log.
//!
//! The line is an event of the target `access`. Whatever else is logged while the request is answered stands in the same
//! span `request`, with its ids. Nothing of a body or of a header but the two named here is logged.

use std::time::Instant;

use actix_web::{
    Error,
    body::MessageBody,
    dev::{ServiceRequest, ServiceResponse},
    error::InternalError,
    http::{
        Method,
        header::{HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
    web,
};
use tracing::{Instrument, Span};

use super::{is_operational, trace_context::TraceParent};
use crate::state::State;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id of a caller's that is taken over.
const REQUEST_ID_MAX_LEN: usize = 128;

/// How much of a request's target is logged.
const TARGET_MAX_LEN: usize = 1_024;

/// Counts and logs a request, and names its id in the answer.
pub(crate) async fn observe<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let began = Instant::now();
    let state = request.app_data::<web::Data<State>>().cloned();
    let request_id = request_id(request.headers());
    let seen = Seen::of(&request);
    let span = span(&request_id, request.headers());
    let mut answer = next.call(request).instrument(span.clone()).await;
    let status = match &mut answer {
        Ok(response) => {
            name_request(response.headers_mut(), &request_id);
            response.status()
        }
        // The request was given up while it was answered. Its answer is made here, so that what it logs has its ids.
        Err(error) => {
            let mut response = span.in_scope(|| error.error_response());
            name_request(response.headers_mut(), &request_id);
            let status = response.status();
            answer = Err(InternalError::from_response("given up", response).into());
            status
        }
    };
    let took = began.elapsed();
    span.in_scope(|| {
        let Seen { method, target, peer, operational, route } = &seen;
        let (status, took_ms) = (status.as_u16(), took.as_secs_f64() * 1e3);
        match operational {
            true => tracing::debug!(target: "access", %method, target, route, status, took_ms, peer, "answered"),
            false => tracing::info!(target: "access", %method, target, route, status, took_ms, peer, "answered"),
        }
    });
    if let Some(state) = state {
        state.metrics.count_request(seen.route, &seen.method, status, took);
    }
    answer
}

fn name_request(headers: &mut HeaderMap, request_id: &str) {
    // It holds plain characters only.
    if let Ok(value) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, value);
    }
}

/// What the log tells of a request.
struct Seen {
    method: Method,
    target: String,
    /// Who is connected: a load balancer, where there is one.
    peer: Option<String>,
    operational: bool,
    /// The pattern that its path matches.
    route: Option<String>,
}

impl Seen {
    fn of(request: &ServiceRequest) -> Self {
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        Self {
            method: request.method().clone(),
            // A target is ASCII, so every place in it is a boundary.
            target: target.get(..TARGET_MAX_LEN).unwrap_or(target).to_owned(),
            peer: request.peer_addr().map(|peer| peer.ip().to_string()),
            route: request.resource_map().match_pattern(request.path()),
            operational: is_operational(request.path()),
        }
    }
}

/// The caller's id when it is a plain one, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let plain = |id: &&str| {
        (1..=REQUEST_ID_MAX_LEN).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte))
    };
    given.filter(plain).map_or_else(stores::new_ulid, str::to_owned)
}

fn span(request_id: &str, headers: &HeaderMap) -> Span {
    let trace = TraceParent::read(headers);
    tracing::info_span!(
        "request",
        request_id,
        trace_id = trace.map(|trace| trace.trace_id),
        parent_id = trace.map(|trace| trace.parent_id)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_id_of_the_caller_s_is_kept_and_any_other_replaced() {
        let id = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_str(value).unwrap());
            request_id(&headers)
        };
        assert_eq!(id("Root=1-67891233-abcdef012345678912345678"), "Root=1-67891233-abcdef012345678912345678");
        for strange in ["", "a b", "\"", "<script>", &"x".repeat(129)] {
            assert_eq!(id(strange).len(), 26, "{strange}");
        }
        assert_eq!(request_id(&HeaderMap::new()).len(), 26);
    }
}
