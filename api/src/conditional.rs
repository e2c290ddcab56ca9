//! Entity tags: a comment's revision in quotes.

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderName},
};
use model::Revision;

use crate::error::ApiError;

/// The entity tag of a revision.
pub(crate) fn etag(revision: Revision) -> String {
    format!("\"{revision}\"")
}

/// What the header `If-Match` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// Nothing, or `*`: any revision will do.
    Any,
    /// This revision.
    Revision(Revision),
    /// An entity tag that no comment ever has.
    Nothing,
}

impl IfMatch {
    /// Reads the header.
    ///
    /// # Errors
    /// More than one entity tag, or none. A weak one never matches (RFC 9110 section 13.1.1).
    pub(crate) fn read(request: &HttpRequest) -> Result<Self, ApiError> {
        let refuse = || ApiError::invalid("If-Match", "must be * or one entity tag: a revision in double quotes");
        let Some(value) = single_header(request, &header::IF_MATCH)? else { return Ok(Self::Any) };
        if value == "*" {
            return Ok(Self::Any);
        }
        let (strong, value) = value.strip_prefix("W/").map_or((true, value), |weak| (false, weak));
        let tag = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or_else(refuse)?;
        if tag.contains(['"', ' ']) {
            return Err(refuse());
        }
        Ok(Revision::parse(tag).ok().filter(|_| strong).map_or(Self::Nothing, Self::Revision))
    }
}

/// The value of a header that may be given once.
///
/// # Errors
/// Names the header that is repeated or no visible ASCII.
pub(crate) fn single_header<'request>(
    request: &'request HttpRequest,
    name: &HeaderName,
) -> Result<Option<&'request str>, ApiError> {
    let mut values = request.headers().get_all(name);
    let Some(value) = values.next() else { return Ok(None) };
    let named = |problem: &str| ApiError::invalid(title_case(name), problem);
    if values.next().is_some() {
        return Err(named("is given more than once"));
    }
    Ok(Some(value.to_str().map_err(|_| named("holds characters that are not visible ASCII"))?.trim()))
}

/// A header's name as people write it, `If-Match`.
fn title_case(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    const REVISION: &str = "01HF7YAT00000000000000000A";

    fn if_match(value: &str) -> Result<IfMatch, ApiError> {
        IfMatch::read(&TestRequest::patch().insert_header((header::IF_MATCH, value)).to_http_request())
    }

    #[test]
    fn if_match_is_one_strong_entity_tag_or_a_star() {
        let revision = Revision::parse(REVISION).unwrap();
        assert_eq!(if_match(&etag(revision)).unwrap(), IfMatch::Revision(revision));
        assert_eq!(if_match("*").unwrap(), IfMatch::Any);
        assert_eq!(if_match("\"other\"").unwrap(), IfMatch::Nothing);
        assert_eq!(IfMatch::read(&TestRequest::patch().to_http_request()).unwrap(), IfMatch::Any);
        assert_eq!(if_match(&format!("W/{}", etag(revision))).unwrap(), IfMatch::Nothing);
        for wrong in ["", REVISION, "W/a", "\"a\", \"b\"", "\"", "\"a"] {
            let refused = if_match(wrong).unwrap_err();
            assert!(matches!(refused, ApiError::Invalid { field, .. } if field == "If-Match"), "{wrong}");
        }
    }
}
