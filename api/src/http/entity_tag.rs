//! Entity tags (RFC 9110 section 8.8.3).

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::Revision;
use sha2::{Digest, Sha256};

/// How many bytes of a hash form an entity tag.
const TAG_BYTES: usize = 12;

/// The strong tag of a comment: its revision in quotes.
pub(crate) fn strong_tag(revision: Revision) -> String {
    format!("\"{revision}\"")
}

/// The weak tag of a content. Weak, because compression changes the bytes but not their meaning.
pub(crate) fn weak_tag(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    format!("W/\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(hash.get(..TAG_BYTES).unwrap_or(&hash)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_content_has_another_tag() {
        assert_eq!(weak_tag(b"a").len(), "W/\"\"".len() + TAG_BYTES * 4 / 3);
        assert_ne!(weak_tag(b"a"), weak_tag(b"b"));
    }
}
