//! What a site stores with a comment beside its text: attributes, and an id of the
//! author (ADR 70).

use derive_more::Display;
use serde::{Deserialize, Serialize, Serializer, ser::Error};
use serde_json::{Map, Value, value::RawValue};

use crate::{
    error::{InvalidInput, quoted},
    id::is_dot_segment,
    visible::{has_visible_char, has_visible_ends},
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteData {
    /// The site's attributes, which are public.
    pub attributes: Option<CommentAttributes>,
    /// The author's id at the site. Only a primary item holds it, and only clients with a write
    /// token read it.
    pub author_id: Option<AuthorId>,
}

impl SiteData {
    /// Whether it may be written today. Stored fields may follow earlier rules, or come from
    /// another tool.
    pub fn check(&self) -> Result<(), InvalidInput> {
        if let Some(attributes) = &self.attributes {
            CommentAttributes::parse(attributes.as_json())?;
        }
        if let Some(id) = &self.author_id {
            AuthorId::parse(id.as_str())?;
        }
        Ok(())
    }
}

/// A JSON object (RFC 8259) that is kept to the letter: the order of its keys, and the spelling of
/// its numbers and texts. Only white space between its tokens is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentAttributes(String);

impl CommentAttributes {
    pub const FIELD: &'static str = "attributes";
    /// The most bytes of the object as JSON without white space.
    pub const MAX_BYTES: usize = 4096;
    /// How many objects and arrays may be within each other, the object itself included. DynamoDB
    /// has the same limit for its own maps and lists (AWS: "Quotas in Amazon DynamoDB").
    pub const MAX_DEPTH: usize = 32;

    pub fn parse(json: &str) -> Result<Self, InvalidInput> {
        check_object(json).map_err(|problem| InvalidInput::new(Self::FIELD, problem))?;
        let (compact, depth) = compact(json);
        let bytes = compact.len();
        if bytes > Self::MAX_BYTES {
            let problem = format!(
                "has {bytes} bytes as JSON without white space, at most {} are allowed",
                Self::MAX_BYTES
            );
            return Err(InvalidInput::new(Self::FIELD, problem));
        }
        if depth > Self::MAX_DEPTH {
            let problem = format!(
                "has {depth} objects and arrays within each other, at most {} are allowed",
                Self::MAX_DEPTH
            );
            return Err(InvalidInput::new(Self::FIELD, problem));
        }
        Ok(Self(compact))
    }

    /// A stored object, which [`check_object`] has accepted. Like stored texts, it may break
    /// today's limits.
    pub(crate) fn stored(json: &str) -> Self {
        Self(json.to_owned())
    }

    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl Serialize for CommentAttributes {
    /// Writes the object into JSON to the letter. No other format can hold it so.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Whether every reader of JSON can read the text as an object. The problem never repeats the text.
pub(crate) fn check_object(json: &str) -> Result<(), String> {
    if !json.trim_start().starts_with('{') {
        return Err("must be a JSON object".to_owned());
    }
    // Reading into values refuses what skipping would pass over: half surrogate pairs, and numbers
    // beyond 64-bit floats.
    serde_json::from_str::<Map<String, Value>>(json)
        .map(drop)
        .map_err(|error| format!("is no JSON object: {error}"))
}

/// Valid JSON without white space between its tokens, and how deep its objects and arrays are
/// within each other.
fn compact(json: &str) -> (String, usize) {
    let mut compact = String::with_capacity(json.len());
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut in_text = false;
    let mut is_escaped = false;
    for c in json.chars() {
        if in_text {
            in_text = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
        } else {
            match c {
                ' ' | '\t' | '\n' | '\r' => continue,
                '"' => in_text = true,
                '{' | '[' => depth += 1,
                '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        compact.push(c);
    }
    (compact, deepest)
}

/// The id of a comment's author at the site: one line of at most [`AuthorId::MAX_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[serde(try_from = "String")]
pub struct AuthorId(String);

impl AuthorId {
    pub const FIELD: &'static str = "author_id";
    /// The longest id, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 128;

    /// An id to write: its first and its last character are visible, so that a person who types it
    /// finds it.
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        let id = Self::parse_stored(text)?;
        if has_visible_ends(text) {
            return Ok(id);
        }
        let problem = format!(
            "{} begins or ends with a space or a character that nobody sees",
            quoted(text)
        );
        Err(InvalidInput::new(Self::FIELD, problem))
    }

    /// An id to search for: earlier versions accepted ends that are not visible.
    pub fn parse_stored(text: &str) -> Result<Self, InvalidInput> {
        let problem = if text.len() > Self::MAX_BYTES {
            format!(
                "has {} bytes, at most {} are allowed",
                text.len(),
                Self::MAX_BYTES
            )
        } else if !has_visible_char(text) {
            "is empty: it has no visible character".to_owned()
        } else if is_dot_segment(text) {
            format!("{text:?} cannot be the id of an author: URL clients remove it from paths")
        } else if text.chars().any(char::is_control) {
            format!("{} holds a control character", quoted(text))
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(InvalidInput::new(Self::FIELD, problem))
    }

    /// A stored id. Like stored texts, it may break today's rules.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_are_kept_to_the_letter_without_white_space() {
        for (json, kept) in [
            ("{}", "{}"),
            (" { \"b\" : 1.0 ,\n\"a\":\t1e2 } ", "{\"b\":1.0,\"a\":1e2}"),
            (
                r#"{"a b": "c \" { d\\", "e" : "\u00e9 é"}"#,
                r#"{"a b":"c \" { d\\","e":"\u00e9 é"}"#,
            ),
            (
                r#"{"n":12345678901234567890.123, "a":1, "a":2}"#,
                r#"{"n":12345678901234567890.123,"a":1,"a":2}"#,
            ),
        ] {
            let attributes = CommentAttributes::parse(json).unwrap();
            assert_eq!(attributes.as_json(), kept);
            assert_eq!(serde_json::to_string(&attributes).unwrap(), kept);
            assert_eq!(CommentAttributes::parse(kept).unwrap(), attributes);
        }
    }

    fn nested(depth: usize) -> String {
        format!(
            "{{\"a\":{}{}}}",
            "[".repeat(depth - 1),
            "]".repeat(depth - 1)
        )
    }

    fn sized(bytes: usize) -> String {
        format!("{{\"a\": \"{}\"}}", "x".repeat(bytes - 8))
    }

    #[test]
    fn what_is_no_object_or_beyond_a_limit_is_refused_with_the_reason() {
        for good in [nested(32), sized(4096)] {
            assert!(CommentAttributes::parse(&good).is_ok(), "{good}");
        }
        for (json, problem) in [
            ("", "must be a JSON object"),
            ("null", "must be a JSON object"),
            ("[{}]", "must be a JSON object"),
            ("\"{}\"", "must be a JSON object"),
            ("{} {}", "is no JSON object"),
            ("{\"a\": tr ue}", "is no JSON object"),
            ("{\"a\": 1e999}", "is no JSON object: number out of range"),
            (r#"{"a": "\ud800"}"#, "is no JSON object"),
            (
                &nested(33),
                "has 33 objects and arrays within each other, at most 32 are allowed",
            ),
            (&nested(200), "recursion limit"),
            (
                &sized(4097),
                "has 4097 bytes as JSON without white space, at most 4096 are allowed",
            ),
        ] {
            let error = CommentAttributes::parse(json).unwrap_err();
            assert!(
                error.field == "attributes" && error.problem.contains(problem),
                "{json}: {error}"
            );
        }
        assert!(
            check_object(&sized(9_000)).is_ok(),
            "limits are for what is written"
        );
    }

    #[test]
    fn the_id_of_an_author_is_one_line_of_at_most_128_bytes() {
        for good in ["7", "a/b c#é", &"é".repeat(64), "..."] {
            assert_eq!(AuthorId::parse(good).unwrap().as_str(), good);
        }
        for found in [" 7", "7 ", "\u{feff}7"] {
            assert!(
                AuthorId::parse(found).is_err() && AuthorId::parse_stored(found).is_ok(),
                "{found:?}"
            );
        }
        for bad in [
            "",
            " ",
            "\u{200b}",
            ".",
            "..",
            "a\nb",
            "\u{85}x",
            &"é".repeat(65),
        ] {
            assert_eq!(
                AuthorId::parse(bad).unwrap_err().field,
                "author_id",
                "{bad:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_attributes_to_the_letter_or_refused(text in r#"\{?["{}\[\]:,\\ \n0-9a-eu.☕-]{0,30}\}?"#) {
            if let Ok(attributes) = CommentAttributes::parse(&text) {
                let [kept, given] = [attributes.as_json(), &text].map(|json| serde_json::from_str::<Value>(json).unwrap());
                prop_assert_eq!(kept, given);
                prop_assert_eq!(check_object(attributes.as_json()), Ok(()));
            }
        }
    }
}
