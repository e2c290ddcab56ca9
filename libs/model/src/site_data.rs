//! What a site stores with a comment beside its text: attributes, and an id of the
//! author (ADR 70).

use std::collections::BTreeMap;

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

/// A JSON object (RFC 8259) in its canonical spelling, so that one content is one text. Keys are in
/// the order of their bytes. Numbers and texts have their shortest usual form. There is no white
/// space, and a number keeps all its digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentAttributes(String);

impl CommentAttributes {
    pub const FIELD: &'static str = "attributes";
    /// The most bytes of the object in its canonical spelling.
    pub const MAX_BYTES: usize = 4096;
    /// How many objects and arrays may be within each other, the object itself included. DynamoDB
    /// has the same limit for its own maps and lists (AWS: "Quotas in Amazon DynamoDB").
    pub const MAX_DEPTH: usize = 32;

    pub fn parse(json: &str) -> Result<Self, InvalidInput> {
        check_object(json).map_err(|problem| InvalidInput::new(Self::FIELD, problem))?;
        let depth = depth(json);
        if depth > Self::MAX_DEPTH {
            let problem = format!(
                "has {depth} objects and arrays within each other, at most {} are allowed",
                Self::MAX_DEPTH
            );
            return Err(InvalidInput::new(Self::FIELD, problem));
        }
        let canonical = Self::stored(json);
        let bytes = canonical.0.len();
        if bytes > Self::MAX_BYTES {
            let problem = format!(
                "has {bytes} bytes as JSON without white space and escapes, at most {} are allowed",
                Self::MAX_BYTES
            );
            return Err(InvalidInput::new(Self::FIELD, problem));
        }
        Ok(canonical)
    }

    /// A stored object, which [`check_object`] has accepted. Like stored texts, it may break
    /// today's limits. Earlier versions stored it to the letter.
    pub(crate) fn stored(json: &str) -> Self {
        match canonical(json) {
            Ok(canonical) => Self(canonical),
            // Only an object that was not checked.
            Err(_) => Self(json.to_owned()),
        }
    }

    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl Serialize for CommentAttributes {
    /// Writes the object into JSON as it is. No other format can hold it so.
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

/// How deep the objects and arrays of valid JSON are within each other.
fn depth(json: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut in_text = false;
    let mut is_escaped = false;
    for byte in json.bytes() {
        if in_text {
            in_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
        } else {
            match byte {
                b'"' => in_text = true,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
    }
    deepest
}

/// Valid JSON in its canonical spelling. Of two equal keys the last one counts, as for most readers.
fn canonical(json: &str) -> serde_json::Result<String> {
    let json = json.trim();
    Ok(match json.as_bytes().first() {
        Some(b'{') => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(json)?;
            let mut written = Vec::new();
            for (name, value) in fields {
                let name = serde_json::to_string(&name)?;
                written.push(format!("{name}:{}", canonical(value.get())?));
            }
            format!("{{{}}}", written.join(","))
        }
        Some(b'[') => {
            let values: Vec<&RawValue> = serde_json::from_str(json)?;
            let mut written = Vec::new();
            for value in values {
                written.push(canonical(value.get())?);
            }
            format!("[{}]", written.join(","))
        }
        Some(b'"') => serde_json::to_string(&serde_json::from_str::<String>(json)?)?,
        Some(b'-' | b'0'..=b'9') => canonical_number(json).unwrap_or_else(|| json.to_owned()),
        _ => json.to_owned(),
    })
}

/// A number of JSON in the form of ECMAScript (RFC 8785, section 3.2.2.3), but with all its digits.
/// `None` if the exponent has more than 64 bits.
fn canonical_number(json: &str) -> Option<String> {
    let (sign, unsigned) = match json.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", json),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let leading_zeros = i64::try_from(all.len() - significant.len()).ok()?;
    let digits = significant.trim_end_matches('0');
    let Some((first, rest)) = digits.split_at_checked(1) else {
        return Some("0".to_owned());
    };
    // How many digits stand before the point.
    let point = i64::try_from(whole.len())
        .ok()?
        .checked_sub(leading_zeros)?
        .checked_add(exponent)?;
    let written = match usize::try_from(point) {
        Ok(before @ 1..=21) => match digits.split_at_checked(before) {
            Some((whole, "")) => whole.to_owned(),
            Some((whole, fraction)) => format!("{whole}.{fraction}"),
            None => format!("{digits:0<before$}"),
        },
        Ok(0) => format!("0.{digits}"),
        Ok(_) | Err(_) if (-5..0).contains(&point) => {
            format!("0.{}{digits}", "0".repeat(usize::try_from(-point).ok()?))
        }
        Ok(_) | Err(_) => {
            let dot = if rest.is_empty() { "" } else { "." };
            format!("{first}{dot}{rest}e{:+}", point.checked_sub(1)?)
        }
    };
    Some(format!("{sign}{written}"))
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
    fn one_content_has_one_spelling() {
        for (json, kept) in [
            ("{}", "{}"),
            (" { \"b\" : 1.0 ,\n\"a\":\t1e2 } ", "{\"a\":100,\"b\":1}"),
            (
                r#"{"a b": "c \" { d\\", "e" : "\u00e9 é\/\ud83d\ude00\u0001"}"#,
                r#"{"a b":"c \" { d\\","e":"é é/😀\u0001"}"#,
            ),
            (
                r#"{"n":12345678901234567890.1230, "a":1, "a":[ {"z":null , "y":true} ]}"#,
                r#"{"a":[{"y":true,"z":null}],"n":12345678901234567890.123}"#,
            ),
        ] {
            let attributes = CommentAttributes::parse(json).unwrap();
            assert_eq!(attributes.as_json(), kept);
            assert_eq!(serde_json::to_string(&attributes).unwrap(), kept);
            assert_eq!(CommentAttributes::parse(kept).unwrap(), attributes);
            assert_eq!(CommentAttributes::stored(json), attributes);
        }
    }

    #[test]
    fn one_number_has_one_spelling() {
        for (spellings, expected) in [
            (&["0", "-0", "0.0", "0e5"][..], "0"),
            (&["1", "1.0", "10e-1", "0.1E+1"], "1"),
            (&["-1.50", "-15e-1"], "-1.5"),
            (&["100", "1e2", "1.00E2"], "100"),
            (&["0.000001", "1e-6"], "0.000001"),
            (&["0.05", "5e-2"], "0.05"),
            (&["0.0000001", "1E-7"], "1e-7"),
            (&["1e21", "1000000000000000000000"], "1e+21"),
            (&["1e20"], "100000000000000000000"),
            (
                &["12345678901234567890123", "1.2345678901234567890123e22"],
                "1.2345678901234567890123e+22",
            ),
            (&["1e-99999999999999999999"], "1e-99999999999999999999"),
        ] {
            for spelling in spellings {
                assert_eq!(canonical(spelling).unwrap(), expected, "{spelling}");
            }
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
        // Escapes do not count.
        let escaped = sized(4096).replace('x', "\\u0078");
        for good in [nested(32), sized(4096), escaped] {
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
                "has 4097 bytes as JSON without white space and escapes, at most 4096 are allowed",
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

    /// Whether two values are equal, also where one writes a number with a fraction of zero.
    fn are_equal(one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len()
                    && one
                        .iter()
                        .zip(other)
                        .all(|(one, other)| are_equal(one, other))
            }
            (Value::Object(one), Value::Object(other)) => {
                one.len() == other.len()
                    && one
                        .iter()
                        .zip(other)
                        .all(|(one, other)| one.0 == other.0 && are_equal(one.1, other.1))
            }
            _ => one == other,
        }
    }

    proptest! {
        #[test]
        fn any_number_keeps_its_value_in_one_spelling(number in r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?") {
            let found = canonical(&number).unwrap();
            prop_assert_eq!(found.parse::<f64>(), number.parse::<f64>());
            prop_assert_eq!(canonical(&found).unwrap(), found);
        }

        #[test]
        fn any_text_is_attributes_in_one_spelling_or_refused(text in r#"\{?["{}\[\]:,\\ \n0-9a-eu.☕-]{0,30}\}?"#) {
            if let Ok(attributes) = CommentAttributes::parse(&text) {
                let given: Value = serde_json::from_str(&text).unwrap();
                let kept: Value = serde_json::from_str(attributes.as_json()).unwrap();
                prop_assert!(are_equal(&kept, &given), "{} {}", kept, given);
                let again = CommentAttributes::parse(attributes.as_json());
                prop_assert_eq!(again.as_ref(), Ok(&attributes));
                prop_assert_eq!(check_object(attributes.as_json()), Ok(()));
            }
        }
    }
}
