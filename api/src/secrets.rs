//! The tokens that allow writing or moderating, and the keys that seal cursors.

use std::{
    fmt,
    future::{Ready, ready},
    str::FromStr,
};

use actix_web::{FromRequest, HttpRequest, dev::Payload, http::header, web};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::error::ApiError;

/// A bearer token that allows writing; it is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct WriteToken(String);

impl WriteToken {
    /// The form that the service keeps.
    pub fn hash(&self) -> WriteTokenHash {
        WriteTokenHash::of(&self.0)
    }
}

impl FromStr for WriteToken {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The characters that a client can send in a header without quoting.
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a write token is one or more visible ASCII characters, without spaces");
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for WriteToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteToken(…)")
    }
}

/// The SHA-256 hash of a token that allows writing. A person who reads the settings cannot write. Tokens must be random
/// and long (`openssl rand -hex 32`), because a guessable token can be found from its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct WriteTokenHash([u8; 32]);

impl WriteTokenHash {
    const PREFIX: &str = "sha256:";

    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }
}

impl FromStr for WriteTokenHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hash = text.strip_prefix(Self::PREFIX).and_then(bytes_of_hex);
        hash.map(Self).ok_or(
            "the hash of a write token is sha256: and 64 hex digits, as `printf %s TOKEN | sha256sum` prints them",
        )
    }
}

impl fmt::Display for WriteTokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for WriteTokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteTokenHash(…)")
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

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// To create, change and delete comments and the records of products, but not to publish or hide a comment.
    Write,
    /// To see comments that are not published, and to publish and hide comments.
    Moderate,
}

/// The hashes of the tokens of each scope; a token may be in both. All hashes have one length, so comparing them in
/// constant time reveals nothing, not even a token's length.
pub(crate) struct Tokens {
    pub(crate) write: Vec<WriteTokenHash>,
    pub(crate) moderation: Vec<WriteTokenHash>,
}

impl Tokens {
    /// Accepts a request with a token of this scope, and returns the hash of that token.
    ///
    /// # Errors
    /// No token has this scope, the token is missing or unknown, or it has the other scope only.
    pub(crate) fn check(&self, scope: Scope, token: Option<&str>) -> Result<WriteTokenHash, ApiError> {
        let (tokens, others, off) = match scope {
            Scope::Write => (&self.write, &self.moderation, ApiError::WritesOff),
            Scope::Moderate => (&self.moderation, &self.write, ApiError::ModerationOff),
        };
        if tokens.is_empty() {
            return Err(off);
        }
        let given = WriteTokenHash::of(token.ok_or(ApiError::Unauthorized)?);
        // Every hash is compared, also after a match, and each comparison takes the same time.
        let [known, known_otherwise] = [tokens, others].map(|hashes| {
            bool::from(hashes.iter().fold(Choice::from(0), |known, hash| known | hash.0.ct_eq(&given.0)))
        });
        match (known, known_otherwise) {
            (true, _) => Ok(given),
            (false, true) => Err(ApiError::NotAllowed),
            (false, false) => Err(ApiError::Unauthorized),
        }
    }
}

fn bearer_token(request: &HttpRequest) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The hash of the token that a request to the JSON API was sent with.
pub(crate) struct Writer(pub(crate) WriteTokenHash);

impl FromRequest for Writer {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Caller::of(request).and_then(|caller| caller.check(Scope::Write)).map(Self))
    }
}

/// Who sends a request to the JSON API, for operations that depend on it.
pub(crate) struct Caller {
    tokens: web::Data<Tokens>,
    token: Option<String>,
}

impl Caller {
    fn of(request: &HttpRequest) -> Result<Self, ApiError> {
        let tokens = request.app_data::<web::Data<Tokens>>();
        let tokens = tokens.ok_or_else(|| ApiError::internal("the service has no tokens"))?.clone();
        Ok(Self { tokens, token: bearer_token(request).map(str::to_owned) })
    }

    /// # Errors
    /// Those of [`Tokens::check`].
    pub(crate) fn check(&self, scope: Scope) -> Result<WriteTokenHash, ApiError> {
        self.tokens.check(scope, self.token.as_deref())
    }

    /// Whether the token has this scope. For what everybody may read, any other token counts as none.
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.check(scope).is_ok()
    }
}

/// A request with a token of any scope.
pub(crate) struct KnownCaller(pub(crate) Caller);

impl FromRequest for KnownCaller {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Caller::of(request).and_then(|caller| {
            let writes = caller.check(Scope::Write);
            if caller.may(Scope::Moderate) { Ok(Self(caller)) } else { writes.map(|_| Self(caller)) }
        }))
    }
}

/// A request with a token that allows moderating.
pub(crate) struct Moderator;

impl FromRequest for Moderator {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Caller::of(request).and_then(|caller| caller.check(Scope::Moderate)).map(|_| Self))
    }
}

impl FromRequest for Caller {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::of(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    fn check(tokens: &[&str], authorization: Option<&str>) -> Result<WriteTokenHash, ApiError> {
        check_of(Scope::Write, tokens, &[], authorization)
    }

    fn check_of(
        scope: Scope,
        write: &[&str],
        moderation: &[&str],
        authorization: Option<&str>,
    ) -> Result<WriteTokenHash, ApiError> {
        let hashes = |tokens: &[&str]| tokens.iter().map(|token| WriteTokenHash::of(token)).collect();
        let tokens = Tokens { write: hashes(write), moderation: hashes(moderation) };
        let mut request = TestRequest::post();
        if let Some(value) = authorization {
            request = request.insert_header((header::AUTHORIZATION, value));
        }
        tokens.check(scope, bearer_token(&request.to_http_request()))
    }

    #[test]
    fn one_of_the_tokens_is_enough() {
        for (authorization, token) in [("Bearer two", "two"), ("bearer one", "one")] {
            assert_eq!(check(&["one", "two"], Some(authorization)).unwrap(), WriteTokenHash::of(token));
        }
    }

    #[test]
    fn without_a_known_token_writing_is_refused() {
        for value in [None, Some("Bearer "), Some("Bearer"), Some("Bearer on"), Some("Basic one"), Some("one")] {
            assert!(matches!(check(&["one"], value), Err(ApiError::Unauthorized)), "{value:?}");
        }
        assert!(matches!(check(&[], Some("Bearer one")), Err(ApiError::WritesOff)));
    }

    #[test]
    fn a_token_allows_only_what_its_scopes_allow() {
        let check = |scope, token| check_of(scope, &["writer", "both"], &["moderator", "both"], Some(token));
        for (scope, allowed, refused) in [
            (Scope::Write, ["Bearer writer", "Bearer both"], "Bearer moderator"),
            (Scope::Moderate, ["Bearer moderator", "Bearer both"], "Bearer writer"),
        ] {
            assert!(allowed.into_iter().all(|token| check(scope, token).is_ok()), "{scope:?}");
            assert!(matches!(check(scope, refused), Err(ApiError::NotAllowed)), "{scope:?}");
            assert!(matches!(check(scope, "Bearer none"), Err(ApiError::Unauthorized)), "{scope:?}");
        }
        let off = check_of(Scope::Moderate, &["writer"], &[], Some("Bearer writer"));
        assert!(matches!(off, Err(ApiError::ModerationOff)));
    }
}
