//! Caching rules for browsers and intermediate caches, and revalidation. An answer that is sent is
//! compressed after that.
//!
//! Every page and listing has an entity tag and a short age, because a deleted text must not live
//! on. The tag covers the whole answer, unless the handler has set another one. Answers have no
//! `Last-Modified`: a deletion changes a page but leaves no later date, so a cache that revalidates
//! by date would keep its old copy. For the same reason nothing may be served stale.

use actix_web::{
    Error, HttpMessage, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{self, EntityTag, HeaderValue, IfNoneMatch},
    },
    middleware::Next,
    web::Bytes,
};

use super::{audience::Audience, compression};
use crate::entity_tag::{weak_tag, without_suffix};
use crate::error::ApiError;

/// `Cache-Control` of an answer that must not be cached.
pub(crate) const NO_STORE: (header::HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

/// The answer, which caches may keep only if it `may_be_kept`.
pub(crate) fn kept_if(may_be_kept: bool, mut answer: HttpResponse) -> HttpResponse {
    if !may_be_kept {
        let (name, value) = NO_STORE;
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// A redirect to the current address of something. The address will change, so caches must not keep
/// the redirect.
pub(crate) fn lead_to(location: &str) -> HttpResponse {
    HttpResponse::Found()
        .insert_header((header::LOCATION, location))
        .insert_header(NO_STORE)
        .finish()
}

/// Adds an entity tag and an age to answers with 200 that lack them. Answers 304 to clients that
/// already have the content (RFC 9110 section 13.1.2), and compresses what others get.
pub(crate) async fn serve(
    max_age_seconds: u32,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let known = request.get_header::<IfNoneMatch>();
    let takes_gzip = compression::is_wanted(&request);
    let audience = Audience::of_path(request.path());
    let (request, answer) = next.call(request).await?.into_parts();
    let (mut answer, body) = answer.into_parts();
    let mut body = match body.try_into_bytes() {
        Ok(body) => body,
        // A streamed body. This service never sends one.
        Err(body) => return Ok(ServiceResponse::new(request, answer.set_body(body))),
    };
    answer
        .headers_mut()
        .append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if reads && answer.status() == StatusCode::OK {
        let headers = answer.headers_mut();
        if !headers.contains_key(header::ETAG) {
            headers.insert(header::ETAG, value(&weak_tag(&body)));
        }
        if !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(
                header::CACHE_CONTROL,
                value(&cache_control(max_age_seconds)),
            );
        }
        let client_has_it = match (&known, headers.get(header::ETAG)) {
            (Some(known), Some(tag)) => is_known(known, tag),
            _ => false,
        };
        if client_has_it {
            headers.remove(header::CONTENT_TYPE);
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            body = Bytes::new();
        }
    }
    let body = compression::compress(takes_gzip, &mut answer, body).await;
    let body = body.map_err(|error| audience.error(ApiError::internal(error.to_string())))?;
    Ok(ServiceResponse::new(
        request,
        answer.set_body(BoxBody::new(body)),
    ))
}

/// An old copy, with a deleted text, is never shown. `stale-while-revalidate=0` is for Varnish, which
/// otherwise shows one for ten seconds. `stale-if-error=0` is for CloudFront, which otherwise shows
/// one while the API fails. `must-revalidate` would make some clients ask at each request, however
/// fresh their copy is (ADR 17).
fn cache_control(max_age_seconds: u32) -> String {
    match max_age_seconds {
        0 => "no-cache".to_owned(),
        seconds => format!("public, max-age={seconds}, stale-while-revalidate=0, stale-if-error=0"),
    }
}

pub(crate) fn value(text: &str) -> HeaderValue {
    // Such a value is visible ASCII.
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Whether the client has the content of this tag, by weak comparison (RFC 9110 section 8.8.3.2).
/// The suffix of a proxy that compresses answers does not count.
fn is_known(known: &IfNoneMatch, tag: &HeaderValue) -> bool {
    let Some(tag) = tag
        .to_str()
        .ok()
        .and_then(|tag| tag.parse::<EntityTag>().ok())
    else {
        return false;
    };
    match known {
        IfNoneMatch::Any => true,
        IfNoneMatch::Items(known) => known
            .iter()
            .any(|known| known.weak_eq(&tag) || without_suffix(known.tag()) == tag.tag()),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    /// Whether a request with this `If-None-Match` knows the tag.
    fn known(sent: &str, tag: &str) -> bool {
        let request = TestRequest::default()
            .insert_header((header::IF_NONE_MATCH, sent))
            .to_request();
        let known = request.get_header::<IfNoneMatch>().unwrap();
        is_known(&known, &HeaderValue::from_str(tag).unwrap())
    }

    #[test]
    fn a_known_entity_tag_is_recognised() {
        assert!(known("\"a\"", "\"a\"") && known("W/\"a\"", "\"a\"") && known("\"a\"", "W/\"a\""));
        assert!(known("\"b\", W/\"a\"", "W/\"a\"") && known("*", "\"a\""));
        assert!(!known("\"b\"", "\"a\"") && !known("", "\"a\"") && !known("a", "\"a\""));
    }

    #[test]
    fn an_age_of_zero_makes_caches_ask_every_time() {
        assert_eq!(
            cache_control(30),
            "public, max-age=30, stale-while-revalidate=0, stale-if-error=0"
        );
        assert_eq!(cache_control(0), "no-cache");
    }
}
