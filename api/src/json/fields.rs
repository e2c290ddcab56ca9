//! Bodies of writes: how they are read, and how the OpenAPI document describes them.

use std::{borrow::Cow, fmt};

use actix_web::{HttpRequest, web};
use model::{AuthorId, CommentAttributes, CommentText, Status};
use serde::{
    Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::{Value, json, value::RawValue};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr, Schema, Type,
        schema::{AdditionalProperties, SchemaType},
    },
};

use super::schema;
use crate::{
    error::ApiError,
    http::body,
    write::content::{Fields, NewContent, STATUS},
};

/// The fields of a comment that a client may set. No schema can express the limits of attributes, which are in bytes.
fn fields_schema() -> ObjectBuilder {
    let line = schema::optional_line;
    let attributes = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)));
    object([
        ("language", schema::language(), "The language it is written in: a BCP 47 tag"),
        ("rating", schema::rating(), ""),
        ("title", line(CommentText::TITLE_MAX_CHARS), "One line; without a visible character it is none"),
        (
            "body",
            schema::body(),
            "The text, with at least one visible character; line breaks and tabs are its only control characters",
        ),
        (
            "author",
            line(CommentText::AUTHOR_MAX_CHARS),
            "The name to show, one line; without a visible character it is none",
        ),
        (
            CommentAttributes::FIELD,
            attributes,
            "Any object of at most 4,096 bytes of JSON without white space, and at most 32 levels; kept to the letter. \
             Everybody may read it. Pages for people show `verified` (`true`) and `reply` (an object with `text`, perhaps \
             `author` and `at`)",
        ),
        (
            AuthorId::FIELD,
            schema::or_null(schema::line(AuthorId::MAX_BYTES)),
            "The author's id at the site, at most 128 bytes of UTF-8; the first and the last character are visible; only \
             clients with a write token read it",
        ),
    ])
}

/// An object with these fields, each with its description, and no others.
pub(super) fn object<const N: usize>(fields: [(&str, ObjectBuilder, &str); N]) -> ObjectBuilder {
    let empty = ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(false)));
    fields.into_iter().fold(empty, |object, (name, field, description)| {
        let description = Some(description).filter(|description| !description.is_empty());
        object.property(name, field.description(description))
    })
}

/// Reads the fields of a body, which is sent as one of the media types `accepted`.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    accepted: &'static [&'static str],
) -> Result<Fields, ApiError> {
    parse(&body::read(request, payload, accepted).await?)
}

/// The fields of a JSON object, none of them twice.
fn parse(body: &[u8]) -> Result<Fields, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let fields = json.deserialize_map(FieldsVisitor).and_then(|fields| json.end().map(|()| fields));
    fields.map_err(|error| ApiError::BrokenBody(error.to_string()))
}

impl PartialSchema for NewContent {
    fn schema() -> RefOr<Schema> {
        let example = json!({
            "language": "en", "rating": 5, "title": "Well made", "body": "Two years, every day.\nNo trouble.",
            "author": "Ada", "attributes": { "verified": true }, "author_id": "customer-4711",
        });
        let required = ["language", "rating", "body"];
        required.into_iter().fold(fields_schema(), ObjectBuilder::required).examples([example]).into()
    }
}

impl ToSchema for NewContent {
    fn name() -> Cow<'static, str> {
        "NewComment".into()
    }
}

/// Describes the body of a change in the OpenAPI document; the body is read as a [`table::CommentPatch`].
pub(crate) struct CommentChange;

impl PartialSchema for CommentChange {
    fn schema() -> RefOr<Schema> {
        let description = "JSON Merge Patch (RFC 7396): fields that are left out stay, null removes an optional one. `attributes` is \
             replaced as a whole, and nothing in it is merged.";
        fields_schema()
            .property(
                STATUS,
                schema::one_of(Status::ALL.map(Status::as_str)).description(Some("Whether readers see it")),
            )
            .description(Some(description))
            .examples([json!({ "rating": 4, "title": null }), json!({ "status": "hidden" })])
            .into()
    }
}

impl ToSchema for CommentChange {}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = match name.as_str() {
                CommentAttributes::FIELD => map.next_value::<&RawValue>()?.get().into(),
                _ => map.next_value::<Value>()?,
            };
            if fields.insert(name, value).is_some() {
                return Err(A::Error::custom("a field occurs twice"));
            }
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::Language;

    use super::*;
    use crate::write::content::FIELDS;

    #[test]
    fn the_described_fields_are_those_that_are_read() {
        let described = fields_schema().build().properties;
        assert_eq!(BTreeSet::from_iter(described.keys().map(String::as_str)), BTreeSet::from(FIELDS));
    }

    fn content(json: &str) -> Result<NewContent, ApiError> {
        NewContent::of_fields(&parse(json.as_bytes())?)
    }

    #[test]
    fn broken_json_is_refused_with_its_position() {
        let problem = |json: &str| match content(json) {
            Err(ApiError::BrokenBody(problem)) => problem,
            other => panic!("{other:?}"),
        };
        assert_eq!(problem("{\n\"rating\": }"), "expected value at line 2 column 11");
        assert!(problem("").contains("line 1"));
        assert!(problem(r#"{"rating": 1e400}"#).contains("out of range"));
        assert!(problem("[1]").contains("expected an object"));
        assert!(problem(r#"{"rating": 1, "rating": 2}"#).contains("twice"));
        assert!(problem(r#"{"body": "\ud800"}"#).contains("line 1"));
        assert!(problem(&"[".repeat(10_000)).contains("expected an object"));
        assert!(problem(&format!("{{\"body\": {}", "[".repeat(10_000))).contains("recursion limit"));
    }

    /// All texts at their limits, each character in its longest encoding.
    #[test]
    fn the_longest_texts_in_the_longest_encodings_are_no_larger_than_a_body() {
        let escaped = |chars: usize| "\\ud83d\\ude00".repeat(chars);
        let name = |name: &str| name.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect::<String>();
        let language = format!("x{}", "-abcdefgh".repeat(Language::MAX_LEN / 9));
        let json = format!(
            r#"{{ "{}": "{}", "{}": 5.0e0, "{}": "{}", "{}": "{}", "{}": "{}", "{}": {}, "{}": "{}" }}"#,
            name("language"),
            name(&language),
            name("rating"),
            name("title"),
            escaped(CommentText::TITLE_MAX_CHARS),
            name("body"),
            escaped(CommentText::BODY_MAX_CHARS),
            name("author"),
            escaped(CommentText::AUTHOR_MAX_CHARS),
            name("attributes"),
            format_args!("{{\"a\":\"{}\"}}", "x".repeat(CommentAttributes::MAX_BYTES - 8)),
            name("author_id"),
            "\\u0061".repeat(AuthorId::MAX_BYTES),
        );
        assert!(json.len() <= body::BODY_MAX_BYTES, "{} bytes", json.len());
        let content = content(&json).unwrap();
        assert_eq!(content.text.body, "😀".repeat(CommentText::BODY_MAX_CHARS));
        assert!(
            json.len() > body::BODY_MAX_BYTES - 8 * 1024,
            "the limit is no larger than it has to be: {}",
            json.len()
        );
    }
}
