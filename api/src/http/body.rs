//! Bodies of requests, read within bounds.

use std::time::Duration;

use actix_web::{HttpMessage, HttpRequest, http::header, web};
use model::{AuthorId, CommentAttributes, CommentText};

use crate::error::ApiError;

/// The longest that a body may take to arrive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyTimeout(pub(crate) Duration);

/// The answer to a body of more than [`BODY_MAX_BYTES`].
const TOO_LARGE: ApiError = ApiError::BodyTooLarge {
    bytes_max: BODY_MAX_BYTES,
};

/// The most bytes that a character of a text takes in a body. In JSON, a character beyond the Basic
/// Multilingual Plane may be two escapes (`\ud83d\ude00`).
const CHAR_MAX_BYTES: usize = 12;

/// Maximum size of the rest of a body: other fields, the fields' names, white space. A byte of
/// attributes and of an author's id may be written as an escape of six.
const OVERHEAD_BYTES: usize = 4 * 1024 + (CommentAttributes::MAX_BYTES + AuthorId::MAX_BYTES) * 6;

/// The largest body, in whole KiB. It holds the longest allowed texts, however they are encoded.
pub(crate) const BODY_MAX_BYTES: usize =
    (CommentText::MAX_CHARS * CHAR_MAX_BYTES + OVERHEAD_BYTES).next_multiple_of(1024);

/// Reads the body of a request, which must be sent as one of the media types `accepted`.
///
/// # Errors
/// Another media type, too large, or too slow.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    accepted: &'static [&'static str],
) -> Result<web::Bytes, ApiError> {
    check_media_type(request, accepted)?;
    if announced_bytes(request).is_some_and(|bytes| bytes > BODY_MAX_BYTES) {
        return Err(TOO_LARGE);
    }
    let BodyTimeout(timeout) = request
        .app_data()
        .ok_or_else(|| ApiError::internal("the service has no time-out for bodies"))?;
    tokio::time::timeout(*timeout, payload.to_bytes_limited(BODY_MAX_BYTES))
        .await
        .map_err(|_| ApiError::BodyTooSlow)?
        .map_err(|_| TOO_LARGE)?
        .map_err(|error| ApiError::BrokenBody(error.to_string()))
}

/// The size of the body as the request's head says it; `None` if it does not.
fn announced_bytes(request: &HttpRequest) -> Option<usize> {
    let length = request.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

fn check_media_type(
    request: &HttpRequest,
    accepted: &'static [&'static str],
) -> Result<(), ApiError> {
    let media_type = request.content_type();
    let is_accepted = accepted
        .iter()
        .any(|accepted| accepted.eq_ignore_ascii_case(media_type));
    let is_plain = request
        .headers()
        .get(header::CONTENT_ENCODING)
        .is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if is_accepted && is_plain {
        Ok(())
    } else {
        Err(ApiError::UnsupportedMediaType {
            accepted: accepted.first().copied().unwrap_or_default(),
        })
    }
}
