//! A line of an import file. An export writes the same lines.

use model::{
    AuthorId, Comment, CommentAttributes, CommentId, CommentText, Language, ProductId, Rating, SiteData, Status,
    Timestamp,
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};
use table::NewComment;

/// The message for a JSON array. A file that is one array gets it only once.
pub(super) const NOT_LINES: &str = "is a JSON array or begins one, but a file must be JSON Lines: each line one comment, \
                                    as a JSON object; `jq -c '.[]' FILE` writes an array so";

/// The fields of a line. Unknown ones are refused: a misspelt field would otherwise be lost without notice.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: CommentId,
    product: ProductId,
    language: Language,
    rating: Rating,
    created_at: Timestamp,
    #[serde(default)]
    title: Option<String>,
    body: String,
    #[serde(default)]
    author: Option<String>,
    /// Without one, a line says nothing about the status of a comment that exists.
    #[serde(default)]
    status: Option<Status>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attributes: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    author_id: Option<String>,
}

/// Whether a line begins an array that it does not end.
pub(super) fn begins_an_array(line: &[u8]) -> bool {
    line.starts_with(b"[") && serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof())
}

/// Reads a line: one JSON object.
///
/// # Errors
/// The reason why the line is not a comment, in one line.
pub fn parse_line(line: &[u8]) -> Result<NewComment, String> {
    if line.starts_with(b"[") {
        return Err(NOT_LINES.to_owned());
    }
    let line: Line = serde_json::from_slice(line).map_err(|error| described(&error))?;
    let attributes = line.attributes.clone();
    comment(line, attributes.as_deref().map(RawValue::get))
}

/// Makes a comment of the fields of a line, by their names. Attributes are a text, which is their JSON.
///
/// # Errors
/// The reason why they are no comment, in one line.
pub(super) fn comment_of(mut fields: Map<String, Value>) -> Result<NewComment, String> {
    let attributes = fields.remove(CommentAttributes::FIELD);
    let line = serde_json::from_value(fields.into()).map_err(|error| printable(&error.to_string()))?;
    comment(line, attributes.as_ref().and_then(Value::as_str))
}

fn comment(line: Line, attributes: Option<&str>) -> Result<NewComment, String> {
    let text = CommentText::new(line.title, line.body, line.author).map_err(|error| error.to_string())?;
    let attributes = attributes.map(CommentAttributes::parse).transpose().map_err(|error| error.to_string())?;
    let author_id = line.author_id.as_deref().map(AuthorId::parse).transpose().map_err(|error| error.to_string())?;
    Ok(NewComment {
        id: line.id,
        product: line.product,
        language: line.language,
        rating: line.rating,
        created_at: line.created_at,
        status: line.status,
        text,
        site: SiteData { attributes, author_id },
    })
}

/// Writes a comment as a line, without the line's end. Equal comments give equal lines, whatever their revisions.
///
/// # Errors
/// Never fails in practice: every field is a text or a number, or was read as JSON.
pub fn to_line(comment: Comment) -> serde_json::Result<String> {
    let Comment { id, product, language, rating, created_at, revision: _, status, text, site } = comment;
    let (CommentText { title, body, author }, status) = (text, Some(status));
    let attributes = site.attributes.as_ref().map(to_raw_value).transpose()?;
    let author_id = site.author_id.map(|id| id.as_str().to_owned());
    let line = Line { id, product, language, rating, created_at, title, body, author, attributes, author_id, status };
    serde_json::to_string(&line)
}

/// How much of the parser's message is kept: it repeats the names of unknown fields, which may be long.
const PROBLEM_MAX_CHARS: usize = 400;

/// A message as one line of at most [`PROBLEM_MAX_CHARS`], without characters that control a terminal.
pub(super) fn printable(message: &str) -> String {
    let shortened = message.chars().take(PROBLEM_MAX_CHARS);
    shortened.map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// An error of the JSON parser, which takes the line for line 1 of a document.
pub(super) fn described(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let problem = printable(text.strip_suffix(&place).unwrap_or(&text));
    let hint = if error.is_eof() { ": a line must hold a whole JSON object" } else { "" };
    format!("{problem} (column {}){hint}", error.column())
}

#[cfg(test)]
mod tests {
    use model::Revision;
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"{"id":"c-1","product":"a/b","language":"EN","rating":4,"created_at":"2024-02-29T12:00:00Z","title":null,"body":"Fine.","author":null,"status":"published"}"#;

    /// Fields that most comments lack. The attributes are kept to the letter.
    const WHOLE: &str = r#""attributes":{"z":1.0,"a":["\u00e9",12345678901234567890]},"author_id":"u/7""#;

    #[test]
    fn a_good_line_is_a_comment() {
        let comment = parse_line(GOOD.as_bytes()).unwrap();
        assert_eq!((comment.product.as_str(), comment.language.as_str(), comment.rating.get()), ("a/b", "en", 4));
    }

    #[test]
    fn a_line_reads_back_as_its_comment_and_names_every_field() {
        let whole = format!("{},{WHOLE}}}", GOOD.strip_suffix('}').unwrap());
        for given in [GOOD, &whole] {
            let new = parse_line(given.as_bytes()).unwrap();
            let NewComment { id, product, language, rating, created_at, status, text, site } = new;
            let status = status.unwrap_or_default();
            let revision = Revision::after(None, created_at, 1);
            let line =
                to_line(Comment { id, product, language, rating, created_at, revision, status, text, site }).unwrap();
            assert_eq!(line, given.replace("EN", "en").replace("00Z", "00.000Z"));
            assert_eq!(parse_line(line.as_bytes()), parse_line(given.as_bytes()));
        }
    }

    #[test]
    fn a_line_without_a_status_says_none_and_an_unknown_one_is_refused() {
        let status = |with: &str| parse_line(GOOD.replace(",\"status\":\"published\"", with).as_bytes());
        assert_eq!(status("").unwrap().status, None);
        assert_eq!(status(",\"status\":\"hidden\"").unwrap().status, Some(Status::Hidden));
        assert!(status(",\"status\":\"shown\"").unwrap_err().contains("shown"));
    }

    #[test]
    fn a_title_or_an_author_without_a_visible_character_is_none() {
        let line =
            GOOD.replace("\"title\":null", "\"title\":\"  \"").replace("\"author\":null", "\"author\":\"\u{200b}\"");
        let text = parse_line(line.as_bytes()).unwrap().text;
        assert_eq!((text.title, text.author), (None, None));
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        for (old, new, expected) in [
            ("\"rating\":4", "\"rating\":6", "rating"),
            ("\"rating\":4", "\"rating\":4.5", "4.5"),
            ("\"rating\":4", "\"rating\":\"4\"", "a rating"),
            ("\"EN\"", "\"e\"", "language"),
            ("c-1", "c 1", "id"),
            ("c-1", ".", "id: \".\" cannot be a comment id"),
            ("c-1", "..", "URL clients remove it"),
            ("a/b", "..", "product: \"..\" cannot be a product id"),
            ("Fine.", " ", "body"),
            ("Fine.", "\u{200b}", "body"),
            ("\"title\"", "\"tilte\"", "tilte"),
            ("\"title\"", "\"ti\\ntle\\u001b[31m\"", "`ti\u{fffd}tle\u{fffd}[31m`"),
            ("2024-02-29T12:00:00Z", "2023-02-29T12:00:00Z", "created_at"),
            ("2024-02-29T12:00:00Z", "9999-12-31T23:59:59-01:00", "outside the years 1 to 9999 of UTC (column 95)"),
            ("\"status\":\"published\"}", "\"status\":\"published\"", "a whole JSON object"),
            ("\"title\":null", "\"attributes\":[]", "attributes: must be a JSON object"),
            ("\"title\":null", "\"attributes\":\"{}\"", "attributes: must be a JSON object"),
            ("\"title\":null", "\"author_id\":\"\"", "author_id: is empty"),
            ("{", "[{", "JSON Lines"),
        ] {
            let error = parse_line(GOOD.replace(old, new).as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn a_rating_is_the_same_number_however_it_is_written() {
        for rating in ["4.0", "0.4e1"] {
            let line = GOOD.replace("\"rating\":4", &format!("\"rating\":{rating}"));
            assert_eq!(parse_line(line.as_bytes()), parse_line(GOOD.as_bytes()), "{rating}");
        }
    }

    #[test]
    fn only_an_array_over_several_lines_begins_one() {
        for line in ["[", "[{", "[{\"id\":\"c-1\"},"] {
            assert!(begins_an_array(line.as_bytes()), "{line}");
        }
        for line in ["[]", "[{}]", "[x", "{", "{\"a\":["] {
            assert!(!begins_an_array(line.as_bytes()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_line_is_a_comment_or_says_what_is_wrong_in_one_line(
            any in prop::collection::vec(any::<u8>(), 0..60),
            at in 0..GOOD.len(),
            with in r#"["{}\[\],:.0-9eE+\\nul☕ -]{0,3}"#,
            without in 0..4_usize,
        ) {
            let end = (at + without).min(GOOD.len());
            let near = [&GOOD.as_bytes()[..at], with.as_bytes(), &GOOD.as_bytes()[end..]].concat();
            for line in [any, near] {
                if let Err(reason) = parse_line(&line) {
                    prop_assert!(!reason.is_empty() && !reason.contains(char::is_control), "{reason:?}");
                }
            }
        }
    }
}
