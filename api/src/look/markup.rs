//! Checks the header and the footer of a site: fragments of HTML.
//!
//! The tokenizer of a browser-grade parser reads them. Elements must be closed in order, so a fragment never reaches into
//! the page around it.

use std::cell::RefCell;

use html5ever::{
    Attribute,
    tendril::StrTendril,
    tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts},
};

use super::{Problem, policy};

const BLOCKED: &str = "the content security policy of pages blocks it; use a link to another page instead";
const OF_HEAD: &str = "it belongs into the head of a page, which a site cannot change";
const OF_PAGE: &str = "this is a part of a page; write only what belongs inside <body>";

/// The elements that are refused, each with the reason.
const REFUSED: [(&[&str], &str); 8] = [
    (
        &["script", "noscript", "template", "slot"],
        "pages run no scripts, and their content security policy blocks them",
    ),
    (&["style"], "the content security policy of pages blocks it; put the rules into theme.css"),
    (&["link", "meta", "base", "title"], OF_HEAD),
    (&["html", "head", "body", "frameset"], OF_PAGE),
    (&["main"], "a page has one <main>, which holds the comments; use <div>, <nav> or <aside>"),
    (&["form", "button", "input", "select", "textarea"], BLOCKED),
    (&["iframe", "frame", "object", "embed", "applet", "audio", "video", "track"], BLOCKED),
    (
        &["plaintext", "xmp", "noembed", "noframes"],
        "it is obsolete, and browsers read its content in another way; use <pre>",
    ),
];

/// The elements that have no end tag.
const VOID: [&str; 7] = ["area", "br", "col", "hr", "img", "source", "wbr"];

/// The ids that pages have themselves.
const IDS_OF_PAGES: [&str; 4] = ["main", "comments", "pages", "problem"];

/// Finds the first problem of a fragment. `origin` is that of the site.
pub(super) fn check(fragment: &str, origin: &str) -> Result<(), Problem> {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(fragment));
    let checker = Checker { origin, open: RefCell::default(), problem: RefCell::default() };
    let tokenizer = Tokenizer::new(checker, TokenizerOpts::default());
    // It never waits for a script to run, because the checker never asks for it.
    drop(tokenizer.feed(&input));
    tokenizer.end();
    let Checker { open, problem, .. } = tokenizer.sink;
    let unclosed = || {
        let (name, line) = open.into_inner().pop()?;
        Some(Problem::new(line, format!("<{name}> is not closed; add </{name}>")))
    };
    problem.into_inner().or_else(unclosed).map_or(Ok(()), Err)
}

struct Checker<'site> {
    origin: &'site str,
    /// The open elements, each with its line.
    open: RefCell<Vec<(String, u64)>>,
    problem: RefCell<Option<Problem>>,
}

impl TokenSink for Checker<'_> {
    type Handle = ();

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<()> {
        if self.problem.borrow().is_some() {
            return TokenSinkResult::Continue;
        }
        let problem = match &token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => self.begin(tag, line),
            Token::TagToken(tag) => self.close(&tag.name),
            Token::DoctypeToken(_) => Some(OF_PAGE.to_owned()),
            Token::ParseError(error) => Some(format!("this is not valid HTML ({}); correct it", error.escape_debug())),
            // An error comes before a U+0000.
            Token::CommentToken(_) | Token::CharacterTokens(_) | Token::NullCharacterToken | Token::EOFToken => None,
        };
        if let Some(text) = problem {
            *self.problem.borrow_mut() = Some(Problem::new(line, text));
        }
        TokenSinkResult::Continue
    }
}

impl Checker<'_> {
    fn begin(&self, tag: &Tag, line: u64) -> Option<String> {
        let name = &*tag.name;
        let mut open = self.open.borrow_mut();
        let is_in_svg = name == "svg" || open.iter().any(|(open, _)| open == "svg");
        let refused = REFUSED.iter().find(|(names, _)| names.contains(&name) && !(is_in_svg && name == "title"));
        if let Some((_, reason)) = refused {
            return Some(format!("<{name}> is refused: {reason}"));
        }
        let problem = tag.attrs.iter().find_map(|attribute| self.problem_of(name, attribute));
        // Elsewhere browsers ignore the slash of <div/>.
        if !VOID.contains(&name) && !(is_in_svg && tag.self_closing) {
            open.push((name.to_owned(), line));
        }
        problem
    }

    fn close(&self, name: &str) -> Option<String> {
        match self.open.borrow_mut().pop() {
            Some((open, _)) if open == name => None,
            Some((open, line)) => {
                Some(format!("</{name}> does not close <{open}> of line {line}; close the elements in order"))
            }
            None => Some(format!("</{name}> closes nothing; remove it")),
        }
    }

    fn problem_of(&self, element: &str, Attribute { name, value }: &Attribute) -> Option<String> {
        let name = &*name.local;
        let blocked = |address: &str| policy::problem_of(address, self.origin);
        match name {
            "style" => Some("the attribute style is refused: the content security policy of pages blocks it; use class, and put the rules into theme.css".to_owned()),
            "id" if IDS_OF_PAGES.contains(&&**value) => {
                Some(format!("the id \"{value}\" is used by pages themselves; choose another one"))
            }
            "href" if matches!(element, "a" | "area") => {
                let scheme: String = value.split(':').next()?.chars().filter(|c| !c.is_whitespace()).collect();
                let is_blocked = ["javascript", "data", "vbscript"].iter().any(|blocked| scheme.eq_ignore_ascii_case(blocked));
                is_blocked.then(|| format!("a link to {scheme}: is refused: pages run no scripts; link to a page"))
            }
            "src" | "poster" | "background" | "data" | "href" | "xlink:href" => blocked(value),
            "srcset" => {
                let candidates = value.split(',').filter_map(|candidate| candidate.split_whitespace().next());
                candidates.filter_map(blocked).next()
            }
            _ if name.starts_with("on") => Some(format!(
                "the attribute {name} is refused: pages run no scripts, and their content security policy blocks them"
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(fragment: &str) -> Option<(u64, String)> {
        check(fragment, "https://shop.example").err().map(|Problem { line, text }| (line, text))
    }

    #[test]
    fn a_header_of_links_and_pictures_is_good() {
        for good in [
            "",
            "<!-- the shop -->\n<nav class=\"shop\" aria-label=\"Shop\"><a href=\"/\"><img src=\"/logo.svg\" alt=\"Shop\"></a> &amp; &eacute;</nav>",
            "<a href=\"https://other.example/?a=1&b=2\">x</a><br/><p>one</p><ul><li>two</li></ul>",
            "<svg viewBox=\"0 0 1 1\"><title>Logo</title><path d=\"M0 0\"/><use href=\"#a\"/></svg>",
            "<picture><source srcset=\"/a.webp 1x, https://shop.example/b.webp 2x\"><img src=\"/a.png\" alt=\"\"></picture>",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
    }

    #[test]
    fn what_a_browser_would_block_is_named() {
        for (bad, word) in [
            ("<script>alert(1)</script>", "<script>"),
            ("<SCRIPT src=/x.js>", "<script>"),
            ("<style>p { color: red }</style>", "theme.css"),
            ("<p style=\"color: red\">x</p>", "theme.css"),
            ("<p onclick=\"x()\">x</p>", "onclick"),
            ("<svg onload=x()></svg>", "onload"),
            ("<a href=\" java\nscript:x()\">x</a>", "javascript:"),
            ("<img src=\"https://cdn.example/logo.png\" alt=\"\">", "cdn.example"),
            ("<img src=/a srcset=\"/a 1x, //cdn.example/b 2x\" alt=\"\">", "cdn.example"),
            ("<svg><image href=\"data:image/png,x\"/></svg>", "data:image"),
            ("<svg><use xlink:href=\"https://cdn.example/x#y\"/></svg>", "cdn.example"),
            ("<link rel=stylesheet href=/x.css>", "<link>"),
            ("<form action=/search></form>", "<form>"),
            ("<iframe src=/x></iframe>", "<iframe>"),
        ] {
            let (line, text) = problem(&format!("<p>\n</p>\n{bad}")).unwrap_or_else(|| panic!("{bad} is accepted"));
            assert!(line >= 3 && text.contains(word) && text.contains(['.', ';', ':']), "{bad}: {line}: {text}");
        }
    }

    #[test]
    fn what_would_break_the_page_around_it_is_named() {
        for (bad, line, word) in [
            ("<div>\n<p>\n</p>", 1, "<div>"),
            ("<div/>\n", 1, "<div>"),
            ("\n</div>", 2, "</div>"),
            ("<b>\n<i>\n</b></i>", 3, "<i> of line 2"),
            ("<p>\n<!-- open", 2, "valid HTML"),
            ("<p>\n<a href=\"x", 2, "valid HTML"),
            ("<p>\u{0}</p>", 1, "valid HTML"),
            ("<!doctype html><p></p>", 1, "<body>"),
            ("<body>", 1, "<body>"),
            ("<main></main>", 1, "<main>"),
            ("<div id=\"comments\"></div>", 1, "comments"),
            ("<title>x</title>", 1, "<title>"),
            ("<![CDATA[ <p> ]]>", 1, "valid HTML"),
        ] {
            let (found, text) = problem(bad).unwrap_or_else(|| panic!("{bad} is accepted"));
            assert!(found == line && text.contains(word), "{bad}: {found}: {text}");
        }
    }
}
