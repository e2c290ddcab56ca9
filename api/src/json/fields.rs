//! Bodies of writes: what fields they have, how the OpenAPI document describes them, and how they are read. Every field
//! is checked, and none is ignored.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use actix_web::{HttpRequest, web};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::{CommentText, Language, ProductId, Rating};
use serde::{
    Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use table::{CommentPatch, Idempotency};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::AdditionalProperties},
};

use super::schema;
use crate::{
    error::ApiError,
    http::body::{self, BODY_MAX_BYTES},
    secrets::WriteTokenHash,
};

/// The name, the schema and the description of a field.
type Field = (&'static str, fn() -> ObjectBuilder, Option<&'static str>);

/// The fields of a comment that a client may set.
const FIELDS: [Field; 5] = [
    ("language", schema::language, Some("The language it is written in: a BCP 47 tag")),
    ("rating", schema::rating, None),
    (
        "title",
        || schema::optional_line(CommentText::TITLE_MAX_CHARS),
        Some("One line; without a visible character it is none"),
    ),
    (
        "body",
        schema::body,
        Some("The text, with at least one visible character; line breaks and tabs are its only control characters"),
    ),
    (
        "author",
        || schema::optional_line(CommentText::AUTHOR_MAX_CHARS),
        Some("The name to show, one line; without a visible character it is none"),
    ),
];

fn fields_schema() -> ObjectBuilder {
    let schema = ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(false)));
    FIELDS
        .into_iter()
        .fold(schema, |all, (name, schema, description)| all.property(name, schema().description(description)))
}

/// The content of a new comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewContent {
    pub(crate) language: Language,
    pub(crate) rating: Rating,
    pub(crate) text: CommentText,
}

impl NewContent {
    /// Reads the content from the body of a request.
    pub(crate) async fn read(request: &HttpRequest, payload: web::Payload) -> Result<Self, ApiError> {
        let body = body::read(request, payload, &["application/json"], BODY_MAX_BYTES).await?;
        Self::of_fields(&Fields::parse(&body)?)
    }

    /// The content in the fields of a form, none of them twice. All are texts except the rating, which is a number.
    /// Empty ones were not filled in.
    ///
    /// # Errors
    /// Names the field that is missing or wrong.
    pub(crate) fn of_form<const N: usize>(fields: [(&str, &str); N]) -> Result<Self, ApiError> {
        let filled_in = fields.into_iter().filter(|(_, text)| !text.is_empty());
        let fields = filled_in.map(|(name, text)| match text.parse::<u64>() {
            Ok(number) if name == "rating" => (name.to_owned(), Value::from(number)),
            // Forms send line feeds with carriage returns.
            _ => (name.to_owned(), Value::from(text.replace("\r\n", "\n"))),
        });
        Self::of_fields(&Fields(fields.collect()))
    }

    fn of_fields(fields: &Fields) -> Result<Self, ApiError> {
        let CommentPatch { language, rating, title, body, author } = fields.check()?;
        let missing = |field: &'static str| move || ApiError::invalid(field, "is missing");
        let language = language.ok_or_else(missing("language"))?;
        let rating = rating.ok_or_else(missing("rating"))?;
        let body = body.ok_or_else(missing("body"))?;
        Ok(Self { language, rating, text: CommentText { title: title.flatten(), body, author: author.flatten() } })
    }

    /// What identifies a request to create this content, however it is spelled. A key counts only together with the
    /// token that it was sent with.
    pub(crate) fn idempotency(
        &self,
        product: &ProductId,
        writer: WriteTokenHash,
        key: String,
    ) -> Result<Idempotency, ApiError> {
        let request =
            serde_json::to_vec(&(product, &self.language, self.rating, &self.text)).map_err(ApiError::internal)?;
        let body_hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(request));
        Ok(Idempotency { client: writer.to_string(), key, body_hash })
    }
}

impl PartialSchema for NewContent {
    fn schema() -> RefOr<Schema> {
        let example = json!({
            "language": "en", "rating": 5, "title": "Well made", "body": "Two years, every day.\nNo trouble.",
            "author": "Ada",
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

/// A change of a comment, by the rules of JSON Merge Patch (RFC 7396): null removes.
pub(crate) struct CommentChange;

impl CommentChange {
    /// Reads the change from the body of a request.
    pub(crate) async fn read(request: &HttpRequest, payload: web::Payload) -> Result<CommentPatch, ApiError> {
        let accepted = &["application/json", "application/merge-patch+json"];
        Fields::parse(&body::read(request, payload, accepted, BODY_MAX_BYTES).await?)?.check()
    }
}

impl PartialSchema for CommentChange {
    fn schema() -> RefOr<Schema> {
        let description =
            "JSON Merge Patch (RFC 7396): fields that are left out stay, null removes a title or an author.";
        fields_schema().description(Some(description)).examples([json!({ "rating": 4, "title": null })]).into()
    }
}

impl ToSchema for CommentChange {}

/// The fields of a JSON object, none of them twice.
#[derive(Debug)]
struct Fields(BTreeMap<String, Value>);

impl Fields {
    fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let fields = json.deserialize_map(FieldsVisitor).and_then(|fields| json.end().map(|()| fields));
        fields.map_err(|error| ApiError::BrokenBody(error.to_string()))
    }

    /// The fields as a change: those that are missing stay as they are.
    ///
    /// # Errors
    /// Names the field that is wrong or unknown.
    fn check(&self) -> Result<CommentPatch, ApiError> {
        if let Some(unknown) = self.0.keys().find(|name| !FIELDS.iter().any(|(known, ..)| known == name)) {
            let problem =
                format!("is not a field that can be set; there are {}", FIELDS.map(|(name, ..)| name).join(", "));
            return Err(ApiError::invalid(unknown.clone(), problem));
        }
        let text = |field| self.0.get(field).map(|value| parse_text(field, value)).transpose();
        let optional = |field| match self.0.get(field) {
            Some(Value::Null) => Ok(Some(None)),
            Some(_) | None => Ok::<_, ApiError>(text(field)?.map(Some)),
        };
        let body = text("body")?;
        Ok(CommentPatch {
            language: text("language")?.map(|tag| Language::parse(&tag)).transpose()?,
            rating: self.0.get("rating").map(parse_rating).transpose()?,
            title: optional("title")?.map(CommentText::new_title).transpose()?,
            body: body.map(CommentText::new_body).transpose()?,
            author: optional("author")?.map(CommentText::new_author).transpose()?,
        })
    }
}

fn parse_rating(value: &Value) -> Result<Rating, ApiError> {
    // To JSON, 4 and 4.0 are the same number.
    value.as_f64().and_then(|number| Rating::of_number(number).ok()).ok_or_else(|| {
        ApiError::invalid("rating", format!("{} is not a rating: the number 1, 2, 3, 4 or 5", shown(value)))
    })
}

fn parse_text(field: &'static str, value: &Value) -> Result<String, ApiError> {
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

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if fields.insert(name, value).is_some() {
                return Err(A::Error::custom("a field occurs twice"));
            }
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json::tests::refused_field, secrets::WriteToken};

    fn content(json: &str) -> Result<NewContent, ApiError> {
        NewContent::of_fields(&Fields::parse(json.as_bytes())?)
    }

    fn patch(json: &str) -> Result<CommentPatch, ApiError> {
        Fields::parse(json.as_bytes())?.check()
    }

    #[test]
    fn every_wrong_field_is_named() {
        for (field, value) in [
            ("rating", "\"5\""),
            ("rating", "true"),
            ("rating", "18446744073709551616"),
            ("language", "1"),
            ("language", "{}"),
            ("title", "1"),
            ("body", "5"),
            ("body", "\" \""),
            ("body", "\"a\\u0000\""),
            ("author", "[]"),
            ("id", "\"x\""),
        ] {
            let good = [("language", "\"en\""), ("rating", "5"), ("body", "\"b\"")];
            let others = good.into_iter().filter(|(name, _)| *name != field);
            let all = others.chain([(field, value)]).map(|(name, value)| format!("\"{name}\": {value}"));
            let json = format!("{{{}}}", all.collect::<Vec<_>>().join(", "));
            assert_eq!(refused_field(content(&json)), field, "{json}");
        }
        assert!(matches!(content(r#"{"rating": 1e400}"#), Err(ApiError::BrokenBody(_))), "by the parser of JSON");
        let long = format!(r#"{{"{}": 1}}"#, "x".repeat(1_000));
        assert_eq!(refused_field(content(&long)).chars().count(), 81);
    }

    #[test]
    fn a_rating_is_a_number_however_it_is_written() {
        for rating in ["4", "4.0", "0.4e1"] {
            let json = format!(r#"{{"language": "en", "rating": {rating}, "body": "b"}}"#);
            assert_eq!(content(&json).unwrap().rating, Rating::new(4).unwrap());
        }
    }

    #[test]
    fn broken_json_is_refused_with_its_position() {
        let problem = |json: &str| match content(json) {
            Err(ApiError::BrokenBody(problem)) => problem,
            other => panic!("{other:?}"),
        };
        assert_eq!(problem("{\n\"rating\": }"), "expected value at line 2 column 11");
        assert!(problem("").contains("line 1"));
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
            r#"{{ "{}": "{}", "{}": 5.0e0, "{}": "{}", "{}": "{}", "{}": "{}" }}"#,
            name("language"),
            name(&language),
            name("rating"),
            name("title"),
            escaped(CommentText::TITLE_MAX_CHARS),
            name("body"),
            escaped(CommentText::BODY_MAX_CHARS),
            name("author"),
            escaped(CommentText::AUTHOR_MAX_CHARS),
        );
        assert!(json.len() <= BODY_MAX_BYTES, "{} bytes", json.len());
        let content = content(&json).unwrap();
        assert_eq!(content.text.body, "😀".repeat(CommentText::BODY_MAX_CHARS));
        assert!(json.len() > BODY_MAX_BYTES - 8 * 1024, "the limit is no larger than it has to be: {}", json.len());
    }

    #[test]
    fn the_hash_of_a_request_does_not_depend_on_its_spelling() {
        let hash_for = |product: &str, json: &str| {
            let (product, writer) =
                (ProductId::parse(product).unwrap(), "secret".parse::<WriteToken>().unwrap().hash());
            content(json).unwrap().idempotency(&product, writer, "key".to_owned()).unwrap().body_hash
        };
        let hash = |json| hash_for("p", json);
        let one = hash(r#"{"language": "PT-br", "rating": 5, "body": "b", "title": null, "author": ""}"#);
        assert_eq!(one, hash(r#"{"body":"\u0062","rating":5,"language":"pt-BR"}"#));
        assert_ne!(one, hash(r#"{"body":"b","rating":4,"language":"pt-BR"}"#));
        assert_ne!(one, hash_for("q", r#"{"body":"b","rating":5,"language":"pt-BR"}"#));
    }

    #[test]
    fn null_removes_a_title_but_no_rating() {
        assert_eq!(patch("{}").unwrap(), CommentPatch::default());
        let removed = patch(r#"{"title": null, "author": "A"}"#).unwrap();
        assert_eq!((removed.title, removed.author), (Some(None), Some(Some("A".to_owned()))));
        for field in ["language", "rating", "body"] {
            assert_eq!(refused_field(patch(&format!(r#"{{"{field}": null}}"#))), field);
        }
    }
}
