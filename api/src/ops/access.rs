//! Observes every request: gives it an id, joins it to the caller's trace, counts it, and logs one line.
//!
//! The line is an event of the target `access`. All other events of the request are in the span `request`, with the
//! same ids. The log holds no part of a body. From the headers it holds only those that identify the caller:
//! `X-Request-Id`, `traceparent`, `User-Agent`, and the part of `X-Forwarded-For` that trusted proxies wrote.

use std::time::Instant;

use actix_web::{
    Error,
    body::{BodySize, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    error::InternalError,
    http::{
        Method,
        header::{self, HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
    web,
};
use tracing::{Instrument, Span};

use super::{is_operational, trace_context::TraceParent};
use crate::ops::metrics::Metrics;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of a caller's request id that is accepted.
const REQUEST_ID_MAX_LEN: usize = 128;

/// Maximum logged length of a request's target.
const TARGET_MAX_LEN: usize = 1_024;

/// Maximum logged length of `User-Agent`.
const USER_AGENT_MAX_LEN: usize = 256;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Maximum length of a client address (IPv6 that contains IPv4).
const ADDRESS_MAX_LEN: usize = 45;

/// Counts and logs a request, and adds its id to the answer. `proxies` is the number that every request passes.
pub(crate) async fn observe<B: MessageBody + 'static>(
    metrics: web::Data<Metrics>,
    proxies: usize,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let began = Instant::now();
    let request_id = request_id(request.headers());
    let seen = Seen::of(&request, proxies);
    let span = span(&request_id, request.headers());
    let mut answer = next.call(request).instrument(span.clone()).await;
    let (status, size) = match &mut answer {
        Ok(response) => {
            name_request(response.headers_mut(), &request_id);
            (response.status(), response.response().body().size())
        }
        // The request was cancelled before it was answered. Make the answer here, so that its log events carry the
        // request's ids.
        Err(error) => {
            let mut response = span.in_scope(|| error.error_response());
            name_request(response.headers_mut(), &request_id);
            let answered = (response.status(), response.body().size());
            answer = Err(InternalError::from_response("given up", response).into());
            answered
        }
    };
    let took = began.elapsed();
    span.in_scope(|| {
        let Seen { method, target, peer, client, user_agent, operational, route } = &seen;
        let (status, took_ms) = (status.as_u16(), took.as_secs_f64() * 1e3);
        let bytes = match size {
            BodySize::None => Some(0),
            BodySize::Sized(bytes) => Some(bytes),
            BodySize::Stream => None,
        };
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    target: "access", %method, target, route, status, took_ms, bytes, peer, client, user_agent, "answered"
                )
            };
        }
        match operational {
            true => log!(debug),
            false => log!(info),
        }
    });
    metrics.count_request(seen.route, &seen.method, status, took);
    answer
}

fn name_request(headers: &mut HeaderMap, request_id: &str) {
    // The id holds plain characters only.
    if let Ok(value) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, value);
    }
}

/// The request data for the log.
struct Seen {
    method: Method,
    target: String,
    /// The connected peer: the load balancer, if there is one.
    peer: Option<String>,
    /// The client that the first trusted proxy reports.
    client: Option<String>,
    user_agent: Option<String>,
    operational: bool,
    /// The route pattern that the path matches.
    route: Option<String>,
}

impl Seen {
    fn of(request: &ServiceRequest, proxies: usize) -> Self {
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        Self {
            method: request.method().clone(),
            target: beginning(target, TARGET_MAX_LEN),
            peer: request.peer_addr().map(|peer| peer.ip().to_string()),
            client: forwarded_for(request.headers(), proxies),
            user_agent: text(request.headers(), header::USER_AGENT).map(|agent| beginning(agent, USER_AGENT_MAX_LEN)),
            route: request.resource_map().match_pattern(request.path()),
            operational: is_operational(request.path()),
        }
    }
}

/// The client that the first of `proxies` trusted proxies saw. Each of these proxies appends one address. Earlier
/// addresses come from the client and cannot be trusted.
fn forwarded_for(headers: &HeaderMap, proxies: usize) -> Option<String> {
    let lines = headers.get_all(FORWARDED_FOR).filter_map(|value| value.to_str().ok());
    let addresses: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    let client = addresses.get(addresses.len().checked_sub(proxies)?)?;
    (client.len() <= ADDRESS_MAX_LEN).then(|| (*client).to_owned())
}

/// A header value that is ASCII.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The first `len_max` bytes of an ASCII text, in which every index is a character boundary.
fn beginning(text: &str, len_max: usize) -> String {
    text.get(..len_max).unwrap_or(text).to_owned()
}

/// The caller's request id if it has only plain characters, otherwise a new one.
fn request_id(headers: &HeaderMap) -> String {
    let plain = |id: &&str| {
        (1..=REQUEST_ID_MAX_LEN).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte))
    };
    text(headers, REQUEST_ID).filter(plain).map_or_else(process::new_ulid, str::to_owned)
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
    fn a_callers_plain_id_is_kept_and_any_other_is_replaced() {
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

    #[test]
    fn only_addresses_that_trusted_proxies_forwarded_count() {
        let client = |lines: &[&str], proxies| {
            let mut headers = HeaderMap::new();
            lines.iter().for_each(|line| headers.append(FORWARDED_FOR, HeaderValue::from_str(line).unwrap()));
            forwarded_for(&headers, proxies)
        };
        assert_eq!(client(&["203.0.113.7"], 1).as_deref(), Some("203.0.113.7"));
        assert_eq!(client(&["6.6.6.6, 203.0.113.7"], 1).as_deref(), Some("203.0.113.7"));
        assert_eq!(client(&["6.6.6.6", "2001:db8::1, 10.0.0.1"], 2).as_deref(), Some("2001:db8::1"));
        assert_eq!(client(&["203.0.113.7"], 0), None);
        assert_eq!(client(&["203.0.113.7"], 2), None);
        assert_eq!(client(&[], 1), None);
        assert_eq!(client(&[&"1".repeat(46)], 1), None);
    }
}
