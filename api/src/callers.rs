//! The callers that may write and moderate: those with a known token of the scope.
//!
//! A person may replace a token under its name. What belongs to a client belongs to the name, so it
//! stays ([ADR 78](../../docs/adr/0078-what-a-client-did-belongs-to-its-name-and-the-product.md)).

use std::future::{Ready, ready};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload, http::header, web};
use subtle::ConstantTimeEq;

use crate::{
    error::ApiError,
    secrets::{NamedToken, TokenHash, TokenName, TokenScope},
    settings::ApiSettings,
};

/// The token with this text; if two have one hash, the later one. All hashes have one length and
/// every one is compared, also after a match. Each comparison takes the same time, so the time
/// reveals nothing, not even a token's length.
fn find<'known>(known: &'known [NamedToken], token: &str) -> Option<&'known NamedToken> {
    let given = TokenHash::of(token);
    let mut found = None;
    for token in known {
        if token.hash.0.ct_eq(&given.0).into() {
            found = Some(token);
        }
    }
    found
}

/// The sender of a request: the token that came with it, if the service knows that token.
pub(crate) struct Caller {
    settings: web::Data<ApiSettings>,
    token: Option<NamedToken>,
}

impl Caller {
    fn of(request: &HttpRequest) -> Result<Self, ApiError> {
        let settings = request.app_data::<web::Data<ApiSettings>>();
        let settings = settings.ok_or_else(|| ApiError::internal("the service has no settings"))?;
        let token = bearer_token(request)
            .and_then(|token| find(&settings.writing.tokens, token))
            .cloned();
        if let Some(token) = &token {
            // For the access log.
            request.extensions_mut().insert(token.name.clone());
        }
        Ok(Self {
            settings: settings.clone(),
            token,
        })
    }

    /// Accepts a caller whose token has this scope, and returns that token.
    ///
    /// # Errors
    /// No token has this scope, the caller's is missing or unknown, or it lacks the scope.
    pub(crate) fn check(&self, scope: TokenScope) -> Result<NamedToken, ApiError> {
        let known = &self.settings.writing.tokens;
        if !known.iter().any(|token| token.has_scope(scope)) {
            return Err(ApiError::ScopeOff(scope));
        }
        match &self.token {
            None => Err(ApiError::Unauthorized),
            Some(token) if token.has_scope(scope) => Ok(token.clone()),
            Some(_) => Err(ApiError::NotAllowed(scope)),
        }
    }

    /// # Errors
    /// The request came without a known token.
    pub(crate) fn token_name(&self) -> Result<&TokenName, ApiError> {
        let token = self.token.as_ref().ok_or(ApiError::Unauthorized)?;
        Ok(&token.name)
    }

    /// Whether the token has this scope. For public reads, any other token counts as
    /// none.
    pub(crate) fn may(&self, scope: TokenScope) -> bool {
        self.check(scope).is_ok()
    }
}

fn bearer_token(request: &HttpRequest) -> Option<&str> {
    let value = request
        .headers()
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?;
    let (scheme, token) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Some(token.trim())
    } else {
        None
    }
}

/// Makes types that handlers take, each from a request that `$accept` accepts.
macro_rules! extractors {
    ($($(#[$doc:meta])* $name:ident($of:ty) = $accept:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) $of);

        impl FromRequest for $name {
            type Error = ApiError;
            type Future = Ready<Result<Self, ApiError>>;

            fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
                let accept: fn(Caller) -> Result<$of, ApiError> = $accept;
                ready(Caller::of(request).and_then(accept).map(Self))
            }
        }
    )*};
}

extractors! {
    AnyCaller(Caller) = Ok;
    CommentWriter(NamedToken) = |caller| caller.check(TokenScope::WriteComments);
    Moderator(()) = |caller| caller.check(TokenScope::ModerateComments).map(drop);
    ProductWriter(()) = |caller| caller.check(TokenScope::WriteProducts).map(drop);
    WriterOrModerator(Caller) = |caller| match caller.check(TokenScope::WriteComments) {
        Err(error) if !caller.may(TokenScope::ModerateComments) => Err(error),
        _ => Ok(caller),
    };
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use strum::VariantArray;

    use super::*;
    use crate::settings::WritingSettings;

    fn tokens(named: &[(&str, &str)]) -> ApiSettings {
        let mut tokens: Vec<NamedToken> = Vec::new();
        for (text, name_and_scopes) in named {
            let token = format!("{name_and_scopes}/{}", TokenHash::of(text));
            tokens.push(token.parse().unwrap());
        }
        let writing = WritingSettings {
            tokens,
            ..WritingSettings::default()
        };
        ApiSettings {
            writing,
            ..ApiSettings::default()
        }
    }

    fn check(
        settings: ApiSettings,
        scope: TokenScope,
        authorization: Option<&str>,
    ) -> Result<String, ApiError> {
        let mut request = TestRequest::post().app_data(web::Data::new(settings));
        if let Some(value) = authorization {
            request = request.insert_header((header::AUTHORIZATION, value));
        }
        let request = request.to_http_request();
        let checked = Caller::of(&request)
            .unwrap()
            .check(scope)
            .map(|token| token.name);
        let noted = request.extensions().get::<TokenName>().cloned();
        if let Ok(name) = &checked {
            assert_eq!(noted.as_ref(), Some(name), "the access log names the token");
        }
        checked.map(|name| name.as_str().to_owned())
    }

    #[test]
    fn each_token_is_known_by_its_name_and_two_may_share_one() {
        let known = tokens(&[
            ("one", "shop/comments:write"),
            ("two", "shop/comments:write"),
            ("three", "app/comments:write"),
        ]);
        for (authorization, name) in [
            ("Bearer one", "shop"),
            ("bearer two", "shop"),
            ("Bearer three", "app"),
        ] {
            assert_eq!(
                check(
                    known.clone(),
                    TokenScope::WriteComments,
                    Some(authorization)
                )
                .unwrap(),
                name
            );
        }
    }

    #[test]
    fn without_a_known_token_writing_is_refused() {
        for value in [
            None,
            Some("Bearer "),
            Some("Bearer"),
            Some("Bearer on"),
            Some("Basic one"),
            Some("one"),
        ] {
            let checked = check(
                tokens(&[("one", "shop/comments:write")]),
                TokenScope::WriteComments,
                value,
            );
            assert!(matches!(checked, Err(ApiError::Unauthorized)), "{value:?}");
        }
        let off = check(tokens(&[]), TokenScope::WriteComments, Some("Bearer one"));
        assert!(matches!(
            off,
            Err(ApiError::ScopeOff(TokenScope::WriteComments))
        ));
    }

    #[test]
    fn a_token_allows_only_what_its_scopes_allow() {
        for scope in TokenScope::VARIANTS {
            let others = TokenScope::VARIANTS
                .iter()
                .filter(|other| *other != scope)
                .map(TokenScope::to_string)
                .collect::<Vec<_>>();
            let only = format!("only/{scope}");
            let others = format!("others/{}", others.join("+"));
            let settings = tokens(&[("only", &only), ("others", &others)]);
            let by_only = check(settings.clone(), *scope, Some("Bearer only"));
            assert_eq!(by_only.unwrap(), "only");
            let by_others = check(settings.clone(), *scope, Some("Bearer others"));
            assert!(
                matches!(by_others, Err(ApiError::NotAllowed(needed)) if needed == *scope),
                "{scope}"
            );
            let by_unknown = check(settings, *scope, Some("Bearer none"));
            assert!(matches!(by_unknown, Err(ApiError::Unauthorized)), "{scope}");
        }
        let off = check(
            tokens(&[("one", "shop/comments:write")]),
            TokenScope::ModerateComments,
            Some("Bearer one"),
        );
        assert!(matches!(
            off,
            Err(ApiError::ScopeOff(TokenScope::ModerateComments))
        ));
    }
}
