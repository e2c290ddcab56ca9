//! The headers that writes read: `If-Match`, `If-None-Match` and `Idempotency-Key`.

use model::{InvalidInput, Revision};
use serde_json::json;
use table::WriteError;

use super::{
    parameters::{FromParameters, Given, Parameter},
    schema,
};
use crate::{entity_tag::revision_of, error::ApiError, http::path_and_query::repeated};

pub(crate) static IF_MATCH: Parameter<Revisions> = Parameter {
    name: "If-Match",
    description: "Only at one of these revisions: entity tags, or `*` for any. `W/` in front changes nothing",
    schema: schema::if_match,
    example: || json!("*"),
    parse: Revisions::parse,
};

pub(crate) static IF_NONE_MATCH: Parameter<Revisions> = Parameter {
    name: "If-None-Match",
    description: "Only at none of these revisions: entity tags, or `*` for any, so only where there is nothing yet",
    schema: schema::if_match,
    example: || json!("\"01JCP3D7W0Q4N1R5Y8B3C6D9EF\""),
    parse: Revisions::parse,
};

pub(crate) static IDEMPOTENCY_KEY: Parameter<IdempotencyKey> = Parameter {
    name: "Idempotency-Key",
    description: "Names this comment among all that are created with the same token for the same product; it is kept \
                  for a day",
    schema: || {
        schema::text("^[!-~]+$")
            .max_length(Some(IdempotencyKey::MAX_LEN))
            .into()
    },
    example: || json!("6d1f0a52-1d5c-4f0f-9f3b-2b1f6c1c8a77"),
    parse: IdempotencyKey::parse,
};

/// The revisions that a header lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Revisions {
    /// `*`: all of them.
    All,
    /// These; none when no comment can have the listed entity tags.
    These(Vec<Revision>),
}

impl Revisions {
    fn contains(&self, revision: Revision) -> bool {
        match self {
            Self::All => true,
            Self::These(revisions) => revisions.contains(&revision),
        }
    }

    /// Reads the list of a header. A weak tag counts like the strong one, and so does one with a
    /// suffix: proxies that compress answers make our tags weak, or append to them. Both tags of a
    /// comment, with and without its author's id, name its revision.
    fn parse(list: &str) -> Result<Self, InvalidInput> {
        if list.trim() == "*" {
            return Ok(Self::All);
        }
        let tags = entity_tags(list)
            .filter(|tags| !tags.is_empty())
            .ok_or_else(|| {
                InvalidInput::new(
                    IF_MATCH.name,
                    "must be * or entity tags: revisions in double quotes",
                )
            })?;
        Ok(Self::These(
            tags.into_iter().filter_map(revision_of).collect(),
        ))
    }

    /// `None` without the header. It may occur several times: together they are one list (RFC 9110
    /// section 5.3).
    fn read(given: &Given<'_>, header: &'static Parameter<Self>) -> Result<Option<Self>, ApiError> {
        let values = given.in_headers(header)?;
        if values.is_empty() {
            return Ok(None);
        }
        header.read(&values.join(",")).map(Some)
    }
}

/// The conditions of a write on the revision of what is there.
#[derive(Debug)]
pub(crate) struct Conditions {
    if_match: Option<Revisions>,
    /// The revisions that exclude the write.
    if_none_match: Option<Revisions>,
}

impl FromParameters for Conditions {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        let [if_match, if_none_match] =
            [&IF_MATCH, &IF_NONE_MATCH].map(|header| Revisions::read(given, header));
        Ok(Self {
            if_match: if_match?,
            if_none_match: if_none_match?,
        })
    }
}

impl Conditions {
    /// Whether they hold (RFC 9110 section 13.1): `current` is `None` when nothing is there.
    pub(crate) fn hold(&self, current: Option<Revision>) -> bool {
        let matches =
            |revisions: &Revisions| current.is_some_and(|current| revisions.contains(current));
        self.if_match.as_ref().is_none_or(matches)
            && !self.if_none_match.as_ref().is_some_and(matches)
    }

    /// The answer to a write of a comment that failed. `If-Match` is evaluated first (RFC 9110
    /// section 13.2.2).
    pub(crate) fn refused(&self, error: WriteError) -> ApiError {
        if let WriteError::RevisionMismatch { current } = error
            && self
                .if_match
                .as_ref()
                .is_none_or(|allowed| allowed.contains(current))
        {
            return ApiError::RevisionExcluded { current };
        }
        error.into()
    }
}

/// The entity tags of a list, weak or strong; `None` for a header that is not such a list. Its
/// elements may be empty (RFC 9110 sections 5.6.1.2 and 8.8.3).
fn entity_tags(mut list: &str) -> Option<Vec<&str>> {
    let mut tags = Vec::new();
    loop {
        list = list.trim_start_matches([' ', '\t', ',']);
        if list.is_empty() {
            return Some(tags);
        }
        let quoted = list.strip_prefix("W/").unwrap_or(list);
        let (tag, rest) = quoted.strip_prefix('"')?.split_once('"')?;
        if tag.contains([' ', '\t']) {
            return None;
        }
        tags.push(tag);
        list = rest.trim_start_matches([' ', '\t']);
        if !list.is_empty() && !list.starts_with(',') {
            return None;
        }
    }
}

/// What a request carries so that sending it twice makes one comment.
pub(crate) struct IdempotencyKey(pub(super) String);

impl IdempotencyKey {
    const MAX_LEN: usize = 255;

    fn parse(key: &str) -> Result<Self, InvalidInput> {
        if key.is_empty()
            || key.len() > Self::MAX_LEN
            || !key.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let problem = format!("must be 1 to {} visible ASCII characters", Self::MAX_LEN);
            return Err(InvalidInput::new(IDEMPOTENCY_KEY.name, problem));
        }
        Ok(Self(key.to_owned()))
    }
}

impl FromParameters for Option<IdempotencyKey> {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        match given.in_headers(&IDEMPOTENCY_KEY)?.as_slice() {
            [] => Ok(None),
            [key] => IDEMPOTENCY_KEY.read(key.trim()).map(Some),
            [..] => Err(repeated(IDEMPOTENCY_KEY.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::{http::header, test::TestRequest};
    use proptest::prelude::*;

    use super::*;
    use crate::{entity_tag::strong_tag, error::tests::refused_field};

    const REVISION: &str = "01HF7YAT00000000000000000A";

    fn conditions(request: TestRequest) -> Result<Conditions, ApiError> {
        Conditions::read(&Given::of(&request.to_http_request()))
    }

    fn if_match(list: &str) -> Result<Option<Revisions>, ApiError> {
        let request = TestRequest::patch().insert_header((header::IF_MATCH, list));
        Ok(conditions(request)?.if_match)
    }

    fn if_none_match(list: &str) -> Result<Option<Revisions>, ApiError> {
        let request = TestRequest::patch().insert_header((header::IF_NONE_MATCH, list));
        Ok(conditions(request)?.if_none_match)
    }

    #[test]
    fn if_match_is_entity_tags_or_a_star() {
        let revision = Revision::parse(REVISION).unwrap();
        let strong = strong_tag(revision);
        let one = Revisions::These(vec![revision]);
        let none = Revisions::These(Vec::new());
        for (list, revisions) in [
            ("*", &Revisions::All),
            ("{}", &one),
            ("\"other\"", &none),
            ("W/{}", &one),
            ("{-gzip}", &one),
            ("{-br}", &one),
            ("W/{;gzip}", &one),
            ("{-author}", &one),
            ("{-author-gzip}", &one),
            ("\"other-gzip\"", &none),
            ("W/\"other\"", &none),
            ("\"a,b\" , {}", &one),
            (", {},", &one),
            ("\"other\", W/{}", &one),
        ] {
            let mut list = list.replace("{}", &strong);
            for suffix in ["-gzip", "-br", ";gzip", "-author", "-author-gzip"] {
                let with_suffix = format!("\"{REVISION}{suffix}\"");
                list = list.replace(&format!("{{{suffix}}}"), &with_suffix);
            }
            let read = if_match(&list).unwrap();
            assert_eq!(read.as_ref(), Some(revisions), "{list}");
        }
        assert_eq!(conditions(TestRequest::patch()).unwrap().if_match, None);
        let twice = TestRequest::patch().append_header((header::IF_MATCH, "\"a\""));
        let twice = twice.append_header((header::IF_MATCH, strong));
        assert_eq!(conditions(twice).unwrap().if_match, Some(one));
        for wrong in [
            "",
            ",",
            REVISION,
            "W/a",
            "\"a\" \"b\"",
            "\"a\", *",
            "*, \"a\"",
            "\"",
            "\"a",
            "\"a b\"",
        ] {
            assert_eq!(refused_field(if_match(wrong)), "If-Match", "{wrong}");
        }
    }

    #[test]
    fn if_none_match_excludes_revisions_by_weak_tags_too() {
        let revision = Revision::parse(REVISION).unwrap();
        let strong = strong_tag(revision);
        let without = conditions(TestRequest::patch()).unwrap();
        assert_eq!(without.if_none_match, None);
        for excluding in [
            "*",
            &strong,
            &format!("W/{strong}"),
            &format!("\"a\", {strong}"),
        ] {
            let excluded = if_none_match(excluding).unwrap().unwrap();
            assert!(excluded.contains(revision), "{excluding}");
        }
        let excluded = if_none_match("\"other\"").unwrap().unwrap();
        assert!(!excluded.contains(revision));
        assert_eq!(refused_field(if_none_match("a")), "If-None-Match");
    }

    #[test]
    fn conditions_tell_what_is_not_there_from_what_has_changed() {
        let revision = Revision::parse(REVISION).unwrap();
        let strong = strong_tag(revision);
        let none = conditions(TestRequest::put()).unwrap();
        assert!(none.hold(None) && none.hold(Some(revision)));
        for (name, value, hold_for_nothing, hold_for_revision) in [
            ("if-match", "*", false, true),
            ("if-match", &strong, false, true),
            ("if-match", "\"other\"", false, false),
            ("if-none-match", "*", true, false),
            ("if-none-match", &strong, true, false),
            ("if-none-match", "\"other\"", true, true),
        ] {
            let given = conditions(TestRequest::put().insert_header((name, value))).unwrap();
            assert_eq!(
                (given.hold(None), given.hold(Some(revision))),
                (hold_for_nothing, hold_for_revision),
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn a_wrong_idempotency_key_is_named() {
        let request = TestRequest::post()
            .insert_header((IDEMPOTENCY_KEY.name, "a b"))
            .to_http_request();
        assert_eq!(
            refused_field(Option::<IdempotencyKey>::read(&Given::of(&request))),
            "Idempotency-Key"
        );
    }

    proptest! {
        #[test]
        fn an_idempotency_key_is_kept_as_it_is_or_refused(key in "[ -~]{0,300}|.{0,20}") {
            if let Ok(IdempotencyKey(kept)) = IdempotencyKey::parse(&key) {
                prop_assert_eq!(kept, key);
            }
        }
    }
}
