//! Checks the style sheet of a site. Our own rules come before it, and nothing comes after.
//!
//! A parser of browsers reads it into tokens. Whether a property exists is not checked: browsers leave out what they do
//! not know.

use cssparser::{ParseError, Parser, Token};

use super::{Problem, policy};

/// The functions whose texts are addresses of files.
const FUNCTIONS_OF_ADDRESSES: [&str; 5] = ["url", "src", "image", "image-set", "-webkit-image-set"];

/// At-rules that would do nothing, each with what to do.
const REFUSED: [(&str, &str); 4] = [
    (
        "import",
        "the content security policy of pages and the rules before this file forbid it; paste the rules of that file",
    ),
    ("charset", "it has no effect here; remove it, and save the file as UTF-8"),
    ("namespace", "it has no effect here; remove it"),
    ("font-face", "the content security policy of pages allows no fonts; name fonts that readers have in font-family"),
];

/// Finds the first problem of a style sheet. `origin` is that of the site.
pub(super) fn check(theme: &str, origin: &str) -> Result<(), Problem> {
    // A block or a comment that is not closed takes this brace.
    let whole = format!("{theme}\n}}");
    let mut checker = Checker { origin, end: whole.len(), begun: 1, is_closed: false, problem: None };
    checker.read(&mut Parser::new(&whole), Place::Outermost);
    let unclosed = || {
        (!checker.is_closed)
            .then(|| Problem::new(checker.begun, "what begins here is not closed; add the missing } or */"))
    };
    checker.problem.or_else(unclosed).map_or(Ok(()), Err)
}

/// What the parser is in.
#[derive(Clone, Copy)]
enum Place<'name> {
    /// No block.
    Outermost,
    /// A block that is not a function's.
    Block,
    /// The function of this name.
    Function(&'name str),
}

struct Checker<'site> {
    origin: &'site str,
    /// The length of the text, in bytes.
    end: usize,
    /// The line of the last token outside of all blocks that is not white space.
    begun: u64,
    /// Whether the brace at the end closes nothing.
    is_closed: bool,
    problem: Option<Problem>,
}

impl Checker<'_> {
    /// Reads up to the end of a place, or to a problem.
    fn read(&mut self, parser: &mut Parser<'_>, place: Place<'_>) {
        while self.problem.is_none() {
            let line = u64::from(parser.current_source_location().line) + 1;
            let Ok(token) = parser.next_including_whitespace_and_comments().cloned() else { return };
            if matches!(place, Place::Outermost) {
                if token == Token::CloseCurlyBracket && parser.position().byte_index() == self.end {
                    self.is_closed = true;
                    return;
                }
                if !matches!(token, Token::WhiteSpace(_)) {
                    self.begun = line;
                }
            }
            self.problem = self.problem_of(&token, place).map(|text| Problem::new(line, text));
            let inner = match &token {
                Token::Function(name) => Place::Function(name),
                Token::CurlyBracketBlock | Token::ParenthesisBlock | Token::SquareBracketBlock => Place::Block,
                _ => continue,
            };
            let read = parser.parse_nested_block(|parser| {
                self.read(parser, inner);
                Ok::<(), ParseError<()>>(())
            });
            if read.is_err() && self.problem.is_none() {
                self.problem = Some(Problem::new(line, "too many blocks are inside each other here; use fewer"));
            }
        }
    }

    fn problem_of(&self, token: &Token<'_>, place: Place<'_>) -> Option<String> {
        match token {
            Token::UnquotedUrl(address) => policy::problem_of(address, self.origin),
            Token::QuotedString(address) => match place {
                Place::Function(name) if is_one_of(&FUNCTIONS_OF_ADDRESSES, name) => {
                    policy::problem_of(address, self.origin)
                }
                Place::Function(_) | Place::Block | Place::Outermost => None,
            },
            Token::AtKeyword(name) => {
                let (_, reason) = REFUSED.iter().find(|(refused, _)| name.eq_ignore_ascii_case(refused))?;
                Some(format!("@{name} is refused: {reason}"))
            }
            Token::BadUrl(_) => Some("this url() is not valid; put its address into quotes".to_owned()),
            Token::BadString(_) => Some("a text in quotes ends with its line; add the missing quote".to_owned()),
            Token::CloseCurlyBracket => Some("this } closes nothing; remove it".to_owned()),
            Token::CloseParenthesis => Some("this ) closes nothing; remove it".to_owned()),
            Token::CloseSquareBracket => Some("this ] closes nothing; remove it".to_owned()),
            _ => None,
        }
    }
}

fn is_one_of(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(theme: &str) -> Option<(u64, String)> {
        check(theme, "https://shop.example").err().map(|Problem { line, text }| (line, text))
    }

    #[test]
    fn variables_and_rules_with_files_of_the_site_are_good() {
        for good in [
            "",
            ":root, :host { --link: #070; }\n@media (prefers-color-scheme: dark) { :root, :host { --link: #8f8; } }",
            ".shop::before { content: \"https://other.example\"; width: calc(1px + (2 * 3px)); }",
            ".shop { background: url(/back.png), url( \"https://shop.example/b.png\" ), url('#c'); }",
            ".shop { background: image-set(\"/a.webp\" type(\"image/webp\") 1x); }",
            "/* @import url(https://cdn.example) } */ a[href=\"//x\"] { color: red }",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
    }

    #[test]
    fn what_a_browser_would_block_or_ignore_is_named_with_its_line() {
        for (bad, line, word) in [
            ("@import \"other.css\";", 1, "@import"),
            ("a {}\n@IMPORT url(/x.css);", 2, "paste"),
            ("@font-face { font-family: x; src: url(/x.woff2) }", 1, "font-family"),
            ("a {\n  background: url(https://cdn.example/x.png) }", 2, "cdn.example"),
            ("a {\n  background:\n url( 'data:image/png,x' ) }", 3, "data:image"),
            ("@media print { a { background: -webkit-image-set(\"//cdn.example/x\" 1x) } }", 1, "cdn.example"),
            ("a { background: url(a b) }", 1, "quotes"),
            ("a { content: \"x\n }", 1, "quote"),
            ("a {}\n}\nb {}", 2, "closes nothing"),
            ("a { width: calc(1px }", 1, "closes nothing"),
            ("a {}\n\nb {\n  c: d;\n", 3, "not closed"),
            ("a {}\n/* x", 2, "not closed"),
        ] {
            let (found, text) = problem(bad).unwrap_or_else(|| panic!("{bad} is accepted"));
            assert!(found == line && text.contains(word), "{bad}: {found}: {text}");
        }
        assert!(problem(&"(".repeat(200)).is_some());
    }
}
