//! Bearer tokens with their hashes and scopes, and the keys that seal cursors.

use std::str::FromStr;

use derive_more::{Debug, Display};
use hex::FromHex;
use sha2::{Digest, Sha256};
use strum::{EnumString, VariantArray};

/// A bearer token; it is never logged.
#[derive(Clone, PartialEq, Eq, Debug)]
#[debug("BearerToken(…)")]
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

/// The SHA-256 hash of a token. A person who reads the settings cannot write. Tokens must be random
/// and long (`openssl rand -hex 32`), because a guessable token can be found from its hash.
#[derive(Clone, PartialEq, Eq, Debug, Display)]
#[debug("TokenHash(…)")]
#[display("{}{}", Self::PREFIX, hex::encode(_0))]
pub struct TokenHash(pub(crate) [u8; 32]);

impl TokenHash {
    const PREFIX: &str = "sha256:";

    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }
}

impl FromStr for TokenHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hash = text
            .strip_prefix(Self::PREFIX)
            .and_then(|text| <[u8; 32]>::from_hex(text).ok());
        hash.map(Self)
            .ok_or("the hash of a token is sha256: and 64 hex digits, as `printf %s TOKEN | sha256sum` prints them")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, EnumString, VariantArray)]
pub enum Scope {
    /// To create, change and delete comments, but not to publish or hide one. To see authors' ids
    /// and their comments.
    #[strum(serialize = "comments:write")]
    WriteComments,
    /// To see comments that are not published, and to publish and hide comments.
    #[strum(serialize = "comments:moderate")]
    ModerateComments,
    #[strum(serialize = "products:write")]
    WriteProducts,
}

/// A key that seals cursors: 32 bytes, which are the two AES-128 keys of AES-SIV. They must be
/// random and secret. It is never logged.
#[derive(Clone, PartialEq, Eq, Debug)]
#[debug("CursorKey(…)")]
pub struct CursorKey(pub [u8; 32]);

impl FromStr for CursorKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        <[u8; 32]>::from_hex(text)
            .map(Self)
            .map_err(|_| "a cursor key is 64 hex digits, as `openssl rand -hex 32` prints them")
    }
}
