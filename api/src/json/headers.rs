//! The headers that writes read: `If-Match`, `If-None-Match` and `Idempotency-Key`.

use actix_web::HttpRequest;
use model::Revision;
use serde_json::json;
use utoipa::openapi::path::ParameterIn;

use super::{
    parameters::Parameter,
    schema::{self, IDEMPOTENCY_KEY_MAX_LEN},
};
use crate::error::ApiError;

pub(crate) static IF_MATCH: Parameter = Parameter {
    name: "If-Match",
    place: ParameterIn::Header,
    description: "Only when the comment is at one of these revisions: entity tags, or `*` for any",
    schema: schema::if_match,
    example: || json!("*"),
};

pub(crate) static IF_NONE_MATCH: Parameter = Parameter {
    name: "If-None-Match",
    place: ParameterIn::Header,
    description: "Only when the comment is at none of these revisions: entity tags, or `*` for any, so never",
    schema: schema::if_match,
    example: || json!("\"01JCP3D7W0Q4N1R5Y8B3C6D9EF\""),
};

pub(crate) static IDEMPOTENCY_KEY: Parameter = Parameter {
    name: "Idempotency-Key",
    place: ParameterIn::Header,
    description: "Names this comment among all that are created with the same token for the same product; it is kept \
                  for a day",
    schema: || schema::idempotency_key().into(),
    example: || json!("6d1f0a52-1d5c-4f0f-9f3b-2b1f6c1c8a77"),
};

/// The condition of the header `If-Match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// No condition, or `*`: any revision will do.
    Any,
    /// One of these revisions; empty when no comment can have such entity tags.
    OneOf(Vec<Revision>),
}

impl IfMatch {
    /// Reads the header, which may occur several times: together they are one list (RFC 9110 section 5.3).
    ///
    /// # Errors
    /// Neither `*` nor entity tags. A weak one never matches (RFC 9110 section 13.1.1).
    pub(crate) fn read(request: &HttpRequest) -> Result<Self, ApiError> {
        Ok(match Tags::read(request, &IF_MATCH)? {
            None | Some(Tags::Star) => Self::Any,
            Some(Tags::List(tags)) => {
                Self::OneOf(tags.into_iter().filter_map(|(strong, revision)| revision.filter(|_| strong)).collect())
            }
        })
    }
}

/// The revisions that the header `If-None-Match` excludes, in a request that changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IfNoneMatch {
    /// `*`: any revision, so only a missing comment passes.
    Any,
    /// These revisions; none without the header.
    OneOf(Vec<Revision>),
}

impl IfNoneMatch {
    /// Reads the header. A weak entity tag matches like a strong one (RFC 9110 section 13.1.2).
    ///
    /// # Errors
    /// Neither `*` nor entity tags.
    pub(crate) fn read(request: &HttpRequest) -> Result<Self, ApiError> {
        Ok(match Tags::read(request, &IF_NONE_MATCH)? {
            None => Self::OneOf(Vec::new()),
            Some(Tags::Star) => Self::Any,
            Some(Tags::List(tags)) => Self::OneOf(tags.into_iter().filter_map(|(_, revision)| revision).collect()),
        })
    }

    /// Whether it excludes nothing, so that the comment need not be looked up.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::OneOf(revisions) if revisions.is_empty())
    }

    /// Whether it excludes a comment at this revision.
    pub(crate) fn excludes(&self, current: Revision) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(revisions) => revisions.contains(&current),
        }
    }
}

/// The value of a header that lists entity tags.
enum Tags {
    /// `*`.
    Star,
    /// Each tag with whether it is strong, and its revision: `None` when no comment can have this tag.
    List(Vec<(bool, Option<Revision>)>),
}

impl Tags {
    fn read(request: &HttpRequest, parameter: &Parameter) -> Result<Option<Self>, ApiError> {
        let values: Vec<_> = request.headers().get_all(parameter.name).collect();
        if values.is_empty() {
            return Ok(None);
        }
        let refuse = || ApiError::invalid(parameter.name, "must be * or entity tags: revisions in double quotes");
        let values: Option<Vec<&str>> = values.into_iter().map(|value| value.to_str().ok()).collect();
        let value = values.ok_or_else(refuse)?.join(",");
        if value.trim() == "*" {
            return Ok(Some(Self::Star));
        }
        let tags = entity_tags(&value).filter(|tags| !tags.is_empty()).ok_or_else(refuse)?;
        Ok(Some(Self::List(tags.into_iter().map(|(strong, tag)| (strong, Revision::parse(tag).ok())).collect())))
    }
}

/// The entity tags of a list, each with whether it is strong; `None` for a header that is not such a list. Its elements
/// may be empty (RFC 9110 sections 5.6.1.2 and 8.8.3).
fn entity_tags(mut list: &str) -> Option<Vec<(bool, &str)>> {
    let mut tags = Vec::new();
    loop {
        list = list.trim_start_matches([' ', '\t', ',']);
        if list.is_empty() {
            return Some(tags);
        }
        let (strong, quoted) = list.strip_prefix("W/").map_or((true, list), |weak| (false, weak));
        let (tag, rest) = quoted.strip_prefix('"')?.split_once('"')?;
        if tag.contains([' ', '\t']) {
            return None;
        }
        tags.push((strong, tag));
        list = rest.trim_start_matches([' ', '\t']);
        if !list.is_empty() && !list.starts_with(',') {
            return None;
        }
    }
}

/// The header `Idempotency-Key`.
///
/// # Errors
/// The header is repeated, or [`parse_idempotency_key`]'s.
pub(crate) fn idempotency_key(request: &HttpRequest) -> Result<Option<String>, ApiError> {
    let mut values = request.headers().get_all(IDEMPOTENCY_KEY.name);
    let Some(value) = values.next() else { return Ok(None) };
    let refuse = |problem: &str| ApiError::invalid(IDEMPOTENCY_KEY.name, problem);
    if values.next().is_some() {
        return Err(refuse("is given more than once"));
    }
    let key = value.to_str().map_err(|_| refuse("holds characters that are not visible ASCII"))?;
    parse_idempotency_key(key.trim()).map(Some)
}

/// A key that distinguishes repeated requests from new ones.
///
/// # Errors
/// The key is empty, too long, or has other characters.
pub(crate) fn parse_idempotency_key(key: &str) -> Result<String, ApiError> {
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_MAX_LEN || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!("must be 1 to {IDEMPOTENCY_KEY_MAX_LEN} visible ASCII characters");
        return Err(ApiError::invalid(IDEMPOTENCY_KEY.name, problem));
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use actix_web::{http::header, test::TestRequest};

    use super::*;
    use crate::http::entity_tag::strong_tag;

    const REVISION: &str = "01HF7YAT00000000000000000A";

    fn if_match(value: &str) -> Result<IfMatch, ApiError> {
        IfMatch::read(&TestRequest::patch().insert_header((header::IF_MATCH, value)).to_http_request())
    }

    #[test]
    fn if_match_is_strong_entity_tags_or_a_star() {
        let revision = Revision::parse(REVISION).unwrap();
        assert_eq!(if_match(&strong_tag(revision)).unwrap(), IfMatch::OneOf(vec![revision]));
        assert_eq!(if_match("*").unwrap(), IfMatch::Any);
        assert_eq!(if_match("\"other\"").unwrap(), IfMatch::OneOf(Vec::new()));
        assert_eq!(IfMatch::read(&TestRequest::patch().to_http_request()).unwrap(), IfMatch::Any);
        assert_eq!(if_match(&format!("W/{}", strong_tag(revision))).unwrap(), IfMatch::OneOf(Vec::new()));
        for list in ["\"a,b\" , \"{}\"", "\"{}\",W/\"{}\"", ", \"{}\",", "W/\"{}\", \"{}\""] {
            let list = list.replace("{}", REVISION);
            assert_eq!(if_match(&list).unwrap(), IfMatch::OneOf(vec![revision]), "{list}");
        }
        let twice = TestRequest::patch().append_header((header::IF_MATCH, "\"a\""));
        let twice = twice.append_header((header::IF_MATCH, strong_tag(revision))).to_http_request();
        assert_eq!(IfMatch::read(&twice).unwrap(), IfMatch::OneOf(vec![revision]));
        for wrong in ["", ",", REVISION, "W/a", "\"a\" \"b\"", "\"a\", *", "*, \"a\"", "\"", "\"a", "\"a b\""] {
            let refused = if_match(wrong).unwrap_err();
            assert!(matches!(refused, ApiError::Invalid { field, .. } if field == "If-Match"), "{wrong}");
        }
    }

    #[test]
    fn if_none_match_excludes_revisions_by_weak_tags_too() {
        let revision = Revision::parse(REVISION).unwrap();
        let read = |value: &str| {
            IfNoneMatch::read(&TestRequest::patch().insert_header((header::IF_NONE_MATCH, value)).to_http_request())
        };
        let without = IfNoneMatch::read(&TestRequest::patch().to_http_request()).unwrap();
        assert!(without.is_open() && !without.excludes(revision));
        for excluding in [
            "*",
            &strong_tag(revision),
            &format!("W/{}", strong_tag(revision)),
            &format!("\"a\", {}", strong_tag(revision)),
        ] {
            let read = read(excluding).unwrap();
            assert!(!read.is_open() && read.excludes(revision), "{excluding}");
        }
        assert!(!read("\"other\"").unwrap().excludes(revision));
        let refused = read("a").unwrap_err();
        assert!(matches!(refused, ApiError::Invalid { field, .. } if field == "If-None-Match"));
    }
}
