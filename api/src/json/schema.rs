//! OpenAPI schemas of the values that clients send, by the limits of `model`.
//!
//! The service refuses a value that a schema does not allow. It accepts any other, but for what a description says.

use model::{AuthorId, CommentText, Language, ProductDetails, ProductId, Rating, Status, WebUrl};
use utoipa::openapi::{
    ObjectBuilder, OneOfBuilder, Schema, Type,
    schema::{AdditionalProperties, SchemaType},
};

/// A character of a text of one line: anything but the control characters (Unicode category Cc).
const NO_CONTROL: &str = r"[^\u0000-\u001f\u007f-\u009f]";
/// Like the characters above, but line feeds, carriage returns and tabs are allowed too.
const LINES: &str = r"[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]";
/// A well-formed language tag (RFC 5646 section 2.1), without the irregular grandfathered tags and codes longer than three
/// letters.
const LANGUAGE: &str = "^(?:[A-Za-z]{2,3}(?:-[A-Za-z]{3}){0,3}(?:-[A-Za-z]{4})?\
                        (?:-(?:[A-Za-z]{2}|[0-9]{3}))?(?:-(?:[A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*\
                        (?:-[0-9A-WY-Za-wy-z](?:-[A-Za-z0-9]{2,8})+)*(?:-[xX](?:-[A-Za-z0-9]{1,8})+)?\
                        |[xX](?:-[A-Za-z0-9]{1,8})+)$";

/// A URL as `model::WebUrl` reads it.
const WEB_URL: &str = "^https?://[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*\
                       (?::(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?\
                       (?:[/?#](?:[A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)?$";

// Descriptions say where a text must have a visible character: a pattern of all those would be too long.

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

pub(super) fn status() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(Status::ALL.map(Status::as_str)))
}

pub(super) fn optional_line(max_chars: usize) -> ObjectBuilder {
    text(format!("^{NO_CONTROL}*$")).schema_type(or_null()).max_length(Some(max_chars))
}

pub(super) fn body() -> ObjectBuilder {
    text(format!("^{LINES}+$")).min_length(Some(1)).max_length(Some(CommentText::BODY_MAX_CHARS))
}

pub(super) fn product_name() -> ObjectBuilder {
    text(format!("^{NO_CONTROL}+$")).min_length(Some(1)).max_length(Some(ProductDetails::NAME_MAX_CHARS))
}

pub(super) fn optional_url() -> ObjectBuilder {
    text(WEB_URL).schema_type(or_null()).max_length(Some(WebUrl::MAX_LEN))
}

/// A GTIN, or null. No pattern can express its check digit.
pub(super) fn optional_gtin() -> ObjectBuilder {
    text("^(?:[0-9]{8}|[0-9]{12,14})$").schema_type(or_null())
}

pub(super) fn optional_language() -> ObjectBuilder {
    language().schema_type(or_null())
}

/// What a site stores with a comment: any object, or null. No schema can express its limits, which are in bytes.
pub(super) fn attributes() -> ObjectBuilder {
    let description = "Any object of at most 4,096 bytes of JSON without white space, and at most 32 levels; kept to the \
                       letter. Everybody may read it. Pages for people show `verified` (`true`) and `reply` (an object \
                       with `text`, perhaps `author` and `at`)";
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
        .description(Some(description))
}

/// The id of an author at the site. No schema can express that its limit is in bytes. Like products, it is neither `.`
/// nor `..`.
pub(super) fn author_id_text() -> ObjectBuilder {
    text(format!("^{NO_CONTROL}+$")).min_length(Some(1)).max_length(Some(AuthorId::MAX_BYTES))
}

pub(super) fn author_id() -> ObjectBuilder {
    let description = "The author's id at the site, at most 128 bytes of UTF-8; the first and the last character are visible; \
                       only clients with a write token read it";
    author_id_text().schema_type(or_null()).description(Some(description))
}

fn or_null() -> SchemaType {
    SchemaType::from_iter([Type::String, Type::Null])
}

pub(super) fn if_match() -> Schema {
    let any = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["*"]));
    let tags = text(r#"^(?:W/)?"[!#-~]*"(?: ?, ?(?:W/)?"[!#-~]*")*$"#);
    OneOfBuilder::new().item(any).item(tags).into()
}
