//! Names of languages in English and in themselves, and their writing direction. Their names in the
//! language of the interface are texts (`words`).

use icu_locale::{LanguageIdentifier, LocaleDirectionality};
use model::Language;

/// "English", "Portuguese (pt-BR)"; the tag when the language has no name.
pub(super) fn english_name(language: &Language) -> String {
    match known(language) {
        // Without what only linguists need: "Tonga (Tonga Islands)", "Occitan (post 1500)".
        Some(known) => {
            let name = known.to_name();
            named(language, name.split(" (").next().unwrap_or(name))
        }
        None => language.to_string(),
    }
}

/// "Deutsch", "português (pt-BR)"; `None` when the language has no name in itself, several, or one
/// with a transliteration.
pub(super) fn native_name(language: &Language) -> Option<String> {
    let known = known(language)?;
    let name = known.to_autonym()?;
    let is_one_name = !name.contains(['(', ',', ';', '/']) && name != known.to_639_3();
    is_one_name.then(|| named(language, name))
}

/// Only the language of the tag: `pt-BR` is Portuguese.
fn known(language: &Language) -> Option<isolang::Language> {
    let primary = language.as_str().split('-').next().unwrap_or_default();
    match primary.len() {
        2 => isolang::Language::from_639_1(primary),
        3 => isolang::Language::from_639_3(primary),
        _ => None,
    }
}

/// The name with the tag, unless that says only the language.
pub(super) fn named(language: &Language, name: &str) -> String {
    if language.as_str().contains('-') {
        format!("{name} ({language})")
    } else {
        name.to_owned()
    }
}

pub(super) fn direction(language: &Language) -> &'static str {
    // A tag of only private-use parts is not a locale, so its direction is unknown.
    let is_right_to_left = LanguageIdentifier::try_from_str(language.as_str())
        .is_ok_and(|id| LocaleDirectionality::new_extended().is_right_to_left(&id));
    if is_right_to_left { "rtl" } else { "ltr" }
}

/// The direction of a text. `auto` uses the first letter that has a direction. That is right for a
/// text in another language than declared, but wrong for a text that begins with a foreign name. So
/// if the language is written from right to left and any character of the text is too, the text
/// runs from right to left.
pub(super) fn text_direction(language_direction: &str, text: &str) -> &'static str {
    if language_direction == "rtl" && text.chars().any(runs_right_to_left) {
        "rtl"
    } else {
        "auto"
    }
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
            ("ba", "Bashkir", None),
            ("to", "Tonga", Some("lea fakatonga")),
            ("und", "Undetermined", None),
            ("x-pig", "x-pig", None),
            ("qqq", "qqq", None),
        ] {
            let language = language(tag);
            assert_eq!(
                (
                    english_name(&language).as_str(),
                    native_name(&language).as_deref()
                ),
                (english, native)
            );
        }
    }

    #[test]
    fn the_script_of_a_language_gives_its_direction() {
        for tag in [
            "ar", "he", "fa", "ur", "yi", "dv", "ckb", "az-Arab", "ar-EG",
        ] {
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
