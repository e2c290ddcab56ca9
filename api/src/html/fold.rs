//! Long texts on a page. The page holds the whole text, so search engines and the browser's search
//! find it. The style sheet shows its first lines, and the rest on demand, without JavaScript.

use model::visible::has_visible_char;

use super::language_name::text_direction;

/// A text above one of these is long. Such a text is taller than the eight lines that the style
/// sheet shows of it at any width, or on a phone.
const LINES_MAX: usize = 12;
const CHARS_MAX: usize = 1_000;
const CHARS_MAX_ON_PHONE: usize = 600;

/// The most characters of an excerpt: four lines of a phone.
const EXCERPT_CHARS: usize = 180;

const BLANK_LINES_MAX: usize = 2;

/// A text as a page shows it.
pub(super) struct Folded {
    pub(super) direction: &'static str,
    pub(super) text: String,
    /// The classes of the element that unfolds a long text.
    pub(super) fold: Option<&'static str>,
}

impl Folded {
    pub(super) fn new(language_direction: &str, text: &str) -> Self {
        let direction = text_direction(language_direction, text);
        let text = without_blank_runs(text);
        let fold = match text.chars().count() {
            chars if chars > CHARS_MAX || text.split(is_break).count() > LINES_MAX => Some("rest"),
            chars if chars > CHARS_MAX_ON_PHONE => Some("rest on-phone"),
            _ => None,
        };
        Self {
            direction,
            text,
            fold,
        }
    }
}

/// The beginning of a text for a box, on one line. It ends between words, unless the last one is
/// very long.
pub(super) fn excerpt(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((beginning, _)) = words
        .char_indices()
        .nth(EXCERPT_CHARS)
        .and_then(|(end, _)| words.split_at_checked(end))
    else {
        return words;
    };
    let whole_words = beginning
        .rsplit_once(' ')
        .map(|(whole_words, _)| whole_words);
    whole_words
        .filter(|words| words.len() > beginning.len() / 2)
        .unwrap_or(beginning)
        .to_owned()
        + "…"
}

/// Whether browsers begin a new line after the character.
fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// The text with at most [`BLANK_LINES_MAX`] blank lines in a row, and one character for each line
/// break.
fn without_blank_runs(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut blank = 0;
    let kept = text.split_inclusive(is_break).filter(|line| {
        blank = if has_visible_char(line) { 0 } else { blank + 1 };
        blank <= BLANK_LINES_MAX
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_usual_length_is_not_long() {
        for (text, fold) in [
            ("Fine.".to_owned(), None),
            ("line\n".repeat(11), None),
            ("line\n".repeat(12), Some("rest")),
            ("の".repeat(600), None),
            ("の".repeat(601), Some("rest on-phone")),
            ("の".repeat(1_000), Some("rest on-phone")),
            ("の".repeat(1_001), Some("rest")),
            ("a\r\n".repeat(10_000), Some("rest")),
        ] {
            let folded = Folded::new("ltr", &text);
            assert_eq!(
                (folded.fold, folded.text),
                (fold, text.replace("\r\n", "\n"))
            );
        }
        assert_eq!(
            Folded::new("ltr", "a\r\n\n\u{2028}\r \t\n\u{200b}\nb").text,
            "a\n\n\u{2028}b"
        );
    }

    #[test]
    fn an_excerpt_is_one_line_that_ends_between_words() {
        assert_eq!(excerpt("a\n\n b\tc"), "a b c");
        assert_eq!(excerpt(&"word ".repeat(36)), "word ".repeat(36).trim_end());
        assert_eq!(
            excerpt(&"word ".repeat(37)),
            "word ".repeat(36).trim_end().to_owned() + "…"
        );
        assert_eq!(excerpt(&"の".repeat(200)), "の".repeat(180) + "…");
        assert_eq!(
            excerpt(&format!("a {}", "x".repeat(200))),
            format!("a {}…", "x".repeat(178))
        );
    }
}
