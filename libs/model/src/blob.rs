//! The attribute `comment_blob`: a comment's text as a map, or compressed.
//!
//! - A **map** holds the fields by name. It is the default, because it is legible in the console.
//! - A **binary** value begins with a format byte, which says how to read the rest. Byte 1 is one
//!   zstd frame (RFC 8878) without a dictionary, which states the size of its content. The content
//!   is the title, the author and the body; the first two follow their lengths. Another encoding
//!   takes another byte. A byte never gets a second meaning.
//!
//! **Invariant:** the format for writing is a setting; reading depends on no setting. Every version
//! reads all formats that earlier versions wrote, so one table may hold items of all formats
//! (`tests/writing/payloads.rs`).
//!
//! **Invariant:** reading takes no more memory than [`TEXT_BYTES_MAX`], even if the bytes claim
//! more.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_dynamo::AttributeValue;
use strum::{Display, EnumString};
use zstd::zstd_safe;

use crate::{comment::CommentText, error::Malformed, size::value_bytes};

/// The most bytes that a compressed text may hold. The longest legal text, in characters of four
/// bytes, has 41,200 bytes, and two lengths of two bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The level of compression. Texts are so short that levels hardly differ in size; the table in
/// docs/payloads.md gives the cost of each.
const ZSTD_LEVEL: i32 = 3;

const ZSTD: u8 = 1;

/// The format in which `comment_blob` is written. This setting does not affect reading: every
/// format is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownFormat, parse_err_fn = unknown_format)]
pub enum BlobFormat {
    #[default]
    Map,
    /// Compressed where that makes the attribute smaller, else a map: texts below some 100 bytes
    /// hardly shrink.
    Zstd,
}

type UnknownFormat = &'static str;

fn unknown_format(_: &str) -> UnknownFormat {
    "the format of comment_blob is map or zstd"
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommentBlob {
    Map(CommentText),
    Binary(Vec<u8>),
}

impl CommentBlob {
    /// Encodes the text in `format`. Equal texts and formats give equal values.
    pub fn new(text: &CommentText, format: BlobFormat) -> Self {
        let compressed = match format {
            BlobFormat::Map => None,
            BlobFormat::Zstd => compress(text).filter(|binary| binary.len() < map_bytes(text)),
        };
        match compressed {
            Some(binary) => Self::Binary(binary),
            None => Self::Map(text.clone()),
        }
    }

    /// The error never repeats the value.
    pub fn into_text(self) -> Result<CommentText, Malformed> {
        match self {
            Self::Map(text) => Ok(text),
            Self::Binary(binary) => {
                read_binary(&binary).map_err(|problem| Malformed::new("comment_blob", problem))
            }
        }
    }
}

/// The size of the text as a map, without the attribute's name.
fn map_bytes(text: &CommentText) -> usize {
    let map: Result<AttributeValue, _> = serde_dynamo::to_attribute_value(text);
    match map {
        Ok(map) => value_bytes(&map),
        Err(_) => usize::MAX,
    }
}

/// Compresses the text. `None` when no reader would accept the result, or when the compressor
/// fails, which happens only when memory runs out.
fn compress(text: &CommentText) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    for part in [&text.title, &text.author] {
        // 0 means absent, so that a part that is present but empty stays so.
        let length = match part {
            Some(part) => part.len() + 1,
            None => 0,
        };
        content.extend(u16::try_from(length).ok()?.to_le_bytes());
        content.extend(part.iter().flat_map(|part| part.bytes()));
    }
    content.extend(text.body.iter().flat_map(|body| body.bytes()));
    if content.len() > TEXT_BYTES_MAX {
        return None;
    }
    let frame = zstd::bulk::compress(&content, ZSTD_LEVEL).ok()?;
    Some([&[ZSTD], frame.as_slice()].concat())
}

/// The fields of a text, borrowed from a map.
struct MapText<'map> {
    title: Option<&'map str>,
    body: Option<&'map str>,
    author: Option<&'map str>,
}

fn read_map(fields: &HashMap<String, AttributeValue>) -> Result<MapText<'_>, String> {
    Ok(MapText {
        title: optional_text(fields, "title")?,
        body: optional_text(fields, "body")?,
        author: optional_text(fields, "author")?,
    })
}

fn optional_text<'map>(
    fields: &'map HashMap<String, AttributeValue>,
    name: &str,
) -> Result<Option<&'map str>, String> {
    match fields.get(name) {
        None | Some(AttributeValue::Null(_)) => Ok(None),
        Some(AttributeValue::S(text)) => Ok(Some(text)),
        Some(_) => Err(format!("its {name} is no text")),
    }
}

/// The text in the attribute of an item. The problem never repeats the value.
pub(crate) fn read(value: Option<&AttributeValue>) -> Result<CommentText, String> {
    match value {
        None => Err("is missing".to_owned()),
        Some(AttributeValue::B(binary)) => read_binary(binary),
        Some(AttributeValue::M(fields)) => {
            let text = read_map(fields)?;
            Ok(CommentText {
                title: text.title.map(str::to_owned),
                body: text.body.filter(|body| !body.is_empty()).map(str::to_owned),
                author: text.author.map(str::to_owned),
            })
        }
        Some(_) => Err("is neither a map nor a binary value".to_owned()),
    }
}

/// Whether [`read`] reads the attribute of an item. A map is not copied.
pub(crate) fn check(value: Option<&AttributeValue>) -> Result<(), String> {
    match value {
        Some(AttributeValue::M(fields)) => read_map(fields).map(drop),
        other => read(other).map(drop),
    }
}

/// The text as a map with the unknown keys of a second map; `None` when the other value is not a
/// map, or has no such keys. The compressed format has room only for the text.
pub(crate) fn with_unknown_keys_of(
    old: &AttributeValue,
    text: &CommentText,
) -> Option<AttributeValue> {
    let AttributeValue::M(fields) = old else {
        return None;
    };
    let no_body = String::new();
    let known = [
        ("title", text.title.as_ref()),
        ("body", Some(text.body.as_ref().unwrap_or(&no_body))),
        ("author", text.author.as_ref()),
    ];
    let mut fields = fields.clone();
    fields.retain(|name, _| known.iter().all(|(known, _)| name != known));
    if fields.is_empty() {
        return None;
    }
    let texts = known
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), AttributeValue::S(text?.clone()))));
    fields.extend(texts);
    Some(AttributeValue::M(fields))
}

fn read_binary(binary: &[u8]) -> Result<CommentText, String> {
    match binary.split_first() {
        Some((&ZSTD, frame)) => read_content(&decompress(frame)?),
        Some((byte, _)) => Err(format!(
            "its format byte is {byte}, which this version does not know"
        )),
        None => Err("it is empty, without even a format byte".to_owned()),
    }
}

fn decompress(frame: &[u8]) -> Result<Vec<u8>, String> {
    let Ok(Some(stated)) = zstd_safe::get_frame_content_size(frame) else {
        return Err("it does not begin with a zstd frame that states its size".to_owned());
    };
    let size = usize::try_from(stated)
        .ok()
        .filter(|size| *size <= TEXT_BYTES_MAX);
    let size = size.ok_or_else(|| {
        format!("it claims to hold {stated} bytes, a text has at most {TEXT_BYTES_MAX}")
    })?;
    if zstd_safe::find_frame_compressed_size(frame) != Ok(frame.len()) {
        return Err("its zstd frame is cut off, or something follows it".to_owned());
    }
    // One call into a buffer of the stated size, so a frame that holds more than it states is
    // refused.
    zstd::bulk::decompress(frame, size)
        .map_err(|error| format!("its zstd frame is broken: {error}"))
}

fn read_content(content: &[u8]) -> Result<CommentText, String> {
    let mut rest = content;
    let title = take_part(&mut rest)?;
    let author = take_part(&mut rest)?;
    Ok(CommentText {
        title,
        author,
        body: Some(utf8(rest)?).filter(|body| !body.is_empty()),
    })
}

/// Takes a part and its length from the beginning of the content; `None` for an absent part.
fn take_part(rest: &mut &[u8]) -> Result<Option<String>, String> {
    let (length, after) = rest
        .split_first_chunk()
        .ok_or("its content ends within a length")?;
    *rest = after;
    let Some(length) = u16::from_le_bytes(*length).checked_sub(1) else {
        return Ok(None);
    };
    let (part, after) = rest
        .split_at_checked(length.into())
        .ok_or("a length in its content reaches past the end")?;
    *rest = after;
    Ok(Some(utf8(part)?))
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    // The bytes are a person's text, so the error's message is enough: it names only an offset.
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|error| format!("its content is not UTF-8: {error}"))
}

impl Serialize for CommentBlob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Map(text) => text.serialize(serializer),
            Self::Binary(binary) => serializer.serialize_bytes(binary),
        }
    }
}

impl<'de> Deserialize<'de> for CommentBlob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BlobVisitor)
    }
}

struct BlobVisitor;

impl<'de> Visitor<'de> for BlobVisitor {
    type Value = CommentBlob;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("comment_blob as a map or a binary value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CommentBlob, A::Error> {
        CommentText::deserialize(MapAccessDeserializer::new(map)).map(CommentBlob::Map)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<CommentBlob, E> {
        Ok(CommentBlob::Binary(bytes.to_owned()))
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<CommentBlob, E> {
        Ok(CommentBlob::Binary(bytes))
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<CommentBlob, E> {
        // serde's own message would repeat the text.
        Err(E::custom(
            "comment_blob is a text, it must be a map or a binary value",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(title: Option<&str>, body: &str, author: Option<&str>) -> CommentText {
        CommentText {
            title: title.map(str::to_owned),
            body: Some(body.to_owned()).filter(|body| !body.is_empty()),
            author: author.map(str::to_owned),
        }
    }

    fn long() -> CommentText {
        text(Some("Long"), &"the same again and ".repeat(50), Some("Ann"))
    }

    fn stored(blob: &CommentBlob) -> AttributeValue {
        serde_dynamo::to_attribute_value(blob).unwrap()
    }

    fn read(value: AttributeValue) -> Result<CommentText, Malformed> {
        let blob: CommentBlob = serde_dynamo::from_attribute_value(value)
            .map_err(|error| Malformed::new("item", error.to_string()))?;
        blob.into_text()
    }

    fn binary(text: &CommentText) -> Vec<u8> {
        match CommentBlob::new(text, BlobFormat::Zstd) {
            CommentBlob::Binary(binary) => binary,
            CommentBlob::Map(_) => panic!("it got no smaller"),
        }
    }

    /// A blob of format 1 whose frame holds `content`.
    fn frame_of(content: &[u8]) -> Vec<u8> {
        [
            &[ZSTD],
            zstd::bulk::compress(content, ZSTD_LEVEL)
                .unwrap()
                .as_slice(),
        ]
        .concat()
    }

    #[test]
    fn a_long_text_gets_smaller_and_a_short_one_stays_a_map() {
        assert!(matches!(
            stored(&CommentBlob::new(&long(), BlobFormat::Map)),
            AttributeValue::M(_)
        ));
        let AttributeValue::B(bytes) = stored(&CommentBlob::new(&long(), BlobFormat::Zstd)) else {
            panic!("no binary")
        };
        assert!(bytes.len() < 100 && bytes.first() == Some(&1), "{bytes:?}");
        assert!(matches!(
            CommentBlob::new(&text(None, "Fine.", None), BlobFormat::Zstd),
            CommentBlob::Map(_)
        ));
    }

    #[test]
    fn what_the_first_version_wrote_is_read_for_ever() {
        const WRITTEN: &str = "0128b52ffd2043bd0000880600546974c3a9040041792e79657321200100475496";
        let bytes: Vec<u8> = (0..WRITTEN.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&WRITTEN[at..at + 2], 16).unwrap())
            .collect();
        let expected = text(Some("Tit\u{e9}"), &"yes! ".repeat(11), Some("Ay."));
        assert_eq!(CommentBlob::Binary(bytes).into_text().unwrap(), expected);
    }

    #[test]
    fn the_longest_legal_text_can_be_read() {
        let [title, body, author] = [200, 10_000, 100].map(|count| "😀".repeat(count));
        let longest = CommentText::new(Some(title), body, Some(author)).unwrap();
        assert_eq!(
            CommentBlob::Binary(binary(&longest)).into_text().unwrap(),
            longest
        );
    }

    #[test]
    fn what_no_reader_would_take_is_written_as_a_map() {
        for unreadable in [
            text(None, &"x".repeat(TEXT_BYTES_MAX), None),
            text(Some(&"x".repeat(65_535)), "", None),
        ] {
            let blob = CommentBlob::new(&unreadable, BlobFormat::Zstd);
            assert_eq!(blob, CommentBlob::Map(unreadable));
        }
    }

    #[test]
    fn a_broken_value_is_malformed_and_the_message_says_how() {
        let good = binary(&long());
        for (bytes, problem) in [
            (vec![], "it is empty, without even a format byte"),
            (
                vec![7, 1, 2, 3],
                "its format byte is 7, which this version does not know",
            ),
            (
                vec![1],
                "it does not begin with a zstd frame that states its size",
            ),
            (
                b"\x01plain text".to_vec(),
                "it does not begin with a zstd frame that states its size",
            ),
            (
                good[..good.len() - 1].to_vec(),
                "its zstd frame is cut off, or something follows it",
            ),
            (
                [good.as_slice(), b"more"].concat(),
                "its zstd frame is cut off, or something follows it",
            ),
            (frame_of(&[]), "its content ends within a length"),
            (
                frame_of(&[9, 0, b'x']),
                "a length in its content reaches past the end",
            ),
            (
                frame_of(b"\0\0\0\0abc\xff"),
                "its content is not UTF-8: invalid utf-8 sequence of 1 bytes from index 3",
            ),
        ] {
            let malformed = read(AttributeValue::B(bytes)).unwrap_err();
            assert_eq!(
                malformed.to_string(),
                format!("malformed comment_blob: {problem}")
            );
        }
        let secret = AttributeValue::S("a secret".to_owned());
        let expected = "expected comment_blob as a map or a binary value";
        for (value, problem) in [
            (
                secret.clone(),
                "comment_blob is a text, it must be a map or a binary value".to_owned(),
            ),
            (
                AttributeValue::N("7".to_owned()),
                format!("invalid type: integer `7`, {expected}"),
            ),
            (
                AttributeValue::L(vec![secret]),
                format!("invalid type: sequence, {expected}"),
            ),
        ] {
            assert_eq!(
                read(value).unwrap_err().to_string(),
                format!("malformed item: {problem}")
            );
        }
    }

    fn problem(bytes: Vec<u8>) -> String {
        CommentBlob::Binary(bytes).into_text().unwrap_err().problem
    }

    #[test]
    fn a_frame_that_would_unpack_to_too_much_is_refused_before_and_while_unpacking() {
        let bomb = frame_of(&vec![b'x'; 20_000_000]);
        assert!(bomb.len() < 400 * 1024, "it would fit into an item");
        assert_eq!(
            problem(bomb.clone()),
            "it claims to hold 20000000 bytes, a text has at most 65536"
        );
        // The bomb again, but with a false size. The format byte, 4 bytes of magic number and 2 of
        // description come before the size (RFC 8878, section 3.1.1).
        let mut liar = bomb;
        assert_eq!(liar[7..11], 20_000_000_u32.to_le_bytes());
        liar[7..11].copy_from_slice(&1_000_u32.to_le_bytes());
        assert_eq!(
            problem(liar),
            "its zstd frame is broken: Destination buffer is too small"
        );
    }

    fn any_line() -> impl Strategy<Value = Option<String>> {
        proptest::option::of("\\PC{0,40}")
    }

    fn any_text() -> impl Strategy<Value = CommentText> {
        let body = proptest::option::of(prop_oneof![
            "(?s).{1,60}",
            "[a-c \n]{1,2000}",
            "([א-ת]{1,3}|fine |😀){1,300}"
        ]);
        (any_line(), body, any_line()).prop_map(|(title, body, author)| CommentText {
            title,
            body,
            author,
        })
    }

    proptest! {
        #[test]
        fn every_text_comes_back_from_every_format(text in any_text()) {
            for format in [BlobFormat::Map, BlobFormat::Zstd] {
                let blob = CommentBlob::new(&text, format);
                prop_assert_eq!(&blob, &CommentBlob::new(&text, format));
                if let CommentBlob::Binary(binary) = &blob {
                    prop_assert!(binary.len() < map_bytes(&text));
                }
                prop_assert_eq!(read(stored(&blob)).unwrap(), text.clone());
            }
            // Also where the map would have been smaller.
            prop_assert_eq!(CommentBlob::Binary(compress(&text).unwrap()).into_text().unwrap(), text);
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let framed = [&[ZSTD, 0x28, 0xb5, 0x2f, 0xfd], bytes.as_slice()].concat();
            let content = frame_of(&bytes);
            for bytes in [bytes, framed, content] {
                if let Ok(text) = CommentBlob::Binary(bytes).into_text() {
                    prop_assert!(text.body.is_none_or(|body| body.len() <= TEXT_BYTES_MAX));
                }
            }
        }
    }
}
