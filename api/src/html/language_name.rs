//! Names of languages, and their writing direction.

use icu_locale::{LanguageIdentifier, LocaleDirectionality};
use model::Language;

/// The names of a language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LanguageName {
    tag: String,
    english: Option<&'static str>,
    native: Option<&'static str>,
}

impl LanguageName {
    /// Uses only the language of the tag: `pt-BR` is Portuguese.
    pub(super) fn of(language: &Language) -> Self {
        let tag = language.as_str();
        let primary = tag.split('-').next().unwrap_or_default();
        let known = match primary.len() {
            2 => isolang::Language::from_639_1(primary),
            3 => isolang::Language::from_639_3(primary),
            _ => None,
        };
        Self {
            tag: tag.to_owned(),
            english: known.map(|known| known.to_name()),
            native: known.and_then(|known| known.to_autonym()),
        }
    }

    /// "English", "Portuguese (pt-BR)"; the tag when the language has no name.
    pub(super) fn in_english(&self) -> String {
        self.named(self.english)
    }

    /// "Deutsch", "português (pt-BR)"; `None` when the language has no name in itself.
    pub(super) fn in_itself(&self) -> Option<String> {
        self.native.map(|name| self.named(Some(name)))
    }

    fn named(&self, name: Option<&str>) -> String {
        match name {
            Some(name) if self.tag.contains('-') => format!("{name} ({})", self.tag),
            Some(name) => name.to_owned(),
            None => self.tag.clone(),
        }
    }
}

/// The writing direction of a language: the value of an attribute `dir`.
pub(super) fn direction(language: &Language) -> &'static str {
    // A tag of only private-use parts is not a locale, so its direction is unknown.
    let is_right_to_left = LanguageIdentifier::try_from_str(language.as_str())
        .is_ok_and(|id| LocaleDirectionality::new_extended().is_right_to_left(&id));
    if is_right_to_left { "rtl" } else { "ltr" }
}

/// The direction of a text. `auto` uses the first letter that has a direction. That is right for a text in another
/// language than declared, but wrong for a text that begins with a foreign name. So if the language is written from
/// right to left and any character of the text is too, the text runs from right to left.
pub(super) fn text_direction(language_direction: &'static str, text: &str) -> &'static str {
    if language_direction == "rtl" && text.chars().any(runs_right_to_left) { "rtl" } else { "auto" }
}

/// Whether a character is in a Unicode block reserved for right-to-left scripts.
fn runs_right_to_left(character: char) -> bool {
    matches!(
        character,
        '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(tag: &str) -> Language {
        Language::parse(tag).unwrap()
    }

    #[test]
    fn languages_are_named_in_english_and_in_themselves() {
        for (tag, english, native) in [
            ("en", "English", Some("English")),
            ("de", "German", Some("Deutsch")),
            ("pt-BR", "Portuguese (pt-BR)", Some("português (pt-BR)")),
            ("he", "Hebrew", Some("עברית")),
            ("fil", "Filipino", Some("Filipino")),
            ("mul", "Multiple languages", None),
            ("x-pig", "x-pig", None),
            ("qqq", "qqq", None),
        ] {
            let name = LanguageName::of(&language(tag));
            assert_eq!((name.in_english().as_str(), name.in_itself().as_deref()), (english, native));
        }
    }

    #[test]
    fn the_script_of_a_language_gives_its_direction() {
        for tag in ["ar", "he", "fa", "ur", "yi", "dv", "ckb", "az-Arab", "ar-EG"] {
            assert_eq!(direction(&language(tag)), "rtl", "{tag}");
        }
        for tag in ["en", "pt-BR", "zh-Hant", "ar-Latn", "ku", "x-pig", "ja"] {
            assert_eq!(direction(&language(tag)), "ltr", "{tag}");
        }
    }

    #[test]
    fn a_foreign_name_at_the_beginning_does_not_turn_a_text_around() {
        assert_eq!(text_direction("rtl", "iPhone מצוין"), "rtl");
        assert_eq!(text_direction("rtl", "ok!"), "auto");
        assert_eq!(text_direction("ltr", "מצוין"), "auto");
    }
}
