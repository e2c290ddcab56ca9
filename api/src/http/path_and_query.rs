//! Paths and query strings: decoded exactly, or refused.
//!
//! The router decodes paths leniently: bytes that are not UTF-8 become replacement characters,
//! which would name another product. So the router only chooses a route, and this module decodes
//! the parts from the path as it was sent. The router never decodes `%2F`, so both see the same
//! parts. [`with_whole_id`] comes before it.

use actix_web::HttpRequest;
use percent_encoding::percent_decode_str;

use crate::error::ApiError;

/// Addresses whose id may have slashes: the part before the id, what may follow it, and how many
/// parts a filter adds to that.
const AROUND_IDS: [(&str, &[&str], usize); 4] = [
    ("/product/", &["comments", "feed"], 2),
    ("/fragment/product/", &["comments"], 2),
    ("/api/v1/products/", &["comments", "stats"], 0),
    ("/api/v1/authors/", &["comments"], 0),
];
/// The path of a product's record has nothing behind the id.
const RECORDS: &str = "/api/v1/products/";

/// The path with every slash of its id as `%2F`; `None` if none stands there as it is. Many proxies
/// decode paths.
///
/// What follows an id is searched from the end, so the product `a/comments` is found too.
pub(crate) fn with_whole_id(path: &str) -> Option<String> {
    let (start, kinds, filters_max) = AROUND_IDS
        .into_iter()
        .find(|(start, ..)| path.starts_with(start))?;
    let parts: Vec<&str> = path.strip_prefix(start)?.split('/').collect();
    let kind_at = parts.iter().rposition(|part| kinds.contains(part));
    let end = match kind_at {
        Some(at) if are_filters(parts.get(at + 1..).unwrap_or_default(), filters_max) => at,
        _ if start == RECORDS && !path.ends_with('/') => parts.len(),
        _ => return None,
    };
    let (id, rest) = parts.split_at_checked(end)?;
    if id.len() < 2 {
        return None;
    }
    let mut whole = format!("{start}{}", id.join("%2F"));
    for part in rest {
        whole.push('/');
        whole.push_str(part);
    }
    Some(whole)
}

/// Whether these parts of a path are filters: at most so many, and none empty but at the end.
fn are_filters(parts: &[&str], filters_max: usize) -> bool {
    let count = match parts.iter().rposition(|part| !part.is_empty()) {
        Some(last) => last + 1,
        None => 0,
    };
    count <= filters_max && parts.iter().take(count).all(|part| !part.is_empty())
}

/// The part of the path with this index, counted from 1, decoded.
///
/// # Errors
/// Names `field`, when the part is not percent-encoded UTF-8.
pub(crate) fn path_part(
    request: &HttpRequest,
    index: usize,
    field: &'static str,
) -> Result<String, ApiError> {
    let part = request
        .uri()
        .path()
        .split('/')
        .nth(index)
        .unwrap_or_default();
    decode(part).ok_or_else(|| not_encoded(field))
}

/// Decodes only percent-encoded UTF-8: a `%` without two hex digits is refused.
pub(crate) fn decode(encoded: &str) -> Option<String> {
    if !encoded.split('%').skip(1).all(begins_with_two_hex_digits) {
        return None;
    }
    let decoded = percent_decode_str(encoded).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

fn begins_with_two_hex_digits(text: &str) -> bool {
    text.get(..2)
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A name and a value of an `application/x-www-form-urlencoded` text; `None` where they are not
/// percent-encoded UTF-8.
#[derive(Debug)]
pub(crate) struct Pair<'text> {
    pub(crate) name: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) spelling: &'text str,
}

impl<'text> Pair<'text> {
    fn read(spelling: &'text str) -> Self {
        let (name, value) = spelling.split_once('=').unwrap_or((spelling, ""));
        // A plus sign is a space.
        Self {
            name: decode(&name.replace('+', " ")),
            value: decode(&value.replace('+', " ")),
            spelling,
        }
    }
}

pub(crate) fn pairs(text: &str) -> impl Iterator<Item = Pair<'_>> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(Pair::read)
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
    fn the_slashes_of_ids_are_found() {
        for (path, whole) in [
            ("/product/a/b/comments", "/product/a%2Fb/comments"),
            (
                "/product/a/b%2Fc//comments/en/1.5/",
                "/product/a%2Fb%2Fc%2F/comments/en/1.5/",
            ),
            (
                "/product/a/comments/comments",
                "/product/a%2Fcomments/comments",
            ),
            (
                "/product/a/comments/feed/en",
                "/product/a%2Fcomments/feed/en",
            ),
            (
                "/fragment/product/a/b/comments/~/5",
                "/fragment/product/a%2Fb/comments/~/5",
            ),
            (
                "/api/v1/products/a/b/comments",
                "/api/v1/products/a%2Fb/comments",
            ),
            ("/api/v1/products/a/b/stats", "/api/v1/products/a%2Fb/stats"),
            ("/api/v1/products/a/b", "/api/v1/products/a%2Fb"),
            (
                "/api/v1/authors/a/b/comments",
                "/api/v1/authors/a%2Fb/comments",
            ),
        ] {
            assert_eq!(with_whole_id(path).as_deref(), Some(whole), "{path}");
            assert_eq!(with_whole_id(whole), None, "{whole}");
        }
        for path in [
            "/",
            "/products",
            "/product/p",
            "/product//comments",
            "/product/p/comments/en/5",
            "/product/p/comments//5",
            "/product/a/b/comments/en/5/1",
            "/api/v1/products",
            "/api/v1/products/p/",
            "/api/v1/authors/a/b",
            "/comments/a/b",
        ] {
            assert_eq!(with_whole_id(path), None, "{path}");
        }
    }

    #[test]
    fn only_whole_percent_encoded_utf8_is_decoded() {
        for (encoded, text) in [
            ("a", "a"),
            ("a%2Fb%2fc", "a/b/c"),
            ("%25", "%"),
            ("%252F", "%2F"),
            ("%E2%98%95", "☕"),
        ] {
            assert_eq!(decode(encoded).as_deref(), Some(text));
        }
        for broken in [
            "%",
            "%2",
            "%zz",
            "100%",
            "%F",
            "%FF",
            "%E2%98",
            "%C0%AF",
            "%ED%A0%80",
        ] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
