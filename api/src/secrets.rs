//! Bearer tokens with their hashes and scopes, and the keys that seal cursors.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};
use strum::{Display, EnumString, VariantArray};
use subtle::{Choice, ConstantTimeEq};

/// A bearer token; it is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl BearerToken {
    /// Minimum length. A shorter one can be guessed.
    pub const MIN_LEN: usize = 16;

    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

impl FromStr for BearerToken {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The characters that a client can send in a header without quoting.
        if text.len() < Self::MIN_LEN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "a token is 16 or more visible ASCII characters, without spaces, such as `openssl rand -hex 32` prints",
            );
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(…)")
    }
}

/// The SHA-256 hash of a token. A person who reads the settings cannot write. Tokens must be random
/// and long (`openssl rand -hex 32`), because a guessable token can be found from its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    const PREFIX: &str = "sha256:";

    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }
}

impl FromStr for TokenHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hash = text.strip_prefix(Self::PREFIX).and_then(bytes_of_hex);
        hash.map(Self)
            .ok_or("the hash of a token is sha256: and 64 hex digits, as `printf %s TOKEN | sha256sum` prints them")
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

impl ConstantTimeEq for TokenHash {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

fn bytes_of_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, VariantArray)]
pub enum Scope {
    /// To create, change and delete comments, but not to publish or hide one. To see authors' ids and their comments.
    #[strum(serialize = "comments:write")]
    WriteComments,
    /// To see comments that are not published, and to publish and hide comments.
    #[strum(serialize = "comments:moderate")]
    ModerateComments,
    #[strum(serialize = "products:write")]
    WriteProducts,
}

impl Scope {
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// A key that seals cursors: 32 bytes, which are the two AES-128 keys of AES-SIV. It is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct CursorKey([u8; 32]);

impl CursorKey {
    /// The key of these bytes, which must be random and secret.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new random key. It is stored nowhere, so the cursors sealed with it end with the process.
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for CursorKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        bytes_of_hex(text).map(Self).ok_or("a cursor key is 64 hex digits, as `openssl rand -hex 32` prints them")
    }
}

impl fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CursorKey(…)")
    }
}
