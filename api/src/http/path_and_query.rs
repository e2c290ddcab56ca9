//! Paths and query strings: decoded exactly, or refused.
//!
//! The router decodes paths leniently: bytes that are not UTF-8 become replacement characters, which would name another
//! product. So the router only chooses a route, and this module decodes the parts from the path as it was sent. The
//! router never decodes `%2F`, so both see the same parts.

use actix_web::HttpRequest;
use model::{CommentId, ProductId};
use percent_encoding::percent_decode_str;

use crate::error::ApiError;

/// The part of the path with this index, counted from 1, decoded.
///
/// # Errors
/// Names `field`, when the part is not percent-encoded UTF-8.
pub(crate) fn path_part(request: &HttpRequest, index: usize, field: &'static str) -> Result<String, ApiError> {
    let part = request.uri().path().split('/').nth(index).unwrap_or_default();
    decode(part).ok_or_else(|| not_encoded(field))
}

pub(crate) fn product(request: &HttpRequest, index: usize) -> Result<ProductId, ApiError> {
    Ok(ProductId::parse(&path_part(request, index, "product")?)?)
}

pub(crate) fn comment_id(request: &HttpRequest, index: usize) -> Result<CommentId, ApiError> {
    Ok(CommentId::parse(&path_part(request, index, "id")?)?)
}

/// Decodes only percent-encoded UTF-8: a `%` without two hex digits is refused.
pub(crate) fn decode(encoded: &str) -> Option<String> {
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let escapes_are_whole = encoded.split('%').skip(1).all(|piece| piece.get(..2).is_some_and(is_hex));
    let decoded = escapes_are_whole.then(|| percent_decode_str(encoded).decode_utf8())?;
    Some(decoded.ok()?.into_owned())
}

/// A name and a value of an `application/x-www-form-urlencoded` text; `None` where they are not percent-encoded UTF-8.
#[derive(Debug)]
pub(crate) struct Pair<'text> {
    pub(crate) name: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) spelling: &'text str,
}

pub(crate) fn pairs(text: &str) -> impl Iterator<Item = Pair<'_>> {
    let decode = |encoded: &str| decode(&encoded.replace('+', " "));
    text.split('&').filter(|pair| !pair.is_empty()).map(move |spelling| {
        let (name, value) = spelling.split_once('=').unwrap_or((spelling, ""));
        Pair { name: decode(name), value: decode(value), spelling }
    })
}

pub(crate) fn not_encoded(field: &'static str) -> ApiError {
    ApiError::invalid(field, "is not percent-encoded UTF-8")
}

pub(crate) fn repeated(field: impl Into<std::borrow::Cow<'static, str>>) -> ApiError {
    ApiError::invalid(field, "is given more than once")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_percent_encoded_utf8_is_decoded() {
        for (encoded, text) in [("a", "a"), ("a%2Fb%2fc", "a/b/c"), ("%25", "%"), ("%252F", "%2F"), ("%E2%98%95", "☕")]
        {
            assert_eq!(decode(encoded).as_deref(), Some(text));
        }
        for broken in ["%", "%2", "%zz", "100%", "%F", "%FF", "%E2%98", "%C0%AF", "%ED%A0%80"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
