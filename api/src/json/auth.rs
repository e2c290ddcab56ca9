//! Checks the tokens that allow writing.

use actix_web::{HttpRequest, http::header};
use subtle::Choice;

use crate::{error::ApiError, settings::WriteTokenHash};

/// The hashes of the tokens that allow writing. All hashes have one length, so comparing them in constant time reveals
/// nothing, not even a token's length.
pub(crate) struct WriteTokens(Vec<WriteTokenHash>);

impl WriteTokens {
    pub(crate) fn new(hashes: Vec<WriteTokenHash>) -> Self {
        Self(hashes)
    }

    /// Accepts a request that carries one of the tokens, and returns the hash of that token.
    pub(crate) fn check(&self, request: &HttpRequest) -> Result<WriteTokenHash, ApiError> {
        self.check_token(bearer_token(request))
    }

    /// Accepts a request with one of the tokens, and returns the hash of that token.
    pub(crate) fn check_token(&self, token: Option<&str>) -> Result<WriteTokenHash, ApiError> {
        if self.0.is_empty() {
            return Err(ApiError::WritesOff);
        }
        let token = token.ok_or(ApiError::Unauthorized)?;
        let given = WriteTokenHash::of(token);
        // Every hash is compared, also after a match.
        let known = self.0.iter().fold(Choice::from(0), |known, hash| known | hash.is_of(&given));
        if bool::from(known) { Ok(given) } else { Err(ApiError::Unauthorized) }
    }
}

fn bearer_token(request: &HttpRequest) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    fn check(tokens: &[&str], authorization: Option<&str>) -> Result<WriteTokenHash, ApiError> {
        let hashes = tokens.iter().map(|token| WriteTokenHash::of(token)).collect();
        let mut request = TestRequest::post();
        if let Some(value) = authorization {
            request = request.insert_header((header::AUTHORIZATION, value));
        }
        WriteTokens::new(hashes).check(&request.to_http_request())
    }

    #[test]
    fn one_of_the_tokens_is_enough() {
        for (authorization, token) in [("Bearer two", "two"), ("bearer one", "one")] {
            assert_eq!(check(&["one", "two"], Some(authorization)).unwrap(), WriteTokenHash::of(token));
        }
    }

    #[test]
    fn without_a_known_token_nobody_writes() {
        for value in [None, Some("Bearer "), Some("Bearer"), Some("Bearer on"), Some("Basic one"), Some("one")] {
            assert!(matches!(check(&["one"], value), Err(ApiError::Unauthorized)), "{value:?}");
        }
        assert!(matches!(check(&[], Some("Bearer one")), Err(ApiError::WritesOff)));
    }
}
