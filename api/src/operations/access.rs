//! Observes every request: gives it an id, counts it, and logs one line.
//!
//! The line is an event of the target `access`. All other events of the request are in the span
//! `request`, with the same id. The log holds no part of a body. From the headers it holds only
//! those that identify the caller: `X-Request-Id`, `User-Agent`, and the part of `X-Forwarded-For`
//! that trusted proxies wrote. It names a known token, but never holds the token.

use std::time::Instant;

use actix_web::{
    Error, HttpMessage,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{self, HeaderMap, HeaderName},
    },
    middleware::Next,
    web,
};
use tracing::Instrument;

use crate::{
    http::{caching, routing::changed},
    secrets::TokenName,
    telemetry::{is_operational, metrics::ApiMetrics},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What stands before an author's id.
const AUTHORS: &str = "/authors/";

/// Maximum lengths, in bytes: of a caller's request id that is accepted, of a logged target and
/// `User-Agent`, and of a client's address (IPv6 that contains IPv4).
const REQUEST_ID_MAX_LEN: usize = 128;
const TARGET_MAX_LEN: usize = 1_024;
const USER_AGENT_MAX_LEN: usize = 256;
const ADDRESS_MAX_LEN: usize = 45;

/// Counts and logs a request. Adds its id to the answer, unless the id is the caller's and a cache
/// may keep the answer. `proxies` is the number that every request passes.
pub(crate) async fn observe(
    metrics: web::Data<ApiMetrics>,
    proxies: usize,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let began = Instant::now();
    let (request_id, is_callers) = request_id(request.headers());
    let method = request.method().clone();
    let is_for_operators = is_operational(request.path());
    let route = request.resource_map().match_pattern(request.path());
    let target = match request.uri().path_and_query() {
        Some(target) => loggable(target.as_str(), route.as_deref()),
        None => String::new(),
    };
    // The load balancer, if there is one.
    let peer = request.peer_addr().map(|peer| peer.ip().to_string());
    let client = forwarded_for(request.headers(), proxies);
    let user_agent = text(request.headers(), header::USER_AGENT)
        .map(|agent| beginning(agent, USER_AGENT_MAX_LEN));
    let span = tracing::info_span!("request", request_id);
    let answer = next.call(request).instrument(span.clone()).await;
    let token = answer
        .as_ref()
        .ok()
        .and_then(|answer| answer.request().extensions().get::<TokenName>().cloned());
    // The answer to an error is made in the span too, so that its log events carry the request's
    // id.
    let _entered = span.enter();
    changed(answer, |mut answer| {
        if !(is_callers && may_be_kept(&method, answer.headers())) {
            answer
                .headers_mut()
                .insert(REQUEST_ID, caching::value(&request_id));
        }
        let took = began.elapsed();
        let status = answer.status().as_u16();
        let took_ms = took.as_secs_f64() * 1e3;
        let bytes = match answer.body().size() {
            BodySize::None => Some(0),
            BodySize::Sized(bytes) => Some(bytes),
            BodySize::Stream => None,
        };
        let token = token.as_ref().map(TokenName::as_str);
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    target: "access", %method, target, route, status, took_ms, bytes, peer, client, token, user_agent,
                    "answered"
                )
            };
        }
        if is_for_operators {
            log!(debug);
        } else {
            log!(info);
        }
        metrics.count_request(route, &method, answer.status(), took);
        answer
    })
}

/// The target of a request as the log names it. An author's id may be a person's address, and the log
/// outlasts an erasure: the route stands in its place.
fn loggable(target: &str, route: Option<&str>) -> String {
    if let Some(route) = route
        && route.contains(AUTHORS)
    {
        return route.to_owned();
    }
    match target.split_once(AUTHORS) {
        // A path that is no route, such as one with a slash too many.
        Some((before, _)) => format!("{before}{AUTHORS}…"),
        None => beginning(target, TARGET_MAX_LEN),
    }
}

/// Whether a cache may keep an answer. It would give the request's id to others.
fn may_be_kept(method: &Method, headers: &HeaderMap) -> bool {
    let is_stored =
        text(headers, header::CACHE_CONTROL).is_none_or(|rules| !rules.contains("no-store"));
    is_stored && matches!(*method, Method::GET | Method::HEAD)
}

/// The client that the first of `proxies` trusted proxies saw. Each of these proxies appends one
/// address. Earlier addresses come from the client and cannot be trusted.
fn forwarded_for(headers: &HeaderMap, proxies: usize) -> Option<String> {
    let lines = headers
        .get_all(FORWARDED_FOR)
        .filter_map(|value| value.to_str().ok());
    let addresses: Vec<&str> = lines
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .collect();
    let client = addresses.get(addresses.len().checked_sub(proxies)?)?;
    if client.len() > ADDRESS_MAX_LEN {
        return None;
    }
    Some((*client).to_owned())
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The first `len_max` bytes of an ASCII text, in which every index is a character boundary.
fn beginning(text: &str, len_max: usize) -> String {
    text.get(..len_max).unwrap_or(text).to_owned()
}

/// The caller's request id if it has only plain characters, otherwise a new one; and whether it is
/// the caller's.
fn request_id(headers: &HeaderMap) -> (String, bool) {
    match text(headers, REQUEST_ID) {
        Some(id) if is_plain(id) => (id.to_owned(), true),
        _ => (process::new_ulid(), false),
    }
}

fn is_plain(id: &str) -> bool {
    let has_plain_characters = id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte));
    has_plain_characters && (1..=REQUEST_ID_MAX_LEN).contains(&id.len())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn id(value: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_str(value).unwrap());
        request_id(&headers).0
    }

    /// The client of a request with these lines of `X-Forwarded-For`.
    fn client(lines: &[&str], proxies: usize) -> Option<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
        }
        forwarded_for(&headers, proxies)
    }

    #[test]
    fn a_target_in_the_log_has_no_authors_id() {
        let list = "/api/v1/authors/{author}/comments";
        for (target, route, logged) in [
            (
                "/api/v1/authors/ann%40x.org/comments?page_size=5",
                Some(list),
                list,
            ),
            ("/api/v1/%61uthors/ann%40x.org/comments", Some(list), list),
            (
                "/api/v1/authors/ann%40x.org/comments/",
                None,
                "/api/v1/authors/…",
            ),
            (
                "/api/v1/stats?product=p",
                Some("/api/v1/stats"),
                "/api/v1/stats?product=p",
            ),
        ] {
            assert_eq!(loggable(target, route), logged);
        }
    }

    #[test]
    fn a_callers_plain_id_is_kept_and_any_other_is_replaced() {
        assert_eq!(
            id("Root=1-67891233-abcdef012345678912345678"),
            "Root=1-67891233-abcdef012345678912345678"
        );
        for strange in ["", "a b", "\"", "<script>", &"x".repeat(129)] {
            assert_eq!(id(strange).len(), 26, "{strange}");
        }
        assert_eq!(request_id(&HeaderMap::new()).0.len(), 26);
    }

    #[test]
    fn only_addresses_that_trusted_proxies_forwarded_count() {
        assert_eq!(client(&["203.0.113.7"], 1).as_deref(), Some("203.0.113.7"));
        assert_eq!(
            client(&["6.6.6.6, 203.0.113.7"], 1).as_deref(),
            Some("203.0.113.7")
        );
        assert_eq!(
            client(&["6.6.6.6", "2001:db8::1, 10.0.0.1"], 2).as_deref(),
            Some("2001:db8::1")
        );
        assert_eq!(client(&["203.0.113.7"], 0), None);
        assert_eq!(client(&["203.0.113.7"], 2), None);
        assert_eq!(client(&[], 1), None);
        assert_eq!(client(&[&"1".repeat(46)], 1), None);
    }
}
