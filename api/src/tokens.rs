//! Who may write and moderate: named tokens, each with its scopes.
//!
//! A person may replace a token under its name. What belongs to a client belongs to the name, so it
//! stays ([ADR 78](../../docs/adr/0078-what-a-client-did-belongs-to-its-name-and-the-product.md)).

use std::{
    fmt,
    future::{Ready, ready},
    str::FromStr,
};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload, http::header, web};
use strum::VariantArray;
use subtle::ConstantTimeEq;

use crate::{
    error::ApiError,
    secrets::{Scope, TokenHash},
    settings::ApiSettings,
};

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
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !(1..=Self::MAX_LEN).contains(&text.len()) || !text.bytes().all(plain) {
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
    pub scopes: Vec<Scope>,
    pub hash: TokenHash,
}

impl NamedToken {
    pub fn of_all_scopes(name: TokenName, hash: TokenHash) -> Self {
        Self {
            name,
            scopes: Scope::VARIANTS.to_vec(),
            hash,
        }
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
            .map(Scope::to_string)
            .collect::<Vec<_>>()
            .join("+");
        write!(f, "{}/{scopes}/{}", self.name.0, self.hash)
    }
}

/// The token with this text; if two have one hash, the later one. All hashes have one length and
/// every one is compared, also after a match. Each comparison takes the same time, so the time
/// reveals nothing, not even a token's length.
fn find<'known>(known: &'known [NamedToken], token: &str) -> Option<&'known NamedToken> {
    let given = TokenHash::of(token);
    known.iter().fold(None, |found, token| {
        if token.hash.0.ct_eq(&given.0).into() {
            Some(token)
        } else {
            found
        }
    })
}

/// Who sends a request: the token that came with it, if the service knows that token.
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
    pub(crate) fn check(&self, scope: Scope) -> Result<NamedToken, ApiError> {
        let has_scope = |token: &NamedToken| token.scopes.contains(&scope);
        match &self.token {
            _ if !self.settings.writing.tokens.iter().any(has_scope) => {
                Err(ApiError::ScopeOff(scope))
            }
            None => Err(ApiError::Unauthorized),
            Some(token) if has_scope(token) => Ok(token.clone()),
            Some(_) => Err(ApiError::NotAllowed(scope)),
        }
    }

    /// Whether the token has this scope. For what everybody may read, any other token counts as
    /// none.
    pub(crate) fn may(&self, scope: Scope) -> bool {
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
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
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
    CommentWriter(NamedToken) = |caller| caller.check(Scope::WriteComments);
    Moderator(()) = |caller| caller.check(Scope::ModerateComments).map(drop);
    ProductWriter(()) = |caller| caller.check(Scope::WriteProducts).map(drop);
    WriterOrModerator(Caller) = |caller| match caller.check(Scope::WriteComments) {
        Err(error) if !caller.may(Scope::ModerateComments) => Err(error),
        _ => Ok(caller),
    };
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;
    use crate::settings::WritingSettings;

    fn tokens(named: &[(&str, &str)]) -> ApiSettings {
        let token = |(text, name_and_scopes): &(&str, &str)| {
            format!("{name_and_scopes}/{}", TokenHash::of(text))
                .parse::<NamedToken>()
                .unwrap()
        };
        let writing = WritingSettings {
            tokens: named.iter().map(token).collect(),
            ..WritingSettings::default()
        };
        ApiSettings {
            writing,
            ..ApiSettings::default()
        }
    }

    fn check(
        settings: ApiSettings,
        scope: Scope,
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
        checked.map(|name| name.0)
    }

    #[test]
    fn each_token_is_known_by_its_name_and_two_may_share_one() {
        let known = || {
            tokens(&[
                ("one", "shop/comments:write"),
                ("two", "shop/comments:write"),
                ("three", "app/comments:write"),
            ])
        };
        for (authorization, name) in [
            ("Bearer one", "shop"),
            ("bearer two", "shop"),
            ("Bearer three", "app"),
        ] {
            assert_eq!(
                check(known(), Scope::WriteComments, Some(authorization)).unwrap(),
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
                Scope::WriteComments,
                value,
            );
            assert!(matches!(checked, Err(ApiError::Unauthorized)), "{value:?}");
        }
        let off = check(tokens(&[]), Scope::WriteComments, Some("Bearer one"));
        assert!(matches!(off, Err(ApiError::ScopeOff(Scope::WriteComments))));
    }

    #[test]
    fn a_token_allows_only_what_its_scopes_allow() {
        for scope in Scope::VARIANTS {
            let others = Scope::VARIANTS
                .iter()
                .filter(|other| *other != scope)
                .map(Scope::to_string)
                .collect::<Vec<_>>();
            let (only, others) = (
                format!("only/{scope}"),
                format!("others/{}", others.join("+")),
            );
            let check = |token| {
                check(
                    tokens(&[("only", &only), ("others", &others)]),
                    *scope,
                    Some(token),
                )
            };
            assert_eq!(check("Bearer only").unwrap(), "only");
            assert!(
                matches!(check("Bearer others"), Err(ApiError::NotAllowed(needed)) if needed == *scope),
                "{scope}"
            );
            assert!(
                matches!(check("Bearer none"), Err(ApiError::Unauthorized)),
                "{scope}"
            );
        }
        let off = check(
            tokens(&[("one", "shop/comments:write")]),
            Scope::ModerateComments,
            Some("Bearer one"),
        );
        assert!(matches!(
            off,
            Err(ApiError::ScopeOff(Scope::ModerateComments))
        ));
    }
}
