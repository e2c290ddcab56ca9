//! OpenAPI schemas of the values that clients send, by the limits of `model`.
//!
//! The service accepts a value that a schema allows, and refuses any other.

use std::ops::RangeInclusive;

use model::{CommentId, CommentText, Language, PageNumber, PageSize, ProductId, Rating};
use serde_json::Value;
use utoipa::openapi::{
    Array, ArrayBuilder, KnownFormat, Object, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
    schema::SchemaType,
};

/// The longest `Idempotency-Key`.
pub(super) const IDEMPOTENCY_KEY_MAX_LEN: usize = 255;

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

fn text(pattern: impl Into<String>) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

fn number(least: u64, greatest: u64) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least)).maximum(Some(greatest))
}

fn or_null(schema: ObjectBuilder) -> Object {
    schema.schema_type(SchemaType::from_iter([Type::String, Type::Null])).build()
}

pub(crate) fn product() -> Object {
    text(format!("^{NO_CONTROL}+$")).min_length(Some(1)).max_length(Some(ProductId::MAX_CHARS)).build()
}

pub(crate) fn comment_id() -> Object {
    text(format!("^[A-Za-z0-9._-]{{1,{}}}$", CommentId::MAX_LEN)).build()
}

pub(crate) fn language() -> Object {
    text(LANGUAGE).max_length(Some(Language::MAX_LEN)).build()
}

pub(crate) fn rating() -> Object {
    let [least, .., greatest] = Rating::ALL;
    number(least.get().into(), greatest.get().into()).build()
}

pub(crate) fn ratings() -> Array {
    ArrayBuilder::new().items(rating()).build()
}

pub(crate) fn page() -> Object {
    number(1, PageNumber::MAX.get()).build()
}

pub(crate) fn page_size() -> Object {
    let default = Value::from(PageSize::default().get());
    number(1, PageSize::MAX.get().into()).default(Some(default)).build()
}

pub(crate) fn order() -> Object {
    let values = ["newest", "oldest"];
    let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values));
    schema.default(Some(Value::from("newest"))).build()
}

pub(crate) fn date_time() -> Object {
    let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
    ObjectBuilder::new().schema_type(Type::String).format(Some(format)).build()
}

pub(crate) fn cursor() -> Object {
    text("^[A-Za-z0-9_-]+$").max_length(Some(crate::read::cursor::SEALED_MAX_LEN)).build()
}

pub(crate) fn title() -> Object {
    or_null(text(format!("^{NO_CONTROL}*$")).max_length(Some(CommentText::TITLE_MAX_CHARS)))
}

pub(crate) fn author() -> Object {
    or_null(text(format!("^{NO_CONTROL}*$")).max_length(Some(CommentText::AUTHOR_MAX_CHARS)))
}

pub(crate) fn body() -> Object {
    let pattern = format!("^{LINES}*{}{LINES}*$", visible());
    text(pattern).min_length(Some(1)).max_length(Some(CommentText::BODY_MAX_CHARS)).build()
}

pub(crate) fn if_match() -> Schema {
    let any = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["*"]));
    let tags = text(r#"^(?:W/)?"[!#-~]*"(?: ?, ?(?:W/)?"[!#-~]*")*$"#);
    Schema::OneOf(OneOfBuilder::new().item(any).item(tags).build())
}

pub(crate) fn idempotency_key() -> Object {
    text("^[!-~]+$").max_length(Some(IDEMPOTENCY_KEY_MAX_LEN)).build()
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
