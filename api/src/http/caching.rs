//! Caching rules for browsers and intermediate caches, and revalidation.
//!
//! Every page and listing has an entity tag and a short age, because a deleted text must not live on. Answers have no
//! `Last-Modified`: a deletion changes a page but leaves no later date, so a cache that revalidates by date would keep
//! its old copy. For the same reason nothing may be served stale.

use actix_web::{
    Error,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{self, HeaderMap, HeaderValue},
    },
    middleware::Next,
    web,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

use crate::store::State;

/// How many bytes of a hash form an entity tag.
const TAG_BYTES: usize = 12;

/// `Cache-Control` of an answer that must not be cached: it is incomplete, because a store is down.
pub(crate) const NO_STORE: (header::HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

/// Adds an entity tag and an age to answers with 200 that lack them. Answers 304 to clients that already have the
/// content (RFC 9110 section 13.1.2).
pub(crate) async fn revalidate<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let known = KnownTags::read(request.headers());
    let state = request.app_data::<web::Data<State>>().cloned();
    let max_age_seconds = state.map_or(0, |state| state.cache_max_age_seconds);
    let answer = next.call(request).await?;
    if !reads || answer.status() != StatusCode::OK {
        return Ok(answer.map_into_boxed_body());
    }
    let (request, answer) = answer.into_parts();
    let (mut answer, body) = answer.into_parts();
    let body = match body.try_into_bytes() {
        Ok(body) => body,
        // A streamed body. This service never sends one.
        Err(body) => return Ok(ServiceResponse::new(request, answer.set_body(body).map_into_boxed_body())),
    };
    let headers = answer.headers_mut();
    if !headers.contains_key(header::ETAG) {
        headers.insert(header::ETAG, value(&weak_tag(&body)));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, value(&cache_control(max_age_seconds)));
    }
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if headers.get(header::ETAG).is_some_and(|tag| known.contain(tag)) {
        headers.remove(header::CONTENT_TYPE);
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(ServiceResponse::new(request, answer.drop_body().map_into_boxed_body()));
    }
    Ok(ServiceResponse::new(request, answer.set_body(body).map_into_boxed_body()))
}

/// The entity tag for this body. The tag is weak, because compression changes the bytes but not their meaning.
pub(crate) fn weak_tag(body: &[u8]) -> String {
    let hash = Sha256::digest(body);
    format!("W/\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(hash.get(..TAG_BYTES).unwrap_or(&hash)))
}

fn cache_control(max_age_seconds: u32) -> String {
    match max_age_seconds {
        0 => "no-cache".to_owned(),
        seconds => format!("public, max-age={seconds}, must-revalidate"),
    }
}

/// A header value that this service makes.
fn value(text: &str) -> HeaderValue {
    // Such a value is visible ASCII.
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The entity tags in `If-None-Match`: the content that the client already has.
struct KnownTags(Vec<String>);

impl KnownTags {
    fn read(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
        Self(values.flat_map(|value| value.split(',')).map(|tag| opaque(tag.trim()).to_owned()).collect())
    }

    /// Whether one of them equals this tag by weak comparison (RFC 9110 section 8.8.3.2).
    fn contain(&self, tag: &HeaderValue) -> bool {
        let tag = tag.to_str().map(opaque).unwrap_or_default();
        self.0.iter().any(|known| known == "*" || known == tag)
    }
}

/// A tag without the mark for weak tags.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_entity_tag_is_recognised() {
        let known = |sent: &str, tag: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(sent).unwrap());
            KnownTags::read(&headers).contain(&HeaderValue::from_str(tag).unwrap())
        };
        assert!(known("\"a\"", "\"a\"") && known("W/\"a\"", "\"a\"") && known("\"a\"", "W/\"a\""));
        assert!(known("\"b\", W/\"a\"", "W/\"a\"") && known("*", "\"a\""));
        assert!(!known("\"b\"", "\"a\"") && !known("", "\"a\"") && !known("a", "\"a\""));
    }

    #[test]
    fn the_tag_of_other_content_is_another() {
        assert_eq!(weak_tag(b"a").len(), "W/\"\"".len() + TAG_BYTES * 4 / 3);
        assert_ne!(weak_tag(b"a"), weak_tag(b"b"));
        assert_eq!(cache_control(30), "public, max-age=30, must-revalidate");
        assert_eq!(cache_control(0), "no-cache");
    }
}
