//! The text of HTML: tags and entities are gone, and paragraphs and breaks are line ends.
//!
//! A text may be plain, also where a program's other texts are HTML. A parser of HTML drops `<M` and
//! what follows. So it sees only comments, tags of known elements, and references that end with a
//! semicolon. Every other `<` and `&` is text.

use html2text::{config, render::TrivialDecorator};

/// Wider than any line, so that none is broken.
const WIDTH: usize = 1 << 20;

/// Where a text has one of these elements, its line feeds mean nothing.
const BREAKING: [&str; 4] = ["p", "br", "div", "li"];

/// The elements of HTML, without those that make text of every tag behind them, such as `textarea`.
const ELEMENTS: &str = "a abbr acronym address article aside audio b bdi bdo big blockquote body br \
    button caption center cite code col colgroup dd del details dfn div dl dt em embed fieldset \
    figcaption figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input \
    ins kbd label legend li link main map mark meta nav nobr object ol p param picture pre q rp rt \
    ruby s samp script section small source span strike strong style sub summary sup table tbody \
    td tfoot th thead time tr tt u ul var video wbr";

/// The text of a piece of HTML. A text without markup is its own.
pub(super) fn to_text(html: &str) -> String {
    let mut escaped = String::new();
    let mut has_markup = false;
    let mut has_breaks = false;
    let mut rest = html;
    while let Some(first) = rest.chars().next() {
        let length = if let Some(markup) = markup(rest) {
            has_markup = true;
            has_breaks |= BREAKING.contains(&element(markup).as_str());
            escaped.push_str(&markup.replace('\n', " "));
            markup.len()
        } else {
            match first {
                '<' => escaped.push_str("&lt;"),
                '&' => escaped.push_str("&amp;"),
                _ => escaped.push(first),
            }
            first.len_utf8()
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    if !has_markup {
        return html.to_owned();
    }
    if !has_breaks {
        escaped = escaped.replace('\n', "<br>");
    }
    let text = config::with_decorator(TrivialDecorator::new())
        .raw_mode(true)
        .allow_width_overflow()
        .string_from_read(escaped.as_bytes(), WIDTH);
    match text {
        Ok(text) => text.trim().to_owned(),
        // It refuses only a width that is too small.
        Err(_) => html.to_owned(),
    }
}

/// The comment, the tag or the reference with which a text begins.
fn markup(text: &str) -> Option<&str> {
    if text.starts_with('&') {
        return reference(text);
    }
    if text.starts_with("<!--") {
        let end = text.find("-->")? + "-->".len();
        return text.get(..end);
    }
    tag(text)
}

/// The name of a tag's element, in small letters.
fn element(tag: &str) -> String {
    let name = tag.trim_start_matches(['<', '/']);
    let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next();
    name.unwrap_or_default().to_lowercase()
}

fn reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix('&')?;
    let name = name.strip_prefix('#').unwrap_or(name);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric())?;
    let behind = name.get(end..)?.strip_prefix(';')?;
    if end == 0 {
        return None;
    }
    text.get(..text.len() - behind.len())
}

/// The tag with which a text begins. Each of its attributes has a value: in `<S only, but >M` the
/// words are text.
fn tag(text: &str) -> Option<&str> {
    let within = text.strip_prefix('<')?;
    let within = within.strip_prefix('/').unwrap_or(within);
    let name_end = within.find(|c: char| !c.is_ascii_alphanumeric())?;
    let name = element(text);
    if !ELEMENTS.split(' ').any(|known| known == name) {
        return None;
    }
    let mut rest = within.get(name_end..)?;
    loop {
        let next = rest.trim_start();
        if let Some(behind) = next.strip_prefix("/>").or_else(|| next.strip_prefix('>')) {
            return text.get(..text.len() - behind.len());
        }
        if next.len() == rest.len() {
            return None;
        }
        rest = behind_attribute(next)?;
    }
}

/// What follows the attribute with which a text begins.
fn behind_attribute(text: &str) -> Option<&str> {
    let name_end = text.find(|c: char| c.is_whitespace() || "=<>\"'/".contains(c))?;
    let value = text.get(name_end..)?.trim_start().strip_prefix('=')?;
    let value = value.trim_start();
    for quote in ['"', '\''] {
        if let Some(quoted) = value.strip_prefix(quote) {
            let (_, behind) = quoted.split_once(quote)?;
            return Some(behind);
        }
    }
    let end = value.find(|c: char| c.is_whitespace() || c == '>')?;
    value.get(end..)
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
    fn what_only_looks_like_a_tag_or_a_reference_is_kept() {
        for plain in [
            "Fits <M only, returned it",
            "price <five but >three,  fine",
            "<none>",
            "text&paragraph &copy &; &#;",
            "Fits <S only, but >M",
            "a <b and c",
            "an <!-- open comment",
            "<a href=\"open>",
            "<textarea> is shown\nwrongly",
        ] {
            assert_eq!(to_text(plain), plain);
        }
        for (html, expected) in [
            (
                "<p>Fits <M only &amp; fine</p>\n<P>Bye</P>",
                "Fits <M only & fine\n\nBye",
            ),
            ("price <peanuts\n&lt;five&gt;", "price <peanuts\n<five>"),
            (
                "<a\nhref='a>b' title = c>here</a><!-- <p> -->\nnow<br\n/>",
                "here now",
            ),
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
