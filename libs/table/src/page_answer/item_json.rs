//! Items in DynamoDB's JSON, `{"rating": {"N": "4"}, …}`, read directly into `model`'s types.

use std::{borrow::Cow, fmt, marker::PhantomData};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor,
        value::{BytesDeserializer, MapAccessDeserializer},
    },
};

/// The content of an item, read as `serde_dynamo` reads it
/// (`items_are_read_as_serde_dynamo_reads_them`), except that a number must be whole, not negative
/// and within 64 bits. Both readers accept the same items as comments
/// (`pages_and_functions_agree_on_what_is_valid`).
#[derive(Debug)]
pub(super) struct ItemJson<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ItemJson<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Attributes(PhantomData).deserialize(deserializer).map(Self)
    }
}

struct Attributes<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Attributes<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Attributes<S> {
    type Value = S::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attributes by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, attributes: A) -> Result<S::Value, A::Error> {
        self.0
            .deserialize(MapAccessDeserializer::new(Values(attributes)))
    }
}

/// The attributes' values without their types.
struct Values<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Values<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(Value(seed))
    }
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum Type {
    B,
    M,
    N,
    #[serde(rename = "NULL")]
    Null,
    #[serde(other)]
    Other,
}

struct Value<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Value<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Value<S> {
    type Value = S::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an attribute's type and value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut typed: A) -> Result<S::Value, A::Error> {
        let kind: Type = typed
            .next_key()?
            .ok_or_else(|| A::Error::custom("an attribute has no type"))?;
        match kind {
            Type::M => typed.next_value_seed(Attributes(self.0)),
            Type::N => {
                let number: JsonText<'de> = typed.next_value()?;
                match (number.0.parse::<u64>(), number.0.parse::<f64>()) {
                    (Ok(number), _) => self.0.deserialize(number.into_deserializer()),
                    // A field that needs a whole number or a text refuses this value; an attribute
                    // that no field reads may hold any.
                    (Err(_), Ok(number)) => self.0.deserialize(number.into_deserializer()),
                    (Err(_), Err(_)) => Err(A::Error::custom("a number is none")),
                }
            }
            Type::B => {
                let text: JsonText<'de> = typed.next_value()?;
                let bytes = BASE64_STANDARD
                    .decode(text.0.as_bytes())
                    .map_err(|_| A::Error::custom("a binary value is not Base64"))?;
                self.0.deserialize(BytesDeserializer::new(&bytes))
            }
            Type::Null => {
                typed.next_value::<IgnoredAny>()?;
                self.0.deserialize(().into_deserializer())
            }
            Type::Other => typed.next_value_seed(self.0),
        }
    }
}

#[derive(Deserialize)]
struct JsonText<'text>(#[serde(borrow)] Cow<'text, str>);

#[cfg(test)]
mod tests {
    use model::{
        BlobFormat, Comment, CommentBlob, CommentText, Status,
        item::{CommentItem, comment_of, comment_of_primary, edited},
    };
    use serde_dynamo::{AttributeValue, Item};
    use serde_json::json;

    use super::*;

    fn item(format: BlobFormat, body: &str) -> Item {
        let text = CommentText {
            title: None,
            body: Some(body.to_owned()),
            author: Some("Ann \\ \"☕\"".to_owned()),
        };
        let comment_blob = CommentBlob::new(&text, format);
        let item = CommentItem {
            pk: "COMMENT#c1".to_owned(),
            sk: "PRODUCT#p/~/~".to_owned(),
            cd: Some("2024-02-29T12:00:00.123Z#c1".to_owned()),
            language: "en".to_owned(),
            rating: 4,
            revision: Some("01HQTBRNKV0000000000000007".to_owned()),
            comment_blob,
            auto: None,
            shard: Some("49".to_owned()),
            pcd: Some("p#2024-02-29T12:00:00.123Z#c1".to_owned()),
            attributes: Some(r#"{"n":1.0}"#.to_owned()),
            author_id: Some("u-7".to_owned()),
            unpublished: None,
            unpublished_cd: None,
        };
        serde_dynamo::to_item(item).unwrap()
    }

    fn read(json: &serde_json::Value) -> Result<CommentItem, serde_json::Error> {
        serde_json::from_str::<ItemJson<CommentItem>>(&json.to_string()).map(|item| item.0)
    }

    #[test]
    fn attributes_that_nobody_asks_for_do_not_matter() {
        let item = item(BlobFormat::Map, "Fine.");
        let expected: CommentItem = serde_dynamo::from_item(item.clone()).unwrap();
        let mut json = serde_json::to_value(&item).unwrap();
        for (name, value) in [
            ("text", json!({ "S": "kept" })),
            ("number", json!({ "N": "-1.5E+3" })),
            ("binary", json!({ "B": "AAE=" })),
            ("flag", json!({ "BOOL": false })),
            ("nothing", json!({ "NULL": true })),
            (
                "list",
                json!({ "L": [{ "S": "a" }, { "M": { "b": { "N": "1" } } }] }),
            ),
            (
                "map",
                json!({ "M": { "a": { "L": [] }, "b": { "M": {} } } }),
            ),
            ("texts", json!({ "SS": ["a", "b"] })),
            ("numbers", json!({ "NS": ["1", "2.5"] })),
            ("binaries", json!({ "BS": ["AAE="] })),
        ] {
            json[name] = value;
        }
        assert_eq!(read(&json).unwrap(), expected);
    }

    fn text(text: &str) -> AttributeValue {
        AttributeValue::S(text.to_owned())
    }

    fn number(number: &str) -> AttributeValue {
        AttributeValue::N(number.to_owned())
    }

    /// A comment's text with another value under one name.
    fn map(name: &str, value: AttributeValue) -> AttributeValue {
        AttributeValue::M([("body".to_owned(), text("Fine.")), (name.to_owned(), value)].into())
    }

    fn any_values() -> Vec<Option<AttributeValue>> {
        let plain = [
            text("c2"),
            text("01HQTBRNKV0000000000000008"),
            text("ko"),
            text("{}"),
            text("KO"),
            text(""),
            text("2024-02-29T12:00:00.123Z#c2"),
            text("2024-02-29T12:00:01.123Z#c1"),
            text("pending"),
            text("published"),
            text("PRODUCT#p/en/4"),
            number("4"),
            number("0"),
            number("6"),
            number("-1"),
            number("4.5"),
            number("1e30"),
            AttributeValue::Bool(true),
            AttributeValue::Null(true),
            AttributeValue::B(b"en".to_vec()),
            AttributeValue::B(vec![7]),
            AttributeValue::L(vec![text("en")]),
            AttributeValue::M([].into()),
            AttributeValue::Ss(vec!["en".to_owned()]),
            AttributeValue::Ns(vec!["4".to_owned()]),
            AttributeValue::Bs(vec![b"en".to_vec()]),
        ];
        let mut values = vec![None];
        for value in plain {
            for name in ["title", "body", "unknown"] {
                values.push(Some(map(name, value.clone())));
            }
            values.push(Some(value));
        }
        values
    }

    /// A valid item, published or not.
    fn good(format: BlobFormat, status: Status) -> Item {
        let item = item(format, &"the same again and ".repeat(50));
        edited(
            item.clone(),
            &Comment {
                status,
                ..comment_of(&item).unwrap()
            },
            format,
        )
        .unwrap()
    }

    const NAMES: [&str; 14] = [
        "attributes",
        "author_id",
        "pk",
        "sk",
        "cd",
        "language",
        "rating",
        "revision",
        "comment_blob",
        "auto",
        "shard",
        "pcd",
        "unpublished",
        "unpublished_cd",
    ];

    #[test]
    fn pages_and_functions_agree_on_what_is_valid() {
        let mut counts = [0; 2];
        let formats = [BlobFormat::Map, BlobFormat::Zstd].into_iter();
        for (format, status) in
            formats.flat_map(|format| Status::ALL.map(|status| (format, status)))
        {
            let good = good(format, status);
            for name in NAMES {
                for value in any_values() {
                    let mut attributes = good.clone().into_inner();
                    match value.clone() {
                        Some(value) => attributes.insert(name.to_owned(), value),
                        None => attributes.remove(name),
                    };
                    let item = Item::from(attributes);
                    let expected = comment_of(&item);
                    let found =
                        read(&serde_json::to_value(&item).unwrap()).map(CommentItem::into_comment);
                    assert_eq!(
                        found.ok().and_then(Result::ok),
                        expected.clone().ok(),
                        "{name} {value:?}"
                    );
                    // For an item under the key of a primary item, the handlers and the repair job
                    // give an equal verdict.
                    if name != "sk" {
                        assert_eq!(
                            comment_of_primary(&item).is_ok(),
                            expected.is_ok(),
                            "{name} {value:?}"
                        );
                    }
                    counts[usize::from(expected.is_ok())] += 1;
                }
            }
        }
        assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
    }

    #[test]
    fn a_broken_item_is_refused_without_repeating_its_text() {
        let good = serde_json::to_value(item(BlobFormat::Map, "Fine.")).unwrap();
        for (name, value) in [
            ("pk", AttributeValue::N("1".to_owned())),
            ("rating", AttributeValue::N("4.5".to_owned())),
            ("rating", AttributeValue::S("4".to_owned())),
            (
                "comment_blob",
                AttributeValue::S("said in confidence".to_owned()),
            ),
            (
                "comment_blob",
                AttributeValue::M([("body".to_owned(), AttributeValue::Bool(true))].into()),
            ),
        ] {
            let mut json = good.clone();
            json[name] = serde_json::to_value(&value).unwrap();
            let error = read(&json).unwrap_err();
            assert!(
                error.is_data() && !error.to_string().contains("confidence"),
                "{name}: {error}"
            );
        }
        for value in [json!({}), json!("text"), json!({ "B": "not Base64" })] {
            let mut json = good.clone();
            json["comment_blob"] = value;
            assert!(read(&json).unwrap_err().is_data());
        }
    }
}
