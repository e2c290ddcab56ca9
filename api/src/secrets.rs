//! Bearer tokens with their hashes, names and scopes, and the keys that seal cursors.

use std::{fmt, str::FromStr};

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
pub enum TokenScope {
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

/// The name of a token: of the program or the person that has it. Logs show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenName(String);

impl TokenName {
    /// Maximum length, in bytes.
    const MAX_LEN: usize = 64;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !(1..=Self::MAX_LEN).contains(&text.len()) || !is_plain {
            return Err("the name of a token is 1 to 64 letters, digits, -, _ and .");
        }
        Ok(Self(text.to_owned()))
    }
}

/// A token as the settings name it, `NAME/SCOPE+SCOPE/sha256:HEX`: its name, what it allows, and
/// its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedToken {
    /// Its name. During a change of token, two have one name.
    pub name: TokenName,
    pub scopes: Vec<TokenScope>,
    pub hash: TokenHash,
}

impl NamedToken {
    pub fn of_all_scopes(name: TokenName, hash: TokenHash) -> Self {
        Self {
            name,
            scopes: TokenScope::VARIANTS.to_vec(),
            hash,
        }
    }

    pub(crate) fn has_scope(&self, scope: TokenScope) -> bool {
        self.scopes.contains(&scope)
    }

    /// The token of a stack on one machine: `local`, which allows everything.
    pub fn local(hash: TokenHash) -> Self {
        Self::of_all_scopes(TokenName("local".to_owned()), hash)
    }
}

impl FromStr for NamedToken {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SCOPES: &str = "the scopes of a token are comments:write, comments:moderate and products:write, joined by +";
        let mut parts = text.splitn(3, '/');
        let (Some(name), Some(scopes), Some(hash)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(
                "a token is NAME/SCOPES/sha256:HEX, such as shop/comments:write+products:write/sha256:…",
            );
        };
        let scopes = scopes
            .split('+')
            .map(|scope| scope.parse().map_err(|_| SCOPES))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: name.parse()?,
            scopes,
            hash: hash.parse()?,
        })
    }
}

impl fmt::Display for NamedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scopes = self
            .scopes
            .iter()
            .map(TokenScope::to_string)
            .collect::<Vec<_>>()
            .join("+");
        write!(f, "{}/{scopes}/{}", self.name.0, self.hash)
    }
}

/// A key that seals cursors: 32 bytes, which are the two AES-128 keys of AES-SIV. They must be
/// random and secret. The log never has it.
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
