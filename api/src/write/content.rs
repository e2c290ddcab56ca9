//! The fields of a comment that a client may set. Every field is checked, and none is ignored.

use std::collections::BTreeMap;

use model::{AuthorId, CommentAttributes, CommentText, Language, Rating, SiteData, Status};
use serde_json::Value;
use table::CommentPatch;

use crate::error::ApiError;

pub(crate) const FIELDS: [&str; 7] =
    ["language", "rating", "title", "body", "author", CommentAttributes::FIELD, AuthorId::FIELD];

/// The field that a change may have besides.
pub(crate) const STATUS: &str = "status";

/// The fields of a request, with their values. The value of `attributes` is a text: its JSON as it was sent.
pub(crate) type Fields = BTreeMap<String, Value>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewContent {
    pub(crate) language: Language,
    pub(crate) rating: Rating,
    pub(crate) text: CommentText,
    pub(crate) site: SiteData,
}

impl NewContent {
    /// # Errors
    /// Names the field that is missing, wrong or unknown.
    pub(crate) fn of_fields(fields: &Fields) -> Result<Self, ApiError> {
        if fields.contains_key(STATUS) {
            return Err(unknown(STATUS));
        }
        let CommentPatch { language, rating, title, body, author, attributes, author_id, status: _ } = change(fields)?;
        let missing = |field: &'static str| move || ApiError::invalid(field, "is missing");
        let language = language.ok_or_else(missing("language"))?;
        let rating = rating.ok_or_else(missing("rating"))?;
        let body = body.ok_or_else(missing("body"))?;
        let text = CommentText { title: title.flatten(), body, author: author.flatten() };
        let site = SiteData { attributes: attributes.flatten(), author_id: author_id.flatten() };
        Ok(Self { language, rating, text, site })
    }
}

/// The fields as a change of a comment: those that are missing stay as they are, null removes.
///
/// # Errors
/// Names the field that is wrong or unknown.
pub(crate) fn change(fields: &Fields) -> Result<CommentPatch, ApiError> {
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str()) && *name != STATUS) {
        return Err(unknown(name));
    }
    let text = |field| fields.get(field).map(|value| parse_text(field, value)).transpose();
    let optional = |field| match fields.get(field) {
        Some(Value::Null) => Ok(Some(None)),
        Some(_) | None => Ok::<_, ApiError>(text(field)?.map(Some)),
    };
    let body = text("body")?;
    Ok(CommentPatch {
        language: text("language")?.map(|tag| Language::parse(&tag)).transpose()?,
        rating: fields.get("rating").map(parse_rating).transpose()?,
        title: optional("title")?.map(CommentText::new_title).transpose()?,
        body: body.map(CommentText::new_body).transpose()?,
        author: optional("author")?.map(CommentText::new_author).transpose()?,
        attributes: fields.get(CommentAttributes::FIELD).map(parse_attributes).transpose()?,
        author_id: optional(AuthorId::FIELD)?.map(parse_author_id).transpose()?,
        status: text(STATUS)?.map(|status| Status::parse(&status)).transpose()?,
    })
}

fn unknown(name: &str) -> ApiError {
    let problem = format!("is not a field that can be set; there are {}", FIELDS.join(", "));
    ApiError::invalid(name.to_owned(), problem)
}

fn parse_attributes(json: &Value) -> Result<Option<CommentAttributes>, ApiError> {
    match json.as_str().unwrap_or_default() {
        "null" => Ok(None),
        json => Ok(Some(CommentAttributes::parse(json)?)),
    }
}

fn parse_author_id(id: Option<String>) -> Result<Option<AuthorId>, ApiError> {
    Ok(id.map(|id| AuthorId::parse(&id)).transpose()?)
}

fn parse_rating(value: &Value) -> Result<Rating, ApiError> {
    // To JSON, 4 and 4.0 are the same number.
    value.as_f64().and_then(|number| Rating::of_number(number).ok()).ok_or_else(|| {
        ApiError::invalid("rating", format!("{} is not a rating: the number 1, 2, 3, 4 or 5", shown(value)))
    })
}

pub(super) fn parse_text(field: &'static str, value: &Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Err(ApiError::invalid(field, "is null, but it cannot be left out or removed")),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(ApiError::invalid(field, format!("must be a text, not {}", shown(value))))
        }
    }
}

/// A value in a form that a message may repeat.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.chars().nth(40).is_some() => "a long text".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::tests::refused_field;

    fn content(json: &str) -> Result<NewContent, ApiError> {
        NewContent::of_fields(&serde_json::from_str(json).unwrap())
    }

    fn patch(json: &str) -> Result<CommentPatch, ApiError> {
        change(&serde_json::from_str(json).unwrap())
    }

    /// The value of `attributes` is its JSON as it was sent.
    #[test]
    fn every_wrong_field_is_named() {
        let long = |chars: usize| "x".repeat(chars);
        let blank = "\u{200b}\u{3164}\u{2800}\u{feff}";
        for (field, values) in [
            ("rating", json!([0, 6, 4.5, "five", "5", true, null, [5], -1, 1e300])),
            ("language", json!(["e", "en_US", "", "~", long(300), 7, null, {}])),
            ("title", json!([long(CommentText::TITLE_MAX_CHARS + 1), "two\nlines", 1, { "a": 1 }])),
            (
                "body",
                json!(["", " \n\t ", blank, null, 5, "bell \u{7}", "nul \0", long(CommentText::BODY_MAX_CHARS + 1)]),
            ),
            ("author", json!([long(CommentText::AUTHOR_MAX_CHARS + 1), "\u{1b}[31m", true, []])),
            ("attributes", json!(["[]", "\"{}\"", "true", "7", format!("{{\"a\":\"{}\"}}", long(4_090))])),
            ("author_id", json!(["", " ", "..", "two\nlines", long(129), "é".repeat(65), 7])),
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
        for missing in ["language", "rating", "body"] {
            let mut whole = json!({"language": "en", "rating": 5, "body": "b", "status": "hidden"});
            assert_eq!(refused_field(content(&whole.to_string())), "status");
            whole.as_object_mut().unwrap().retain(|field, _| field != missing && field != "status");
            assert_eq!(refused_field(content(&whole.to_string())), missing);
        }
        let long = format!(r#"{{"{}": 1}}"#, long(1_000));
        assert_eq!(refused_field(content(&long)).chars().count(), 81);
    }

    #[test]
    fn null_removes_a_title_but_no_rating() {
        assert_eq!(patch("{}").unwrap(), CommentPatch::default());
        let removed = patch(r#"{"title": null, "author": "A"}"#).unwrap();
        assert_eq!((removed.title, removed.author), (Some(None), Some(Some("A".to_owned()))));
        assert_eq!(patch(r#"{"status": "hidden"}"#).unwrap().status, Some(Status::Hidden));
        assert_eq!(refused_field(patch(r#"{"status": "shown"}"#)), "status");
        for field in ["language", "rating", "body", "status"] {
            assert_eq!(refused_field(patch(&format!(r#"{{"{field}": null}}"#))), field);
        }
    }
}
