//! The text of HTML: tags and entities are gone, and paragraphs and breaks are line ends.

use html2text::{config, render::TrivialDecorator};

/// Wider than any line, so that none is broken.
const WIDTH: usize = 1 << 20;

/// Where a text has one of these elements, its line feeds mean nothing.
const BREAKING: [&str; 4] = ["<p", "<br", "<div", "<li"];

/// The text of a piece of HTML. A text without tags and entities is its own.
pub(super) fn to_text(html: &str) -> String {
    if !html.contains(['<', '&']) {
        return html.to_owned();
    }
    let lower = html.to_lowercase();
    let has_breaks = BREAKING.iter().any(|element| lower.contains(element));
    let with_breaks = if has_breaks {
        html.to_owned()
    } else {
        html.replace('\n', "<br>")
    };
    let text = config::with_decorator(TrivialDecorator::new())
        .raw_mode(true)
        .allow_width_overflow()
        .string_from_read(with_breaks.as_bytes(), WIDTH);
    match text {
        Ok(text) => text.trim().to_owned(),
        // It refuses only a width that is too small.
        Err(_) => html.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_entities_become_the_text_that_they_show() {
        for (html, expected) in [
            ("Fine.\n\nAnd cheap.", "Fine.\n\nAnd cheap."),
            (
                "<p>Fine.</p>\n<p>And <b>cheap</b>.</p>",
                "Fine.\n\nAnd cheap.",
            ),
            ("one<br />\ntwo<br>three", "one\ntwo\nthree"),
            (
                "It&#39;s &quot;good&quot; &amp; caf&eacute;\nBye",
                "It's \"good\" & café\nBye",
            ),
            ("I <3 it, 2 < 3 & 4 > 3", "I <3 it, 2 < 3 & 4 > 3"),
            ("<a href=\"https://a/b\">here</a> <em>now</em>", "here now"),
            ("a<script>alert(1)</script>b", "ab"),
            ("☕&nbsp;☕", "☕\u{a0}☕"),
        ] {
            assert_eq!(to_text(html), expected, "{html}");
        }
    }

    #[test]
    fn a_long_line_is_not_broken() {
        let words = "word ".repeat(2_000);
        assert_eq!(to_text(&format!("<p>{words}</p>")), words.trim_end());
    }
}
