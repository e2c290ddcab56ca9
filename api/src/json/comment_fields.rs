//! The fields of a comment that a client may set, in a new comment and in a change.

use std::borrow::Cow;

use model::{
    AuthorId, CommentAttributes, CommentId, CommentText, InvalidInput, Language, ProductId, Rating,
    SiteData, Status, Timestamp,
};
use serde_json::{Value, json};
use table::CommentPatch;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr, Schema, Type,
        schema::{AdditionalProperties, SchemaType},
    },
};

use super::{
    fields::{Fields, object, shown},
    schema,
};
use crate::error::ApiError;

/// The fields of a comment that a client may set. No schema can express the limits of attributes,
/// which are in bytes.
fn fields() -> ObjectBuilder {
    let line = schema::optional_line;
    let attributes = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)));
    object([
        (
            "language",
            schema::language(),
            "The language it is written in: a BCP 47 tag",
        ),
        ("rating", schema::rating(), ""),
        (
            "title",
            line(CommentText::TITLE_MAX_CHARS),
            "One line; without a visible character it is none",
        ),
        (
            "body",
            schema::body(),
            "The text; without a visible character there is none. Line breaks and tabs are its only control characters; line ends \
             become line feeds",
        ),
        (
            "author",
            line(CommentText::AUTHOR_MAX_CHARS),
            "The name to show, one line; without a visible character it is none",
        ),
        (
            CommentAttributes::FIELD,
            attributes,
            "Any object of at most 4,096 bytes of JSON without white space and escapes, and at most 32 levels. Kept in one \
             spelling: sorted keys, numbers and texts in their shortest usual form. Everybody may read it. Pages for people show `verified` (`true`) and `reply` (an object with `text`, perhaps \
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

/// Describes the body of a new comment.
pub(crate) struct NewCommentBody;

impl PartialSchema for NewCommentBody {
    fn schema() -> RefOr<Schema> {
        let example = json!({
            "language": "en", "rating": 5, "title": "Well made", "body": "Two years, every day.\nNo trouble.",
            "author": "Ada", "attributes": { "verified": true }, "author_id": "customer-4711",
        });
        let required = ["language", "rating"];
        required
            .into_iter()
            .fold(fields(), ObjectBuilder::required)
            .examples([example])
            .into()
    }
}

impl ToSchema for NewCommentBody {
    fn name() -> Cow<'static, str> {
        "NewComment".into()
    }
}

/// A comment of this product, made at this instant.
///
/// # Errors
/// Names the field that is missing or wrong.
pub(super) fn new_comment(
    product: ProductId,
    created_at: Timestamp,
    fields: &Fields,
) -> Result<table::NewComment, ApiError> {
    let CommentPatch {
        language,
        rating,
        title,
        body,
        author,
        attributes,
        author_id,
        status: _,
    } = change(fields)?;
    Ok(table::NewComment {
        // One instant for both makes cursors at the comment shorter.
        id: CommentId::parse(&process::new_ulid_at(created_at)).map_err(ApiError::internal)?,
        product,
        language: language.ok_or_else(|| missing("language"))?,
        rating: rating.ok_or_else(|| missing("rating"))?,
        created_at,
        status: None,
        text: CommentText {
            title: title.flatten(),
            body: body.flatten(),
            author: author.flatten(),
        },
        site: SiteData {
            attributes: attributes.flatten(),
            author_id: author_id.flatten(),
        },
    })
}

fn missing(field: &'static str) -> ApiError {
    ApiError::invalid(field, "is missing")
}

/// Describes the body of a change.
pub(crate) struct CommentChangeBody;

impl PartialSchema for CommentChangeBody {
    fn schema() -> RefOr<Schema> {
        let description = "JSON Merge Patch (RFC 7396): fields that are left out stay, null removes an optional one. `attributes` is \
             replaced as a whole, and nothing in it is merged.";
        let status = schema::one_of(Status::ALL.map(Status::as_str))
            .description(Some("Whether readers see it"));
        fields()
            .property("status", status)
            .description(Some(description))
            .examples([
                json!({ "rating": 4, "title": null }),
                json!({ "status": "hidden" }),
            ])
            .into()
    }
}

impl ToSchema for CommentChangeBody {
    fn name() -> Cow<'static, str> {
        "CommentChange".into()
    }
}

/// The fields as a change of a comment: those that are missing stay as they are, null removes.
///
/// # Errors
/// Names the field that is wrong.
pub(super) fn change(fields: &Fields) -> Result<CommentPatch, ApiError> {
    Ok(CommentPatch {
        language: fields
            .text("language")?
            .map(|tag| Language::parse(&tag))
            .transpose()?,
        rating: fields.value("rating").map(parse_rating).transpose()?,
        title: fields
            .text_or_null("title")?
            .map(CommentText::new_title)
            .transpose()?,
        body: fields
            .text_or_null("body")?
            .map(CommentText::new_body)
            .transpose()?,
        author: fields
            .text_or_null("author")?
            .map(CommentText::new_author)
            .transpose()?,
        attributes: fields
            .value(CommentAttributes::FIELD)
            .map(parse_attributes)
            .transpose()?,
        author_id: fields
            .text_or_null(AuthorId::FIELD)?
            .map(parse_author_id)
            .transpose()?,
        status: fields
            .text("status")?
            .map(|status| Status::parse(&status))
            .transpose()?,
    })
}

fn parse_author_id(id: Option<String>) -> Result<Option<AuthorId>, InvalidInput> {
    id.map(|id| AuthorId::parse(&id)).transpose()
}

fn parse_attributes(json: &Value) -> Result<Option<CommentAttributes>, ApiError> {
    match json.as_str().unwrap_or_default() {
        "null" => Ok(None),
        json => Ok(Some(CommentAttributes::parse(json)?)),
    }
}

fn parse_rating(value: &Value) -> Result<Rating, ApiError> {
    // To JSON, 4 and 4.0 are the same number.
    let rating = value
        .as_f64()
        .and_then(|number| Rating::of_number(number).ok());
    rating.ok_or_else(|| {
        let given = shown(value);
        let problem = format!("{given} is not a rating: the number 1, 2, 3, 4 or 5");
        ApiError::invalid("rating", problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::tests::refused_field, http::body::BODY_MAX_BYTES};

    fn content(json: &str) -> Result<table::NewComment, ApiError> {
        new_comment(
            ProductId::parse("p").unwrap(),
            Timestamp::MIN,
            &Fields::parse::<NewCommentBody>(json.as_bytes())?,
        )
    }

    fn patch(json: &str) -> Result<CommentPatch, ApiError> {
        change(&Fields::parse::<CommentChangeBody>(json.as_bytes())?)
    }

    fn long(chars: usize) -> String {
        "x".repeat(chars)
    }

    #[test]
    fn every_wrong_field_is_named() {
        for (field, values) in [
            (
                "rating",
                json!([0, 6, 4.5, "five", "5", true, null, [5], -1, 1e300]),
            ),
            (
                "language",
                json!(["e", "en_US", "", "~", long(300), 7, null, {}]),
            ),
            (
                "title",
                json!([long(CommentText::TITLE_MAX_CHARS + 1), "two\nlines", 1, { "a": 1 }]),
            ),
            (
                "body",
                json!([
                    5,
                    "bell \u{7}",
                    "nul \0",
                    long(CommentText::BODY_MAX_CHARS + 1)
                ]),
            ),
            (
                "author",
                json!([
                    long(CommentText::AUTHOR_MAX_CHARS + 1),
                    "\u{1b}[31m",
                    true,
                    []
                ]),
            ),
            (
                "attributes",
                json!([[], "{}", true, 7, { "a": long(4_090) }]),
            ),
            (
                "author_id",
                json!(["", " ", "..", "two\nlines", long(129), "é".repeat(65), 7]),
            ),
            ("id", json!(["c1"])),
            ("product", json!(["q"])),
            ("created_at", json!(["2024-01-01T00:00:00Z"])),
            ("revision", json!(["x"])),
            ("auto", json!([true])),
        ] {
            for value in values.as_array().unwrap() {
                let change = json!({ field: value });
                assert_eq!(refused_field(patch(&change.to_string())), field, "{value}");
                let mut whole = json!({"language": "en", "rating": 5, "body": "b"});
                whole[field] = value.clone();
                assert_eq!(refused_field(content(&whole.to_string())), field, "{value}");
            }
        }
        for missing in ["language", "rating"] {
            let mut whole = json!({"language": "en", "rating": 5, "body": "b", "status": "hidden"});
            assert_eq!(refused_field(content(&whole.to_string())), "status");
            whole
                .as_object_mut()
                .unwrap()
                .retain(|field, _| field != missing && field != "status");
            assert_eq!(refused_field(content(&whole.to_string())), missing);
        }
        let long = format!(r#"{{"{}": 1}}"#, long(1_000));
        assert_eq!(refused_field(content(&long)).chars().count(), 81);
    }

    #[test]
    fn a_rating_may_have_no_text() {
        let blank = "\u{200b}\u{3164}\u{2800}\u{feff}";
        for body in [json!(null), json!(""), json!(" \n\t "), json!(blank)] {
            let whole = json!({"language": "en", "rating": 5, "body": body});
            let content = content(&whole.to_string()).unwrap();
            assert_eq!(content.text.body, None, "{body}");
            let change = patch(&json!({"body": body}).to_string()).unwrap();
            assert_eq!(change.body, Some(None), "{body}");
        }
        let without = content(r#"{"language": "en", "rating": 5}"#).unwrap();
        assert_eq!(without.text.body, None);
    }

    #[test]
    fn null_removes_a_title_but_no_rating() {
        assert_eq!(patch("{}").unwrap(), CommentPatch::default());
        let removed = patch(r#"{"title": null, "author": "A"}"#).unwrap();
        assert_eq!(
            (removed.title, removed.author),
            (Some(None), Some(Some("A".to_owned())))
        );
        assert_eq!(
            patch(r#"{"status": "hidden"}"#).unwrap().status,
            Some(Status::Hidden)
        );
        assert_eq!(refused_field(patch(r#"{"status": "shown"}"#)), "status");
        for field in ["language", "rating", "status"] {
            assert_eq!(
                refused_field(patch(&format!(r#"{{"{field}": null}}"#))),
                field
            );
        }
    }

    /// Why a text is not a JSON object.
    fn problem(json: &str) -> String {
        match content(json) {
            Err(ApiError::BrokenBody(problem)) => problem,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn broken_json_is_refused_with_its_position() {
        assert_eq!(
            problem("{\n\"rating\": }"),
            "expected value at line 2 column 11"
        );
        assert!(problem("").contains("line 1"));
        assert!(problem(r#"{"rating": 1e400}"#).contains("out of range"));
        assert!(problem("[1]").contains("expected an object"));
        assert!(problem(r#"{"rating": 1, "rating": 2}"#).contains("twice"));
        assert!(problem(r#"{"body": "\ud800"}"#).contains("line 1"));
        assert!(problem(&"[".repeat(10_000)).contains("expected an object"));
        assert!(
            problem(&format!("{{\"body\": {}", "[".repeat(10_000))).contains("recursion limit")
        );
    }

    /// A text of this number of characters, each two escapes.
    fn emoji(chars: usize) -> String {
        "\\ud83d\\ude00".repeat(chars)
    }

    /// A text with every character as an escape.
    fn escaped(text: &str) -> String {
        text.chars()
            .map(|c| format!("\\u{:04x}", u32::from(c)))
            .collect()
    }

    /// All texts at their limits, each character in its longest encoding.
    #[test]
    fn the_longest_texts_in_the_longest_encodings_are_no_larger_than_a_body() {
        let language = format!("x{}", "-abcdefgh".repeat(Language::MAX_LEN / 9));
        let json = format!(
            r#"{{ "{}": "{}", "{}": 5.0e0, "{}": "{}", "{}": "{}", "{}": "{}", "{}": {}, "{}": "{}" }}"#,
            escaped("language"),
            escaped(&language),
            escaped("rating"),
            escaped("title"),
            emoji(CommentText::TITLE_MAX_CHARS),
            escaped("body"),
            emoji(CommentText::BODY_MAX_CHARS),
            escaped("author"),
            emoji(CommentText::AUTHOR_MAX_CHARS),
            escaped("attributes"),
            format_args!(
                "{{\"a\":\"{}\"}}",
                "\\u0078".repeat(CommentAttributes::MAX_BYTES - 8)
            ),
            escaped("author_id"),
            "\\u0061".repeat(AuthorId::MAX_BYTES),
        );
        assert!(json.len() <= BODY_MAX_BYTES, "{} bytes", json.len());
        let content = content(&json).unwrap();
        let body = "😀".repeat(CommentText::BODY_MAX_CHARS);
        assert_eq!(content.text.body, Some(body));
        assert!(
            json.len() > BODY_MAX_BYTES - 8 * 1024,
            "the limit is no larger than it has to be: {}",
            json.len()
        );
    }
}
