//! Which characters can be seen: a text without any counts as absent.
//!
//! The rule uses properties of the Unicode Character Database (UAX #44), read from ICU4X's data.
//! These are invisible:
//!
//! - `White_Space`;
//! - `Default_Ignorable_Code_Point`: zero-width spaces and joiners, variation selectors, tags,
//!   Hangul fillers;
//! - the general categories `Cc` (controls) and `Cf` (format characters), except
//!   `Prepended_Concatenation_Mark`: those characters, such as U+0600, are signs with a shape;
//! - a few characters that are letters or symbols by their properties, but have a blank shape by
//!   definition.

use icu_properties::props::{
    BinaryProperty, DefaultIgnorableCodePoint, EnumeratedProperty, GeneralCategory,
    PrependedConcatenationMark, WhiteSpace,
};

/// BRAILLE PATTERN BLANK, EGYPTIAN HIEROGLYPH FULL BLANK and HALF BLANK, MUSICAL SYMBOL NULL
/// NOTEHEAD.
const BLANK: [char; 4] = ['\u{2800}', '\u{13441}', '\u{13442}', '\u{1d159}'];

pub fn is_visible(c: char) -> bool {
    let category = GeneralCategory::for_char(c);
    let is_invisible = category == GeneralCategory::Control
        || category == GeneralCategory::Format && !PrependedConcatenationMark::for_char(c)
        || WhiteSpace::for_char(c)
        || DefaultIgnorableCodePoint::for_char(c)
        || BLANK.contains(&c);
    !is_invisible
}

pub fn has_visible_char(text: &str) -> bool {
    text.chars().any(is_visible)
}

/// Whether a text begins and ends with something to be seen. An id that does not looks like another
/// one.
pub(crate) fn has_visible_ends(text: &str) -> bool {
    let without_shapes = text.trim_end_matches(shapes_emoji);
    text.starts_with(is_visible) && without_shapes.ends_with(is_visible)
}

/// Variation selectors and tags, which end an emoji.
fn shapes_emoji(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0020}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_characters_without_a_shape_are_invisible() {
        for text in [
            "",
            " \t\r\n",
            "\u{a0}\u{2003}\u{202f}\u{3000}",
            "\u{2028}\u{2029}\u{85}",
            "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}",
            "\u{200e}\u{200f}\u{202e}\u{2066}\u{2069}",
            "\u{115f}\u{1160}\u{3164}\u{ffa0}",
            "\u{2800}\u{180e}\u{34f}\u{61c}",
            "\u{fe0f}\u{e0100}\u{e0041}\u{fff9}",
            "\0\u{7f}\u{1b}",
        ] {
            assert!(!has_visible_char(text), "{text:?}");
        }
    }

    #[test]
    fn ends_are_visible_but_for_what_shapes_an_emoji() {
        for text in [
            "p",
            "a b",
            "a\u{200b}b",
            "☕\u{fe0f}",
            "🏴\u{e0067}\u{e007f}",
            "👩\u{200d}👧",
        ] {
            assert!(has_visible_ends(text), "{text:?}");
        }
        for text in [
            "",
            " ",
            " p",
            "p ",
            "\u{feff}p",
            "p\u{200b}",
            "p\u{a0}",
            "\u{200b}",
            "\u{fe0f}",
            "p\u{200e}",
        ] {
            assert!(!has_visible_ends(text), "{text:?}");
        }
    }

    #[test]
    fn letters_signs_marks_and_emoji_are_visible() {
        for text in [
            ".",
            "é",
            "e\u{301}",
            "\u{301}",
            "の",
            "א",
            "😀",
            "👩\u{200d}👧",
            "\u{600}",
            "☕\u{fe0f}",
            "\u{200b}x",
        ] {
            assert!(has_visible_char(text), "{text:?}");
        }
    }
}
