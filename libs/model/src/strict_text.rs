//! Texts of stored items. A text is read only from a text: `String` alone would accept bytes too.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

pub(crate) fn strict_text<'de, D: Deserializer<'de>, T: From<String>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_string(TextVisitor).map(T::from)
}

pub(crate) fn strict_optional_text<'de, D: Deserializer<'de>, T: From<String>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    struct StrictText(#[serde(deserialize_with = "strict_text")] String);
    Ok(Option::<StrictText>::deserialize(deserializer)?.map(|StrictText(text)| text.into()))
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<String, E> {
        Ok(text)
    }
}
