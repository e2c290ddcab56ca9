//! Language tags.

use derive_more::Display;
use icu_locale::{
    LanguageIdentifier, Locale, LocaleCanonicalizer, LocaleExpander, subtags::language,
};
use language_tags::LanguageTag as RegisteredTag;
use oxilangtag::LanguageTag;
use serde::{Deserialize, Serialize};

use crate::error::{InvalidInput, quoted};

/// A well-formed language tag (BCP 47, RFC 5646), in its canonical form: `en`, `pt-BR`, `zh-Hant`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[serde(try_from = "String")]
pub struct Language(String);

impl Language {
    /// Maximum length of a tag in bytes. RFC 5646 section 4.4.1 asks for room for 35.
    pub const MAX_LEN: usize = 35;

    /// Reads a tag, and takes its canonical form, so that all comments of a language have one filter:
    /// `he` for `iw` and `heb`, `yue` for `zh-yue`, `zh-TW` for `zh-Hant-TW`.
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        let tag = Self::parse_stored(text)?;
        // Codes of four to eight letters are well-formed, but there are none: it is a language's
        // name.
        let primary = tag.0.split('-').next().unwrap_or_default();
        if primary.len() > 3 {
            return Err(refused(text));
        }
        Ok(tag.canonical())
    }

    /// The one tag of the language: with the registry's preferred values (RFC 5646 section 4.5) and
    /// the canonical codes of Unicode (Technical Standard 35, annex C). A script that language and
    /// region imply goes. A region stays: Brazil's Portuguese is another choice than any Portuguese.
    fn canonical(self) -> Self {
        let Ok(mut locale) = preferred(&self.0).parse::<Locale>() else {
            return self;
        };
        let expander = LocaleExpander::new_extended();
        LocaleCanonicalizer::new_with_expander(&expander).canonicalize(&mut locale);
        // Unicode's data names the usual member of every other macrolanguage by the macrolanguage.
        if locale.id.language == language!("nb") {
            locale.id.language = language!("no");
        }
        let without_script = LanguageIdentifier {
            script: None,
            ..locale.id.clone()
        };
        let is_implied = !without_script.language.is_unknown()
            && locale.id.script == expander.get_likely_script(&without_script);
        if is_implied {
            locale.id.script = None;
        }
        // Its case is normalised differently where it has more than language, script and region.
        Self::parse_stored(&locale.to_string()).unwrap_or(self)
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

/// A tag without what only BCP 47 has: `yue` for `zh-yue`, `tlh` for `i-klingon`.
fn preferred(tag: &str) -> String {
    let Ok(tag) = RegisteredTag::parse(tag) else {
        return tag.to_owned();
    };
    let language = tag.full_language();
    let rest = tag.as_str().strip_prefix(language).unwrap_or_default();
    match RegisteredTag::parse(language).map(|tag| tag.canonicalize()) {
        Ok(Ok(preferred)) => format!("{preferred}{rest}"),
        _ => tag.to_string(),
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
    use expect_test::expect_file;
    use icu_locale::subtags::script;
    use itertools::Itertools;

    use super::*;

    #[test]
    fn the_case_of_a_tag_is_normalised() {
        for (given, normal) in [
            ("EN", "en"),
            ("pt-br", "pt-BR"),
            ("ZH-hant", "zh-Hant"),
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
    fn the_tags_of_one_language_are_one() {
        for (canonical, tags) in [
            (
                "zh-TW",
                &["zh-Hant-TW", "zho-TW", "zh-cmn-Hant-TW"] as &[&str],
            ),
            ("zh-CN", &["zh-Hans-CN"]),
            ("zh", &["zh-Hans", "zh-cmn", "cmn-Hans", "zh-guoyu"]),
            ("yue", &["zh-yue", "yue-Hant"]),
            ("nan-TW", &["zh-nan-TW", "nan-Hant-TW"]),
            ("sr", &["sr-Cyrl"]),
            ("sr-Latn", &["sh"]),
            ("sr-ME", &["sr-Latn-ME", "cnr"]),
            ("no", &["nb", "nob", "no-bok"]),
            ("no-NO", &["nb-NO", "nb-Latn-NO"]),
            ("nn", &["no-nyn"]),
            ("ar-EG", &["arb-EG", "ar-arb-EG"]),
            ("ms", &["zsm"]),
            ("tlh", &["i-klingon"]),
            ("jbo", &["art-lojban"]),
            ("ase", &["sgn-ase", "sgn-US"]),
            ("en-GB", &["en-UK", "en-Latn-GB"]),
            ("fil", &["tl", "tgl"]),
        ] {
            for tag in tags {
                assert_eq!(Language::parse(tag).unwrap().as_str(), canonical, "{tag}");
            }
        }
        // These are others.
        for tag in [
            "zh-Hant",
            "zh-Hans-HK",
            "sr-Cyrl-ME",
            "kk-Cyrl-CN",
            "kk-CN",
            "pt-BR",
            "und-Latn",
            "i-default",
            "ca-valencia",
            "de-AT-1901-u-co-phonebk",
        ] {
            assert_eq!(Language::parse(tag).unwrap().as_str(), tag);
        }
    }

    /// The codes of two and three letters that stand for another one, and the scripts that go
    /// without saying. `icu_locale` decides both, and a later version may decide otherwise. Then
    /// comments have to be moved, which the changelog must say.
    #[test]
    fn the_canonical_codes_are_those_of_earlier_versions() {
        let letters = 'a'..='z';
        let mut codes = Vec::new();
        for (first, second) in letters.clone().cartesian_product(letters.clone()) {
            codes.push(format!("{first}{second}"));
            codes.extend(
                letters
                    .clone()
                    .map(|third| format!("{first}{second}{third}")),
            );
        }
        let scripts = LocaleExpander::new_extended();
        let mut table = String::new();
        for code in codes {
            let canonical = Language::parse(&code).unwrap();
            if canonical.as_str() != code {
                table.push_str(&format!("{code} is {canonical}\n"));
                continue;
            }
            let script = scripts.get_likely_script(&code.parse().unwrap());
            // Of three letters, most languages are written in Latin letters or not known.
            match script {
                Some(script) if code.len() == 2 || script != script!("Latn") => {
                    table.push_str(&format!("{code} in {script}\n"));
                }
                _ => {}
            }
        }
        expect_file!["tests/language_codes.txt"].assert_eq(&table);
    }

    /// Else a redirect to the canonical address would lead to itself for ever.
    #[test]
    fn a_canonical_tag_stays_as_it_is() {
        let codes = include_str!("tests/language_codes.txt").lines();
        let codes = codes.filter_map(|line| line.split_whitespace().next());
        let others = ["zh-yue", "i-klingon", "sgn-BE-FR", "en-GB-oed", "sl-rozaj"];
        let mut tags = 0;
        for code in codes.chain(others) {
            for rest in [
                "", "-Latn", "-Hant", "-BR", "-TW", "-Cyrl-RS", "-Hans-HK", "-419",
            ] {
                if let Ok(tag) = Language::parse(&format!("{code}{rest}")) {
                    assert_eq!(Language::parse(tag.as_str()).unwrap(), tag);
                    tags += 1;
                }
            }
        }
        assert!(tags > 5_000, "{tags}");
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
