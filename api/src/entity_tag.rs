//! Entity tags (RFC 9110 section 8.8.3).

use std::fmt;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::Revision;
use sha2::{Digest, Sha256};

const TAG_BYTES: usize = 12;

/// Ends the tag of a comment with its author's id. Only writers and moderators see that id, so a
/// revision of such a comment has two representations.
const WITH_AUTHOR_ID: &str = "-author";

pub(crate) fn strong_tag(revision: Revision) -> String {
    format!("\"{revision}\"")
}

pub(crate) fn strong_tag_with_author_id(revision: Revision) -> String {
    format!("\"{revision}{WITH_AUTHOR_ID}\"")
}

/// The revision that a tag names; `None` for a tag that this service never made.
pub(crate) fn revision_of(tag: &str) -> Option<Revision> {
    let tag = without_suffix(tag);
    let revision = tag.strip_suffix(WITH_AUTHOR_ID).unwrap_or(tag);
    Revision::parse(revision).ok()
}

/// What well-known proxies append to the tag of an answer that they compress, such as Apache's
/// mod_deflate and mod_brotli.
const SUFFIXES: [&str; 3] = ["-gzip", "-br", ";gzip"];

/// A tag as this service made it: without what a proxy has appended.
pub(crate) fn without_suffix(tag: &str) -> &str {
    for suffix in SUFFIXES {
        if let Some(tag) = tag.strip_suffix(suffix) {
            return tag;
        }
    }
    tag
}

/// The weak tag of a content. Weak, because compression changes the bytes but not their meaning.
pub(crate) fn weak_tag(content: &[u8]) -> String {
    WeakTagWriter(Sha256::new_with_prefix(content)).finish()
}

/// The weak tag of a content that is written piece by piece, and so is never whole in memory.
#[derive(Default)]
pub(crate) struct WeakTagWriter(pub(crate) Sha256);

impl WeakTagWriter {
    pub(crate) fn finish(self) -> String {
        let hash = self.0.finalize();
        format!(
            "W/\"{}\"",
            BASE64_URL_SAFE_NO_PAD.encode(hash.get(..TAG_BYTES).unwrap_or(&hash))
        )
    }
}

impl fmt::Write for WeakTagWriter {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.0.update(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn another_content_has_another_tag() {
        assert_eq!(weak_tag(b"a").len(), "W/\"\"".len() + TAG_BYTES * 4 / 3);
        assert_ne!(weak_tag(b"a"), weak_tag(b"b"));
    }

    #[test]
    fn a_content_in_pieces_has_the_tag_of_the_whole() {
        let mut writer = WeakTagWriter::default();
        for piece in ["a", "", "bc"] {
            writer.write_str(piece).unwrap();
        }
        assert_eq!(writer.finish(), weak_tag(b"abc"));
    }
}
