//! Bodies of writes: read within bounds, every field checked, nothing ignored.

use std::{collections::BTreeMap, fmt, time::Duration};

use actix_web::{HttpRequest, http::header, web};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::{CommentText, Language, ProductId, Rating};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use table::CommentPatch;

use crate::{error::ApiError, http::last_answer, store::State};

/// The most bytes that a character of a text takes in a body. In JSON, a character beyond the Basic Multilingual Plane
/// may be two escapes (`\ud83d\ude00`). In a form, each of its four bytes may be percent-encoded (`%F0%9F%98%80`).
const CHAR_MAX_BYTES: usize = 12;

/// The most bytes of the rest of a body: the other fields, the fields' names, white space.
const OVERHEAD_BYTES: usize = 4 * 1024;

/// The largest body, in whole KiB. It holds the longest allowed texts, however they are encoded.
pub(crate) const BODY_MAX_BYTES: usize =
    (CommentText::MAX_CHARS * CHAR_MAX_BYTES + OVERHEAD_BYTES).next_multiple_of(1024);

/// The longest that a body may take to arrive.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The fields of a comment that a client may set.
const FIELDS: [&str; 5] = ["language", "rating", "title", "body", "author"];

/// The fields of a JSON object, none of them twice.
#[derive(Debug)]
pub(crate) struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// Reads the body of a request, which must be sent as one of the media types `accepted`.
    ///
    /// # Errors
    /// Another media type, too large, too slow, no JSON object, or an unknown field.
    pub(crate) async fn read(
        request: &HttpRequest,
        payload: web::Payload,
        accepted: &'static [&'static str],
    ) -> Result<Self, ApiError> {
        Self::parse(&read(request, payload, accepted, BODY_MAX_BYTES).await?)
    }

    /// The fields of a form. All are texts except the rating, which is a number. Empty ones were not filled in.
    ///
    /// # Errors
    /// Names the field that is unknown or given twice.
    pub(crate) fn of_form(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, ApiError> {
        let mut fields = BTreeMap::new();
        for (name, text) in pairs.into_iter().filter(|(_, text)| !text.is_empty()) {
            let value = match text.parse::<u64>() {
                Ok(number) if name == "rating" => Value::from(number),
                // Forms send line feeds with carriage returns.
                _ => Value::from(text.replace("\r\n", "\n")),
            };
            if fields.insert(name.clone(), value).is_some() {
                return Err(ApiError::invalid(name, "is given more than once"));
            }
        }
        Self::known(fields)
    }
    fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let Self(fields) = serde_json::from_slice(body).map_err(|error| ApiError::BrokenBody(error.to_string()))?;
        Self::known(fields)
    }

    fn known(fields: BTreeMap<String, Value>) -> Result<Self, ApiError> {
        match fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            None => Ok(Self(fields)),
            Some(unknown) => {
                let problem = format!("is not a field that can be set; there are {}", FIELDS.join(", "));
                Err(ApiError::invalid(unknown.clone(), problem))
            }
        }
    }

    fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// The content of a new comment.
    ///
    /// # Errors
    /// Names the field that is missing or wrong.
    pub(crate) fn content(&self) -> Result<Content, ApiError> {
        let required = |field: &'static str| self.get(field).ok_or_else(|| ApiError::invalid(field, "is missing"));
        let language = parse_language(required("language")?)?;
        let rating = parse_rating(required("rating")?)?;
        let body = parse_text("body", required("body")?)?;
        let optional = |field| self.get(field).map_or(Ok(None), |value| parse_optional_text(field, value));
        let text = CommentText::new(optional("title")?, body, optional("author")?)?;
        Ok(Content { language, rating, text })
    }

    /// A change of a comment, by the rules of JSON Merge Patch (RFC 7396): null removes.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub(crate) fn patch(&self) -> Result<CommentPatch, ApiError> {
        let optional = |field| self.get(field).map(|value| parse_optional_text(field, value)).transpose();
        let body = self.get("body").map(|value| parse_text("body", value)).transpose()?;
        Ok(CommentPatch {
            language: self.get("language").map(parse_language).transpose()?,
            rating: self.get("rating").map(parse_rating).transpose()?,
            title: optional("title")?.map(CommentText::new_title).transpose()?,
            body: body.map(CommentText::new_body).transpose()?,
            author: optional("author")?.map(CommentText::new_author).transpose()?,
        })
    }
}

/// The content of a new comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) language: Language,
    pub(crate) rating: Rating,
    pub(crate) text: CommentText,
}

impl Content {
    /// A hash of the whole content of a request to create a comment, independent of its spelling.
    pub(crate) fn hash(&self, product: &ProductId) -> Result<String, ApiError> {
        let said =
            serde_json::to_vec(&(product, &self.language, self.rating, &self.text)).map_err(ApiError::internal)?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(said)))
    }
}

/// Reads the body of a request, of at most `max_bytes`, which must be sent as one of the media types `accepted`.
///
/// # Errors
/// Another media type, too large, or too slow.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    accepted: &'static [&'static str],
    max_bytes: usize,
) -> Result<web::Bytes, ApiError> {
    check_media_type(request, accepted)?;
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length > max_bytes) {
        return Err(ApiError::BodyTooLarge { max_bytes });
    }
    let state = request.app_data::<web::Data<State>>();
    let timeout = state.map_or(BODY_TIMEOUT, |state| state.body_timeout);
    last_answer::body_begins(request);
    let body = tokio::time::timeout(timeout, payload.to_bytes_limited(max_bytes))
        .await
        .map_err(|_| ApiError::BodyTooSlow)?
        .map_err(|_| ApiError::BodyTooLarge { max_bytes })?
        .map_err(|error| ApiError::BrokenBody(error.to_string()))?;
    last_answer::body_was_read(request);
    Ok(body)
}

fn check_media_type(request: &HttpRequest, accepted: &'static [&'static str]) -> Result<(), ApiError> {
    let sent = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = sent.split(';').next().unwrap_or_default().trim();
    let plain = request
        .headers()
        .get(header::CONTENT_ENCODING)
        .is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    match accepted.iter().any(|accepted| accepted.eq_ignore_ascii_case(media_type)) && plain {
        true => Ok(()),
        false => Err(ApiError::UnsupportedMediaType { accepted: accepted.first().copied().unwrap_or_default() }),
    }
}

fn parse_language(value: &Value) -> Result<Language, ApiError> {
    Ok(Language::parse(&parse_text("language", value)?)?)
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

fn parse_optional_text(field: &'static str, value: &Value) -> Result<Option<String>, ApiError> {
    if value.is_null() { Ok(None) } else { parse_text(field, value).map(Some) }
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

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
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

        deserializer.deserialize_map(FieldsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of<T: fmt::Debug>(result: Result<T, ApiError>) -> String {
        match result {
            Err(ApiError::Invalid { field, .. }) => field.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn content(json: &str) -> Result<Content, ApiError> {
        Fields::parse(json.as_bytes())?.content()
    }

    fn patch(json: &str) -> Result<CommentPatch, ApiError> {
        Fields::parse(json.as_bytes())?.patch()
    }

    #[test]
    fn every_wrong_field_is_named() {
        for rating in
            ["0", "6", "4.5", "\"five\"", "\"5\"", "null", "[]", "true", "-1", "1e400", "18446744073709551616"]
        {
            let json = format!(r#"{{"language": "en", "rating": {rating}, "body": "b"}}"#);
            match content(&json) {
                Err(ApiError::Invalid { field, .. }) => assert_eq!(field, "rating", "{rating}"),
                // JSON's own parser refuses this number.
                Err(ApiError::BrokenBody(_)) => assert_eq!(rating, "1e400"),
                other => panic!("{rating}: {other:?}"),
            }
        }
        for language in ["\"e\"", "\"en_US\"", "1", "null", "{}"] {
            let json = format!(r#"{{"language": {language}, "rating": 5, "body": "b"}}"#);
            assert_eq!(field_of(content(&json)), "language", "{language}");
        }
        assert_eq!(field_of(content(r#"{"rating": 5, "body": "b"}"#)), "language");
        assert_eq!(field_of(content(r#"{"language": "en", "body": "b"}"#)), "rating");
        assert_eq!(field_of(content(r#"{"language": "en", "rating": 5}"#)), "body");
        assert_eq!(field_of(content(r#"{"language": "en", "rating": 5, "body": 5}"#)), "body");
        assert_eq!(field_of(content(r#"{"language": "en", "rating": 5, "body": " "}"#)), "body");
        assert_eq!(field_of(content(r#"{"language": "en", "rating": 5, "body": "a\u0000"}"#)), "body");
        assert_eq!(field_of(content(r#"{"language": "en", "rating": 5, "body": "b", "title": 1}"#)), "title");
        assert_eq!(field_of(content(r#"{"language": "en", "rating": 5, "body": "b", "author": []}"#)), "author");
        assert_eq!(field_of(content(r#"{"language": "en", "rating": 5, "body": "b", "id": "x"}"#)), "id");
        let long = format!(r#"{{"{}": 1}}"#, "x".repeat(1_000));
        assert_eq!(field_of(content(&long)).chars().count(), 81);
    }

    #[test]
    fn a_rating_is_a_number_however_it_is_written() {
        for rating in ["4", "4.0", "0.4e1"] {
            let json = format!(r#"{{"language": "en", "rating": {rating}, "body": "b"}}"#);
            assert_eq!(content(&json).unwrap().rating, Rating::new(4).unwrap());
        }
    }

    #[test]
    fn broken_json_is_told_with_its_position() {
        let told = |json: &str| match content(json) {
            Err(ApiError::BrokenBody(told)) => told,
            other => panic!("{other:?}"),
        };
        assert_eq!(told("{\n\"rating\": }"), "expected value at line 2 column 11");
        assert!(told("").contains("line 1"));
        assert!(told("[1]").contains("expected an object"));
        assert!(told(r#"{"rating": 1, "rating": 2}"#).contains("twice"));
        assert!(told(r#"{"body": "\ud800"}"#).contains("line 1"));
        assert!(told(&"[".repeat(10_000)).contains("expected an object"));
        assert!(told(&format!("{{\"body\": {}", "[".repeat(10_000))).contains("recursion limit"));
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
    fn spelling_does_not_change_what_a_request_says() {
        let product = ProductId::parse("p").unwrap();
        let hash = |json: &str| content(json).unwrap().hash(&product).unwrap();
        let one = hash(r#"{"language": "PT-br", "rating": 5, "body": "b", "title": null, "author": ""}"#);
        assert_eq!(one, hash(r#"{"body":"\u0062","rating":5,"language":"pt-BR"}"#));
        assert_ne!(one, hash(r#"{"body":"b","rating":4,"language":"pt-BR"}"#));
        let other = ProductId::parse("q").unwrap();
        assert_ne!(one, content(r#"{"body":"b","rating":5,"language":"pt-BR"}"#).unwrap().hash(&other).unwrap());
    }

    #[test]
    fn null_removes_a_title_but_no_rating() {
        assert_eq!(patch("{}").unwrap(), CommentPatch::default());
        let removed = patch(r#"{"title": null, "author": "A"}"#).unwrap();
        assert_eq!((removed.title, removed.author), (Some(None), Some(Some("A".to_owned()))));
        for field in ["language", "rating", "body"] {
            assert_eq!(field_of(patch(&format!(r#"{{"{field}": null}}"#))), field);
        }
    }

    #[test]
    fn a_change_is_refused_for_its_texts_before_the_comment_is_looked_at() {
        for (field, text) in [("title", "a\\nb"), ("body", "\u{200b}"), ("author", "\\u0007")] {
            assert_eq!(field_of(patch(&format!(r#"{{"{field}": "{text}"}}"#))), field);
        }
        assert_eq!(patch(r#"{"title": " "}"#).unwrap().title, Some(None));
    }
}
