//! Comment ids and product ids.

use derive_more::Display;
use percent_encoding::{percent_decode_str, percent_encode_byte};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{
    error::{InvalidInput, quoted},
    timestamp::Timestamp,
    visible::has_visible_ends,
};

/// The characters of comment ids, ascending.
const CHARACTERS: &str = "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
const LEAST: char = '-';
const GREATEST: char = 'z';

/// Whether URL clients remove a text that is a whole part of a path, also percent-encoded (RFC 3986
/// section 5.2.4, URL Standard section 4.4). Links to such an id would not work.
pub(crate) fn is_dot_segment(text: &str) -> bool {
    matches!(text, "." | "..")
}

/// What is percent-encoded in a product id inside keys.
const SEPARATORS: [char; 7] = ['/', '#', '~', '%', '{', '}', ' '];

fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// The id of a comment: 1 to 64 characters of `[A-Za-z0-9._-]`, but neither `.` nor `..`.
///
/// It needs no escaping in keys, and its byte order is its order in DynamoDB, in Redis and here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[serde(try_from = "String")]
pub struct CommentId(String);

impl CommentId {
    pub const MAX_LEN: usize = 64;

    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        if text.is_empty() || text.len() > Self::MAX_LEN || !text.bytes().all(is_id_byte) {
            let problem = format!(
                "{} is not a comment id: 1 to 64 characters of A-Z a-z 0-9 . _ -",
                quoted(text)
            );
            return Err(InvalidInput::new("id", problem));
        }
        if is_dot_segment(text) {
            let problem =
                format!("{text:?} cannot be a comment id: URL clients remove it from paths");
            return Err(InvalidInput::new("id", problem));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The time that the id holds, if it is a ULID, as Pagemark's own ids are. The comment may have
    /// been created at another one.
    pub fn time(&self) -> Option<Timestamp> {
        let ulid = Ulid::from_string(&self.0).ok()?;
        Timestamp::from_epoch_ms(i64::try_from(ulid.timestamp_ms()).ok()?).ok()
    }

    pub fn least() -> Self {
        Self(LEAST.to_string())
    }

    pub fn greatest() -> Self {
        Self(GREATEST.to_string().repeat(Self::MAX_LEN))
    }

    pub(crate) fn next(&self) -> Option<Self> {
        let next = self.next_text()?;
        if is_dot_segment(&next.0) {
            next.next()
        } else {
            Some(next)
        }
    }

    fn next_text(&self) -> Option<Self> {
        if self.0.len() < Self::MAX_LEN {
            return Some(Self(format!("{}{LEAST}", self.0)));
        }
        let mut id = self.0.trim_end_matches(GREATEST).to_owned();
        let last = id.pop()?;
        id.push(CHARACTERS.chars().find(|other| *other > last)?);
        Some(Self(id))
    }

    pub(crate) fn previous(&self) -> Option<Self> {
        let previous = self.previous_text()?;
        if is_dot_segment(&previous.0) {
            previous.previous()
        } else {
            Some(previous)
        }
    }

    fn previous_text(&self) -> Option<Self> {
        let mut id = self.0.clone();
        let last = id.pop()?;
        if last == LEAST {
            return (!id.is_empty()).then_some(Self(id));
        }
        id.push(CHARACTERS.chars().rev().find(|other| *other < last)?);
        let missing = Self::MAX_LEN - id.len();
        Some(Self(id + &GREATEST.to_string().repeat(missing)))
    }
}

/// The id of a product: any text of 1 to 200 characters, but no control characters and neither `.`
/// nor `..`. The first and the last one are visible.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[serde(try_from = "String")]
pub struct ProductId(String);

impl ProductId {
    /// The longest id, in characters. 200 characters of 4 bytes keep every key below DynamoDB's
    /// 1,024 bytes.
    pub const MAX_CHARS: usize = 200;

    /// An id to write. Stored as given, without Unicode normalisation.
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        if !text.is_empty() && !has_visible_ends(text) {
            let problem = format!(
                "{} begins or ends with a space or a character that nobody sees",
                quoted(text)
            );
            return Err(InvalidInput::new("product", problem));
        }
        Self::parse_stored(text)
    }

    /// An id as it may be stored: earlier versions and other tools wrote ends that are not visible.
    pub fn parse_stored(text: &str) -> Result<Self, InvalidInput> {
        let problem = if text.is_empty() {
            "is empty".to_owned()
        } else if text.chars().count() > Self::MAX_CHARS {
            format!("is longer than {} characters", Self::MAX_CHARS)
        } else if is_dot_segment(text) {
            format!("{text:?} cannot be a product id: URL clients remove it from paths")
        } else if text.chars().any(char::is_control) {
            format!("{} holds a control character", quoted(text))
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(InvalidInput::new("product", problem))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as it is written inside keys: `/ # ~ % { }` and spaces are percent-encoded, all else
    /// is unchanged.
    pub fn escaped(&self) -> String {
        let mut escaped = String::with_capacity(self.0.len());
        for character in self.0.chars() {
            match u8::try_from(character) {
                Ok(byte) if SEPARATORS.contains(&character) => {
                    escaped.push_str(percent_encode_byte(byte));
                }
                _ => escaped.push(character),
            }
        }
        escaped
    }

    /// Refuses text that [`ProductId::escaped`] does not produce, so each product has exactly one
    /// spelling in keys.
    pub fn from_escaped(escaped: &str) -> Result<Self, InvalidInput> {
        if !escaped.contains(SEPARATORS) {
            return Self::parse_stored(escaped);
        }
        let decoded = percent_decode_str(escaped)
            .decode_utf8()
            .map_err(|_| not_escaped(escaped))?;
        let product = Self::parse_stored(&decoded)?;
        if product.escaped() == escaped {
            Ok(product)
        } else {
            Err(not_escaped(escaped))
        }
    }
}

fn not_escaped(text: &str) -> InvalidInput {
    InvalidInput::new(
        "product",
        format!("{} is not an escaped product id", quoted(text)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        ProductId::parse(text).unwrap().escaped()
    }

    #[test]
    fn keys_hold_the_product_with_its_separators_escaped() {
        assert_eq!(
            escaped("assurance/direct-assurance/auto"),
            "assurance%2Fdirect-assurance%2Fauto"
        );
        assert_eq!(escaped("a b#c~d%e{f}"), "a%20b%23c%7Ed%25e%7Bf%7D");
        assert_eq!(escaped("קפה☕"), "קפה☕");
    }

    #[test]
    fn another_spelling_of_an_escaped_product_is_refused() {
        for foreign in ["a%2fb", "%41", "a%", "%FF", "a/b", ""] {
            assert!(ProductId::from_escaped(foreign).is_err(), "{foreign}");
        }
    }

    #[test]
    fn ids_outside_the_rules_are_refused() {
        for id in ["", "a/b", "é", "a b", ".", "..", &"x".repeat(65)] {
            assert!(CommentId::parse(id).is_err(), "{id}");
        }
        for product in ["", ".", "..", "a\nb", "\u{7f}", &"x".repeat(201)] {
            assert!(
                ProductId::parse(product).is_err() && ProductId::parse_stored(product).is_err(),
                "{product:?}"
            );
        }
        for product in ["\u{200b}", "\u{feff}p", " p", "p ", "p\u{2060}"] {
            assert!(
                ProductId::parse(product).is_err() && ProductId::parse_stored(product).is_ok(),
                "{product:?}"
            );
        }
        assert!(ProductId::parse(&"😀".repeat(200)).is_ok());
        assert!(CommentId::parse("...").is_ok() && ProductId::parse("...").is_ok());
    }
}
