//! Bodies of writes: JSON objects of which every field is checked, and none is ignored.
//!
//! The schema of a body names its fields: it describes them in the OpenAPI document, and no others
//! are accepted.

use std::{collections::BTreeMap, fmt};

use actix_web::{HttpRequest, web};
use model::CommentAttributes;
use serde::{
    Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use utoipa::{
    PartialSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::AdditionalProperties},
};

use crate::{error::ApiError, http::body};

/// An object with these fields, each with its description, and no others.
pub(super) fn object<const N: usize>(fields: [(&str, ObjectBuilder, &str); N]) -> ObjectBuilder {
    let mut object =
        ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(false)));
    for (name, field, description) in fields {
        let description = Some(description).filter(|description| !description.is_empty());
        object = object.property(name, field.description(description));
    }
    object
}

/// The fields of a body, with their values. The value of `attributes` is a text: its JSON as it was
/// sent.
pub(super) struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// Reads the fields of a `Body`, which is sent as one of the media types `accepted`.
    ///
    /// # Errors
    /// Names the field that the body does not have.
    pub(super) async fn read<Body: PartialSchema>(
        request: &HttpRequest,
        payload: web::Payload,
        accepted: &'static [&'static str],
    ) -> Result<Self, ApiError> {
        Self::parse::<Body>(&body::read(request, payload, accepted).await?)
    }

    /// The fields of a JSON object, none of them twice.
    pub(super) fn parse<Body: PartialSchema>(body: &[u8]) -> Result<Self, ApiError> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let fields = json
            .deserialize_map(FieldsVisitor)
            .and_then(|fields| json.end().map(|()| fields));
        let fields = fields.map_err(|error| ApiError::BrokenBody(error.to_string()))?;
        let known = names(&Body::schema());
        match fields.keys().find(|name| !known.contains(name)) {
            Some(name) => {
                let problem = format!(
                    "is not a field that can be set; there are {}",
                    known.join(", ")
                );
                Err(ApiError::invalid(name.clone(), problem))
            }
            None => Ok(Self(fields)),
        }
    }

    pub(super) fn value(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// A text that cannot be null. `None` if it is left out.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<String>, ApiError> {
        match self.value(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Null) => Err(ApiError::invalid(
                field,
                "is null, but it cannot be left out or removed",
            )),
            Some(other) => Err(ApiError::invalid(
                field,
                format!("must be a text, not {}", shown(other)),
            )),
        }
    }

    /// A text that may be null: that is `Some(None)`.
    pub(super) fn text_or_null(
        &self,
        field: &'static str,
    ) -> Result<Option<Option<String>>, ApiError> {
        match self.value(field) {
            Some(Value::Null) => Ok(Some(None)),
            _ => Ok(self.text(field)?.map(Some)),
        }
    }
}

fn names(schema: &RefOr<Schema>) -> Vec<String> {
    match schema {
        RefOr::T(Schema::Object(object)) => object.properties.keys().cloned().collect(),
        RefOr::T(_) | RefOr::Ref(_) => Vec::new(),
    }
}

/// A value in a form that a message may repeat.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.chars().nth(40).is_some() => "a long text".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = BTreeMap<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = BTreeMap::new();
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
