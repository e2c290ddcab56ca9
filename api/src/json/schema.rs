//! OpenAPI schemas of the values that clients send, by the limits of `model`.
//!
//! The service accepts a value that a schema allows, and refuses any other.

use std::ops::RangeInclusive;

use model::{CommentText, Language, ProductId, Rating};
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Schema, Type, schema::SchemaType};

/// A character of a text of one line: anything but the control characters (Unicode category Cc).
const NO_CONTROL: &str = r"[^\u0000-\u001f\u007f-\u009f]";
/// Like the characters above, but line feeds, carriage returns and tabs are allowed too.
const LINES: &str = r"[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]";
/// The invisible characters: the rule of `model::visible` in the form that a pattern needs.
const INVISIBLE: [RangeInclusive<char>; 25] = [
    '\0'..=' ',
    '\u{7f}'..='\u{a0}',
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{1680}'..='\u{1680}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{2000}'..='\u{200f}',
    '\u{2028}'..='\u{202f}',
    '\u{205f}'..='\u{206f}',
    '\u{2800}'..='\u{2800}',
    '\u{3000}'..='\u{3000}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{13430}'..='\u{1343f}',
    '\u{13441}'..='\u{13442}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d159}'..='\u{1d159}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

/// A well-formed language tag (RFC 5646 section 2.1), without the irregular grandfathered tags.
const LANGUAGE: &str = "^(?:(?:[A-Za-z]{2,3}(?:-[A-Za-z]{3}){0,3}|[A-Za-z]{4,8})(?:-[A-Za-z]{4})?\
                        (?:-(?:[A-Za-z]{2}|[0-9]{3}))?(?:-(?:[A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*\
                        (?:-[0-9A-WY-Za-wy-z](?:-[A-Za-z0-9]{2,8})+)*(?:-[xX](?:-[A-Za-z0-9]{1,8})+)?\
                        |[xX](?:-[A-Za-z0-9]{1,8})+)$";

/// A visible character, as a pattern.
fn visible() -> String {
    // Pattern dialects agree only on the escapes of the first plane.
    let escaped = |c: char| if c <= '\u{ffff}' { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    let range = |range: &RangeInclusive<char>| match (*range.start(), *range.end()) {
        (start, end) if start == end => escaped(start),
        (start, end) => format!("{}-{}", escaped(start), escaped(end)),
    };
    format!("[^{}]", INVISIBLE.iter().map(range).collect::<String>())
}

pub(super) fn text(pattern: impl Into<String>) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

pub(super) fn number(least: u64, greatest: u64) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least)).maximum(Some(greatest))
}

pub(super) fn product() -> ObjectBuilder {
    text(format!("^{NO_CONTROL}+$")).min_length(Some(1)).max_length(Some(ProductId::MAX_CHARS))
}

pub(super) fn language() -> ObjectBuilder {
    text(LANGUAGE).max_length(Some(Language::MAX_LEN))
}

pub(super) fn rating() -> ObjectBuilder {
    let [least, .., greatest] = Rating::ALL;
    number(least.get().into(), greatest.get().into())
}

/// A text of one line, or null.
pub(super) fn optional_line(max_chars: usize) -> ObjectBuilder {
    let types = SchemaType::from_iter([Type::String, Type::Null]);
    text(format!("^{NO_CONTROL}*$")).schema_type(types).max_length(Some(max_chars))
}

pub(super) fn body() -> ObjectBuilder {
    let pattern = format!("^{LINES}*{}{LINES}*$", visible());
    text(pattern).min_length(Some(1)).max_length(Some(CommentText::BODY_MAX_CHARS))
}

pub(super) fn if_match() -> Schema {
    let any = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["*"]));
    let tags = text(r#"^(?:W/)?"[!#-~]*"(?: ?, ?(?:W/)?"[!#-~]*")*$"#);
    OneOfBuilder::new().item(any).item(tags).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_of_a_visible_character_agrees_with_the_model() {
        let differing: Vec<char> = ('\0'..=char::MAX)
            .filter(|c| INVISIBLE.iter().any(|range| range.contains(c)) == model::visible::is_visible(*c))
            .collect();
        assert!(differing.is_empty(), "{differing:?}");
        assert!(visible().starts_with(r"[^\u0000-\u0020\u007f-\u00a0\u00ad\u034f"), "{}", visible());
    }
}
