//! Long texts on a page: the beginning is shown, and the rest opens on demand, without JavaScript.
//!
//! The page holds the whole text, so search engines and the browser's search find it. Only long runs of blank lines are
//! shortened.

use icu_properties::props::{EnumeratedProperty, GraphemeClusterBreak};
use model::visible::has_visible_char;

/// The most lines and characters of a text that are shown at once. A very wide character counts as [several](width). On a
/// phone the longest such beginning takes some 2,000 px. The style sheet bounds what fonts make of it.
const SHOWN_LINES: usize = 20;
const SHOWN_CHARS: usize = 1_500;

/// The most characters of an excerpt: four lines of a phone.
const EXCERPT_CHARS: usize = 180;

/// A rest below both limits is shown with the beginning, because it is too short to fold.
const REST_LINES_MIN: usize = 5;
const REST_CHARS_MIN: usize = 300;

/// How many blank lines in a row are shown.
const BLANK_LINES_MAX: usize = 2;

/// How far before the longest beginning to look for a place between words, in characters.
const WORD_MAX_CHARS: usize = 100;

/// The beginning of a text, and the rest if the text is too long to be shown whole.
pub(super) fn fold(text: &str) -> (String, Option<String>) {
    let text = without_blank_runs(text);
    let end = beginning_end(&text);
    let (beginning, rest) = text.split_at_checked(end).unwrap_or((&text, ""));
    // The break between the two parts replaces the one in the text.
    let rest = rest.strip_prefix(is_break).unwrap_or(rest);
    let is_short = rest.matches(is_break).count() < REST_LINES_MIN && widths(rest) < REST_CHARS_MIN;
    if is_short { (text, None) } else { (beginning.to_owned(), Some(rest.to_owned())) }
}

/// The beginning of a text for a box, on one line.
pub(super) fn excerpt(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(end) = words_end(&words, EXCERPT_CHARS) else { return words };
    words.get(..end).unwrap_or(&words).trim_end().to_owned() + "…"
}

/// Whether browsers begin a new line after the character.
fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// The text with at most [`BLANK_LINES_MAX`] blank lines in a row, and one character for each line break.
fn without_blank_runs(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut blank = 0;
    let kept = text.split_inclusive(is_break).filter(|line| {
        blank = if has_visible_char(line) { 0 } else { blank + 1 };
        blank <= BLANK_LINES_MAX
    });
    kept.collect()
}

/// Where the beginning ends, in bytes: at a line's end, else between words, else between user-perceived characters.
fn beginning_end(text: &str) -> usize {
    let line_end = text.match_indices(is_break).nth(SHOWN_LINES - 1).map_or(text.len(), |(at, _)| at);
    match words_end(text, SHOWN_CHARS) {
        // A line that ends at the last character shown ends there too.
        Some(end) if char_end(text, SHOWN_CHARS).is_some_and(|char_end| char_end < line_end) => end,
        Some(_) | None => line_end,
    }
}

/// Where the longest beginning of at most this many characters ends, in bytes: between words, else between
/// user-perceived characters. `None` when the text is not longer.
fn words_end(text: &str, chars_max: usize) -> Option<usize> {
    let char_end = char_end(text, chars_max)?;
    let before = text.get(..char_end).unwrap_or_default();
    let near = || before.char_indices().rev().take(WORD_MAX_CHARS);
    if let Some((at, space)) = near().find(|(_, c)| c.is_whitespace()) {
        return Some(if is_break(space) { at } else { at + space.len_utf8() });
    }
    let boundary = near().find(|(at, c)| begins_a_character(text.get(..*at).unwrap_or_default(), *c));
    Some(boundary.map_or(char_end, |(at, _)| at))
}

/// Where the first characters of at most this width together end, in bytes. `None` when these are all.
fn char_end(text: &str, width_max: usize) -> Option<usize> {
    let mut room = width_max;
    text.char_indices().find_map(|(at, c)| match room.checked_sub(width(c)) {
        Some(left) => {
            room = left;
            None
        }
        None => Some(at),
    })
}

fn widths(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// How many usual characters take as much room as this one. Fonts draw some characters as wide as a line: whole phrases in
/// Arabic, the longest dashes, and signs of cuneiform.
fn width(c: char) -> usize {
    match c {
        '\u{fdfd}' => 20,
        '\u{fdfa}' | '\u{fdfb}' | '\u{2e3a}' | '\u{2e3b}' | '\u{12000}'..='\u{1254f}' => 6,
        _ => 1,
    }
}

/// Whether a user-perceived character may begin with `c`: not an accent, and not a later part of an emoji or of a
/// Hangul syllable.
///
/// This is a simple form of the rules of UAX #29: it may also refuse a place where a character does begin.
fn begins_a_character(before: &str, c: char) -> bool {
    let continues = [
        GraphemeClusterBreak::Extend,
        GraphemeClusterBreak::ZWJ,
        GraphemeClusterBreak::SpacingMark,
        GraphemeClusterBreak::RegionalIndicator,
        GraphemeClusterBreak::V,
        GraphemeClusterBreak::T,
    ];
    let joined = before.chars().next_back().map(GraphemeClusterBreak::for_char) == Some(GraphemeClusterBreak::ZWJ);
    !joined && !continues.contains(&GraphemeClusterBreak::for_char(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beginning(text: &str) -> String {
        let (beginning, rest) = fold(text);
        assert!(rest.is_some(), "it is whole: {beginning}");
        beginning
    }

    #[test]
    fn a_text_of_the_usual_length_is_shown_whole() {
        for text in ["Fine.".to_owned(), "word ".repeat(300), "line\n".repeat(22), "x".repeat(1_700)] {
            assert_eq!(fold(&text), (text, None));
        }
        assert_eq!(fold("a\r\n\n\u{2028}\r \t\n\u{200b}\nb").0, "a\n\n\u{2028}b");
    }

    #[test]
    fn very_wide_characters_count_as_several() {
        for (wide, shown) in [('\u{fdfd}', SHOWN_CHARS / 20), ('\u{1242b}', SHOWN_CHARS / 6)] {
            let text = wide.to_string().repeat(400);
            let count = beginning(&text).chars().count();
            assert!((shown - 1..=shown).contains(&count), "{count}");
            assert_eq!(fold(&text).1.unwrap().chars().count(), 400 - count, "nothing is lost");
        }
        // Marks on one letter take no room in a line, but they too are folded.
        assert_eq!(beginning(&format!("a{}", "\u{301}".repeat(2_000))).chars().count(), SHOWN_CHARS);
    }

    #[test]
    fn an_excerpt_is_one_line_that_ends_between_words() {
        assert_eq!(excerpt("a\n\n b\tc"), "a b c");
        assert_eq!(excerpt(&"word ".repeat(36)), "word ".repeat(36).trim_end());
        assert_eq!(excerpt(&"word ".repeat(37)), "word ".repeat(36).trim_end().to_owned() + "…");
        assert_eq!(excerpt(&"の".repeat(200)).chars().count(), EXCERPT_CHARS);
    }

    #[test]
    fn nothing_of_a_long_text_is_lost() {
        for text in
            ["word ".repeat(2_000), "a\n".repeat(5_000), "の".repeat(10_000), "one\n\ntwo and three\n".repeat(200)]
        {
            let (beginning, rest) = fold(&text);
            let rest = rest.unwrap();
            assert!(beginning.chars().count() <= SHOWN_CHARS && beginning.lines().count() <= SHOWN_LINES);
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(
                words(&format!("{beginning}{}{rest}", if text.contains('の') { "" } else { " " })),
                words(&text)
            );
        }
    }

    #[test]
    fn a_text_is_divided_at_a_line_else_between_words_else_between_characters() {
        assert_eq!(beginning(&"a b\n".repeat(100)), ["a b"; SHOWN_LINES].join("\n"));
        assert_eq!(beginning(&"1234 ".repeat(1_000)), "1234 ".repeat(SHOWN_CHARS / 5));
        assert!(beginning(&format!("{}\n{}", "x".repeat(1_450), "y".repeat(900))).ends_with('x'));
        for unit in ["e\u{301}\u{302}", "👩\u{200d}👧\u{200d}👦", "👍\u{1f3fd}", "\u{1112}\u{1161}\u{11ab}"] {
            let beginning = beginning(&unit.repeat(1_000));
            assert!(
                beginning.len().is_multiple_of(unit.len()) && beginning.chars().count() > SHOWN_CHARS - 10,
                "{unit}"
            );
        }
    }
}
