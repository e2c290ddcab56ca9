//! The compared encodings of a comment's text.

use anyhow::Context;
use model::{BlobFormat, CommentBlob, CommentText};

use zstd::{bulk::Compressor, zstd_safe::CParameter};

use super::size::value_bytes;

/// Bytes of the format byte, which comes first in every binary value.
const FORMAT_BYTE: usize = 1;

/// The uncompressed content of `model`'s zstd frames.
pub(super) fn content(text: &CommentText) -> Vec<u8> {
    let mut content = Vec::new();
    for part in [&text.title, &text.author] {
        let length = part.as_ref().map_or(0, |part| part.len() + 1);
        content.extend(u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
        content.extend(part.iter().flat_map(|part| part.bytes()));
    }
    content.extend(text.body.bytes());
    content
}

/// The bytes of `comment_blob`'s value as the product writes it.
pub(super) fn product(text: &CommentText, format: BlobFormat) -> anyhow::Result<usize> {
    Ok(value_bytes(&serde_dynamo::to_attribute_value(CommentBlob::new(text, format))?))
}

/// A map whose fields have names of one letter.
pub(super) fn map_of_short_names(text: &CommentText) -> anyhow::Result<usize> {
    let saved = |there: bool, name: &str| if there { name.len() - 1 } else { 0 };
    let saved = saved(text.title.is_some(), "title") + saved(true, "body") + saved(text.author.is_some(), "author");
    Ok(product(text, BlobFormat::Map)? - saved)
}

/// The uncompressed content.
pub(super) fn plain(text: &CommentText) -> usize {
    FORMAT_BYTE + content(text).len()
}

/// zstd at a level, even where that is larger than the map.
pub(super) fn zstd_always(text: &CommentText, level: i32) -> anyhow::Result<usize> {
    Ok(FORMAT_BYTE + zstd::bulk::compress(&content(text), level)?.len())
}

/// snappy, even where that is larger than the map.
pub(super) fn snappy_always(text: &CommentText) -> anyhow::Result<usize> {
    Ok(FORMAT_BYTE + snap::raw::Encoder::new().compress_vec(&content(text))?.len())
}

/// Two dictionaries of `dictionary_bytes`. Each is trained on one half of the texts and used for the other, so that no
/// dictionary has seen what it compresses.
pub(super) struct Dictionaries {
    halves: [Compressor<'static>; 2],
}

impl Dictionaries {
    pub(super) fn train(texts: &[CommentText], dictionary_bytes: usize, level: i32) -> anyhow::Result<Self> {
        let compressor = |first: usize| -> anyhow::Result<Compressor<'static>> {
            let samples: Vec<Vec<u8>> = texts.iter().skip(first).step_by(2).map(content).collect();
            let dictionary =
                zstd::dict::from_samples(&samples, dictionary_bytes).context("too few texts to train a dictionary")?;
            let mut compressor = Compressor::with_dictionary(level, &dictionary)?;
            // The format byte would identify the dictionary.
            compressor.set_parameter(CParameter::DictIdFlag(false))?;
            Ok(compressor)
        };
        Ok(Self { halves: [compressor(1)?, compressor(0)?] })
    }

    /// The text at `place`, even where it is larger than the map.
    pub(super) fn always(&mut self, place: usize, text: &CommentText) -> anyhow::Result<usize> {
        let [even, odd] = &mut self.halves;
        let compressor = if place.is_multiple_of(2) { even } else { odd };
        Ok(FORMAT_BYTE + compressor.compress(&content(text))?.len())
    }
}

/// The version of the compression library.
pub(super) fn zstd_version() -> String {
    let number = zstd::zstd_safe::version_number();
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}
