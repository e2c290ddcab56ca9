//! Language tags.

use derive_more::Display;
use icu_locale::{Locale, LocaleCanonicalizer};
use oxilangtag::LanguageTag;
use serde::{Deserialize, Serialize};

use crate::error::{InvalidInput, quoted};

/// A well-formed language tag (BCP 47, RFC 5646), in its canonical spelling: `en`, `pt-BR`,
/// `zh-Hant-TW`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[serde(try_from = "String")]
pub struct Language(String);

impl Language {
    /// Maximum length of a tag in bytes. RFC 5646 section 4.4.1 asks for room for 35.
    pub const MAX_LEN: usize = 35;

    /// Reads a tag, and takes the canonical code of its language (Unicode Technical Standard 35,
    /// annex C): `he` for `iw` and `heb`. So all comments of a language have one filter.
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        let tag = Self::parse_stored(text)?;
        // Codes of four to eight letters are well-formed, but there are none: it is a language's
        // name.
        let primary = tag.0.split('-').next().unwrap_or_default();
        if primary.len() > 3 {
            return Err(refused(text));
        }
        let Ok(mut locale) = tag.0.parse::<Locale>() else {
            return Ok(tag);
        };
        LocaleCanonicalizer::new_extended().canonicalize(&mut locale);
        // Its case is normalised differently where it has more than language, script and region.
        Ok(Self::parse_stored(&locale.to_string()).unwrap_or(tag))
    }

    /// Reads a tag as it may be stored: earlier versions and other tools wrote other codes.
    /// Normalises its case (RFC 5646 section 2.1.1).
    pub fn parse_stored(text: &str) -> Result<Self, InvalidInput> {
        if text.len() > Self::MAX_LEN {
            return Err(refused(text));
        }
        let tag = LanguageTag::parse_and_normalize(text).map_err(|_| refused(text))?;
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

fn refused(text: &str) -> InvalidInput {
    let problem = format!(
        "{} is not a language tag of at most {} characters (BCP 47), such as en or pt-BR",
        quoted(text),
        Language::MAX_LEN
    );
    InvalidInput::new("language", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_of_a_tag_is_normalised() {
        for (given, normal) in [
            ("EN", "en"),
            ("pt-br", "pt-BR"),
            ("ZH-hant-tw", "zh-Hant-TW"),
            ("x-Pig", "x-pig"),
        ] {
            assert_eq!(Language::parse(given).unwrap().as_str(), normal);
        }
    }

    #[test]
    fn the_codes_of_one_language_are_one() {
        for (canonical, codes) in [
            ("he", ["iw", "heb", "HE"]),
            ("de", ["deu", "ger", "Deu"]),
            ("en", ["eng", "EN", "en"]),
            ("id", ["in", "ind", "id"]),
            ("yi", ["ji", "yid", "yi"]),
            ("he-IL", ["iw-il", "heb-IL", "iw-IL"]),
            ("fr", ["fra", "fre", "fr"]),
        ] {
            for code in codes {
                assert_eq!(Language::parse(code).unwrap().as_str(), canonical, "{code}");
            }
        }
        assert_eq!(Language::parse_stored("iw").unwrap().as_str(), "iw");
        assert!(Language::parse("german").is_err() && Language::parse_stored("german").is_ok());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "e",
            "en_US",
            "~",
            "en/US",
            "en-",
            "français",
            &"en-a".repeat(75),
        ] {
            assert!(Language::parse(text).is_err(), "{text}");
        }
        assert!(Language::parse("German").is_err() && Language::parse("german-AT").is_err());
        for text in ["de", "gsw-CH", "x-Pig", "i-klingon"] {
            assert!(Language::parse(text).is_ok(), "{text}");
        }
    }
}
