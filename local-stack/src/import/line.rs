//! A line of an import file.

use model::{CommentId, CommentText, Instant, Language, ProductId, Rating};
use serde::Deserialize;
use stores::table::NewComment;

/// The fields of a line. Unknown ones are refused: a misspelt field would otherwise be lost without notice.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: CommentId,
    product: ProductId,
    language: Language,
    rating: Rating,
    created_at: Instant,
    #[serde(default)]
    title: Option<String>,
    body: String,
    #[serde(default)]
    author: Option<String>,
}

/// Reads a line: one JSON object.
///
/// # Errors
/// What is wrong with it, in one line.
pub fn parse_line(line: &[u8]) -> Result<NewComment, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let text = CommentText::new(line.title, line.body, line.author).map_err(|error| error.to_string())?;
    Ok(NewComment {
        id: line.id,
        product: line.product,
        language: line.language,
        rating: line.rating,
        created_at: line.created_at,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"id":"c-1","product":"a/b","language":"EN","rating":4,"created_at":"2024-02-29T12:00:00Z","title":null,"body":"Fine.","author":null}"#;

    #[test]
    fn a_good_line_is_a_comment() {
        let comment = parse_line(GOOD.as_bytes()).unwrap();
        assert_eq!((comment.product.as_str(), comment.language.as_str(), comment.rating.get()), ("a/b", "en", 4));
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        for (old, new, expected) in [
            ("\"rating\":4", "\"rating\":6", "rating"),
            ("\"rating\":4", "\"rating\":4.5", "4.5"),
            ("\"EN\"", "\"e\"", "language"),
            ("c-1", "c 1", "id"),
            ("Fine.", " ", "body"),
            ("\"title\"", "\"tilte\"", "tilte"),
            ("2024-02-29T12:00:00Z", "2023-02-29T12:00:00Z", "created_at"),
            ("\"author\":null}", "\"author\":null", "EOF"),
        ] {
            let error = parse_line(GOOD.replace(old, new).as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains('\n'));
        }
    }
}
