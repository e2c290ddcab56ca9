//! OpenAPI schemas of the values that clients send, by the limits of `model`.
//!
//! The service refuses a value that a schema does not allow. It accepts any other, but for what a
//! description says.

use model::{CommentText, Language, Rating, WebUrl};
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Schema, Type, schema::SchemaType};

/// A character of a text of one line: anything but the control characters (Unicode category Cc).
const NO_CONTROL: &str = r"[^\u0000-\u001f\u007f-\u009f]";
/// Like the characters above, but line feeds, carriage returns and tabs are allowed too.
const LINES: &str = r"[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]";
/// A well-formed language tag (RFC 5646 section 2.1), without the irregular grandfathered tags and
/// codes longer than three letters.
const LANGUAGE: &str = "^(?:[A-Za-z]{2,3}(?:-[A-Za-z]{3}){0,3}(?:-[A-Za-z]{4})?\
                        (?:-(?:[A-Za-z]{2}|[0-9]{3}))?(?:-(?:[A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*\
                        (?:-[0-9A-WY-Za-wy-z](?:-[A-Za-z0-9]{2,8})+)*(?:-[xX](?:-[A-Za-z0-9]{1,8})+)?\
                        |[xX](?:-[A-Za-z0-9]{1,8})+)$";

/// A URL as `model::WebUrl` reads it.
const WEB_URL: &str = "^https?://[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*\
                       (?::(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?\
                       (?:[/?#](?:[A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)?$";

// Descriptions say where a text must have a visible character: a pattern of all those would be too
// long.

pub(super) fn of_type(of: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(of)
}

pub(super) fn text(pattern: impl Into<String>) -> ObjectBuilder {
    of_type(Type::String).pattern(Some(pattern))
}

pub(super) fn one_of<const N: usize>(texts: [&'static str; N]) -> ObjectBuilder {
    of_type(Type::String).enum_values(Some(texts))
}

pub(super) fn number(least: u64, greatest: u64) -> ObjectBuilder {
    of_type(Type::Integer)
        .minimum(Some(least))
        .maximum(Some(greatest))
}

/// A text of one line. No schema can express the limits in bytes of some.
pub(super) fn line(max_chars: usize) -> ObjectBuilder {
    text(format!("^{NO_CONTROL}+$"))
        .min_length(Some(1))
        .max_length(Some(max_chars))
}

pub(super) fn language() -> ObjectBuilder {
    text(LANGUAGE).max_length(Some(Language::MAX_LEN))
}

pub(super) fn rating() -> ObjectBuilder {
    let [least, .., greatest] = Rating::ALL;
    number(least.get().into(), greatest.get().into())
}

pub(super) fn optional_line(max_chars: usize) -> ObjectBuilder {
    or_null(text(format!("^{NO_CONTROL}*$")).max_length(Some(max_chars)))
}

pub(super) fn body() -> ObjectBuilder {
    or_null(text(format!("^{LINES}*$")).max_length(Some(CommentText::BODY_MAX_CHARS)))
}

pub(super) fn optional_url() -> ObjectBuilder {
    or_null(text(WEB_URL).max_length(Some(WebUrl::MAX_LEN)))
}

/// A text, or null.
pub(super) fn or_null(text: ObjectBuilder) -> ObjectBuilder {
    text.schema_type(SchemaType::from_iter([Type::String, Type::Null]))
}

pub(super) fn if_match() -> Schema {
    let tags = text(r#"^(?:W/)?"[!#-~]*"(?: ?, ?(?:W/)?"[!#-~]*")*$"#);
    OneOfBuilder::new().item(one_of(["*"])).item(tags).into()
}
