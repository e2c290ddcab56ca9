//! Language tags.

use derive_more::Display;
use oxilangtag::LanguageTag;
use serde::{Deserialize, Serialize};

use crate::error::{InvalidInput, quoted};

/// A well-formed language tag (BCP 47, RFC 5646), its case normalised: `en`, `pt-BR`, `zh-Hant-TW`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[serde(try_from = "String")]
pub struct Language(String);

impl Language {
    /// Maximum length of a tag in bytes. RFC 5646 section 4.4.1 asks for room for 35.
    pub const MAX_LEN: usize = 35;

    /// Parses a tag and normalises its case (RFC 5646 section 2.1.1).
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        let refuse = || {
            let problem = format!(
                "{} is not a language tag of at most {} characters (BCP 47), such as en or pt-BR",
                quoted(text),
                Self::MAX_LEN
            );
            InvalidInput::new("language", problem)
        };
        if text.len() > Self::MAX_LEN {
            return Err(refuse());
        }
        let tag = LanguageTag::parse_and_normalize(text).map_err(|_| refuse())?;
        Ok(Self(tag.into_inner()))
    }

    /// The tag of a text whose language is not known (RFC 5646 section 4.1).
    pub fn undetermined() -> Self {
        Self("und".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Language {
    type Error = InvalidInput;

    fn try_from(text: String) -> Result<Self, InvalidInput> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_of_a_tag_is_normalised() {
        for (given, normal) in [("EN", "en"), ("pt-br", "pt-BR"), ("ZH-hant-tw", "zh-Hant-TW"), ("x-Pig", "x-pig")] {
            assert_eq!(Language::parse(given).unwrap().as_str(), normal);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "e", "en_US", "~", "en/US", "en-", "français", &"en-a".repeat(75)] {
            assert!(Language::parse(text).is_err(), "{text}");
        }
    }
}
