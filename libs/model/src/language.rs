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
        if text.len() > Self::MAX_LEN {
            return Err(refused(text));
        }
        let tag = LanguageTag::parse_and_normalize(text).map_err(|_| refused(text))?;
        Ok(Self(tag.into_inner()))
    }

    /// Parses a tag that somebody gives. A word of more than three letters, such as `german`, is well-formed, but no language
    /// has such a code. [`Language::parse`] takes it for stored tags of earlier versions.
    pub fn given(text: &str) -> Result<Self, InvalidInput> {
        let is_word = text.split('-').next().is_some_and(|code| code.len() > 3);
        Self::parse(if is_word { "" } else { text }).map_err(|_| refused(text))
    }

    /// The tag of a text whose language is not known (RFC 5646 section 4.1).
    pub fn undetermined() -> Self {
        Self("und".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn refused(text: &str) -> InvalidInput {
    let problem = format!(
        "{} is not a language tag of at most {} characters (BCP 47), such as en or pt-BR",
        quoted(text),
        Language::MAX_LEN
    );
    InvalidInput::new("language", problem)
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
        assert!(Language::given("German").is_err() && Language::given("german-AT").is_err());
        for text in ["de", "gsw-CH", "x-Pig", "i-klingon"] {
            assert_eq!(Language::given(text), Language::parse(text));
        }
    }
}
