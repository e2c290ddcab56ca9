//! Every error of the service, and the only file that knows HTTP statuses.
//!
//! Programs get `application/problem+json` (RFC 9457), people a small page (`http::error_page`);
//! both from the same [`ApiError`].

use std::borrow::Cow;

use actix_web::{
    HttpResponse, HttpResponseBuilder, ResponseError,
    http::{StatusCode, header},
};
use model::{InvalidInput, Revision};
use process::{Remedy, StoreError};
use serde::Serialize;
use table::WriteError;
use thiserror::Error;
use utoipa::ToSchema;

use crate::{entity_tag::strong_tag, secrets::TokenScope};

/// Seconds after which a client may try again. A store that fails over, or an index rebuild, takes
/// some time.
const RETRY_AFTER_SECONDS: u32 = 5;

pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

#[derive(Debug, Error)]
pub(crate) enum ApiError {
    #[error("{field}: {problem}")]
    Invalid {
        field: Cow<'static, str>,
        problem: String,
    },
    #[error("The body is not a JSON object: {0}.")]
    BrokenBody(String),
    #[error("The body is larger than {} KiB.", bytes_max / 1024)]
    BodyTooLarge { bytes_max: usize },
    #[error(
        "The item of this comment has {item_bytes} bytes, most of them in attributes that another tool stored there. \
         DynamoDB allows 400 KB, so this change has no room. Nothing was written."
    )]
    NoRoomInItem { item_bytes: usize },
    #[error("The body did not arrive in time.")]
    BodyTooSlow,
    #[error("The body must be sent as {accepted}, without Content-Encoding.")]
    UnsupportedMediaType { accepted: &'static str },
    #[error("This needs the header Authorization: Bearer with a known token.")]
    Unauthorized,
    #[error("This server was started without a token that has the scope {0}, which this needs.")]
    ScopeOff(TokenScope),
    #[error("The token is known, but does not have the scope {0}, which this needs.")]
    NotAllowed(TokenScope),
    #[error("There is nothing at this address.")]
    NoRoute,
    #[error("This address takes only {allow}.")]
    MethodNotAllowed { allow: &'static str },
    #[error("There is no such comment.")]
    NoSuchComment,
    #[error("There is no such product.")]
    NoSuchProduct,
    #[error(
        "The comment exists, but this filter does not match it: its language is {language}, its rating {rating}."
    )]
    FilterDoesNotMatch { language: String, rating: u8 },
    #[error("Page {page} lies past the end: the last is page {total_pages}.")]
    PastTheEnd { page: u64, total_pages: u64 },
    /// Past the end in stable numbering, where the newest comments are on a page without a number.
    #[error("{}", end_of_numbers(*page, *archived))]
    PastTheArchive { page: u64, archived: u64 },
    #[error("This Idempotency-Key was used for another request.")]
    IdempotencyMismatch,
    #[error("The comment has changed: its revision is {current}, not the one in If-Match.")]
    RevisionMismatch { current: Revision },
    #[error("The comment exists, at revision {current}, which If-None-Match excludes.")]
    RevisionExcluded { current: Revision },
    /// The record of a product; `None` when there is no record.
    #[error("{}", precondition_failed(*current))]
    PreconditionFailed { current: Option<Revision> },
    #[error(
        "Too many requests changed this at the same time, and others were faster. Nothing was written. Try again later."
    )]
    Contended,
    #[error(
        "Page numbers and totals are temporarily unavailable, so this cannot be answered now. Try again later."
    )]
    IndexUnavailable,
    #[error(
        "Comments of this listing are still being put into its pages, and this page may show some. Try again in a moment."
    )]
    NotYetListed,
    /// Readers are asked to try later even if the table refuses every such call until a person
    /// grants a permission or changes a setting.
    #[error("The comments are temporarily out of reach. Try again later.")]
    TableUnavailable(#[source] StoreError),
    #[error("Too many requests are under way. Try again later.")]
    Overloaded,
    #[error("The request took too long. A write may have happened or not. Try again later.")]
    TimedOut,
    #[error("The server made a mistake; it has been logged.")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ApiError {
    pub(crate) fn invalid(field: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field: shortened(field.into()),
            problem: problem.into(),
        }
    }

    pub(crate) fn internal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(error.into())
    }

    /// The status, and the last part of the problem's type.
    fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid-input"),
            Self::BrokenBody(_) => (StatusCode::BAD_REQUEST, "broken-body"),
            Self::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large"),
            Self::NoRoomInItem { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "no-room-in-item"),
            Self::BodyTooSlow => (StatusCode::REQUEST_TIMEOUT, "body-too-slow"),
            Self::UnsupportedMediaType { .. } => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type")
            }
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::ScopeOff(TokenScope::ModerateComments) => {
                (StatusCode::FORBIDDEN, "moderation-off")
            }
            Self::ScopeOff(TokenScope::WriteComments | TokenScope::WriteProducts) => {
                (StatusCode::FORBIDDEN, "writes-off")
            }
            Self::NotAllowed(_) => (StatusCode::FORBIDDEN, "not-allowed"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "no-such-address"),
            Self::MethodNotAllowed { .. } => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed"),
            Self::NoSuchComment => (StatusCode::NOT_FOUND, "no-such-comment"),
            Self::NoSuchProduct => (StatusCode::NOT_FOUND, "no-such-product"),
            Self::FilterDoesNotMatch { .. } => (StatusCode::NOT_FOUND, "filter-does-not-match"),
            Self::PastTheEnd { .. } | Self::PastTheArchive { .. } => {
                (StatusCode::NOT_FOUND, "past-the-end")
            }
            Self::IdempotencyMismatch => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency-mismatch"),
            Self::RevisionMismatch { .. } | Self::PreconditionFailed { .. } => {
                (StatusCode::PRECONDITION_FAILED, "revision-mismatch")
            }
            Self::RevisionExcluded { .. } => (StatusCode::PRECONDITION_FAILED, "revision-excluded"),
            Self::Contended => (StatusCode::SERVICE_UNAVAILABLE, "contended"),
            Self::IndexUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "index-unavailable"),
            Self::NotYetListed => (StatusCode::SERVICE_UNAVAILABLE, "not-yet-listed"),
            Self::TableUnavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "table-unavailable"),
            Self::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            Self::TimedOut => (StatusCode::SERVICE_UNAVAILABLE, "timed-out"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }

    /// Logs an error for the operator once: when the answer is made. The index watch logs why the
    /// index is unavailable, and refused requests are counted. All other errors concern only the
    /// client.
    fn log(&self) {
        if let Self::Internal(error) = self {
            tracing::error!(error = &**error, "a request failed");
        } else if let Self::TableUnavailable(error) = self {
            match error.remedy() {
                Remedy::CallOperator => tracing::error!(%error, "the table refuses"),
                Remedy::TryAgain | Remedy::Quarantine => {
                    tracing::warn!(%error, "the table is unavailable")
                }
            }
        } else if let Self::TimedOut = self {
            tracing::warn!("a request took too long");
        } else if let Self::Contended = self {
            tracing::warn!("a change was given up: other writers were faster");
        }
    }

    pub(crate) fn answer(&self) -> HttpResponseBuilder {
        self.log();
        let status = self.kind().0;
        let mut answer = HttpResponse::build(status);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            answer.insert_header((header::RETRY_AFTER, RETRY_AFTER_SECONDS.to_string()));
        }
        if let Self::Unauthorized = self {
            answer.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
        }
        if let Self::NotAllowed(scope) = self {
            // RFC 6750, section 3.1.
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            answer.insert_header((header::WWW_AUTHENTICATE, challenge));
        }
        if let Self::MethodNotAllowed { allow } = self {
            answer.insert_header((header::ALLOW, *allow));
        }
        if let Self::RevisionMismatch { current }
        | Self::RevisionExcluded { current }
        | Self::PreconditionFailed {
            current: Some(current),
        } = self
        {
            answer.insert_header((header::ETAG, strong_tag(*current)));
        }
        answer.insert_header((header::CACHE_CONTROL, "no-store"));
        // Repeated here, because the layers around the handlers do not see an answer from a layer
        // outside them.
        answer.insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
        answer
    }
}

fn end_of_numbers(page: u64, archived: u64) -> String {
    if archived == 0 {
        return format!(
            "Page {page} lies past the end: no page has a number; all comments are on the page without one."
        );
    }
    format!(
        "Page {page} lies past the end: the newest numbered page is {archived}; \
         newer comments are on the page without a number."
    )
}

fn precondition_failed(current: Option<Revision>) -> String {
    match current {
        Some(current) => {
            format!(
                "The record of this product is at revision {current}, which If-Match or If-None-Match excludes."
            )
        }
        None => "This product has no record yet, so it is at no revision in If-Match.".to_owned(),
    }
}

/// The name of a field in a form that a message may repeat.
fn shortened(field: Cow<'static, str>) -> Cow<'static, str> {
    const FIELD_MAX_CHARS: usize = 80;
    match field.char_indices().nth(FIELD_MAX_CHARS) {
        Some((end, _)) => format!("{}…", field.get(..end).unwrap_or_default()).into(),
        None => field,
    }
}

/// Why a request is not answered as asked (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "urn:pagemark:problem:invalid-input", "title": "Bad Request", "status": 400,
    "detail": "rating: \"6\" is not a rating: 1 to 5", "field": "rating"
}))]
pub(crate) struct Problem<'problem> {
    /// Which problem: it stays the same, texts may change.
    #[schema(pattern = "^urn:pagemark:problem:[a-z-]+$")]
    r#type: String,
    /// What the status means.
    title: &'static str,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What was wrong, and what would be right.
    detail: String,
    /// The parameter, field, header or part of the path that breaks a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    field: Option<&'problem str>,
    /// The scope that the request needs, if the token lacks it or no token has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    scope: Option<String>,
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.kind().0
    }

    fn error_response(&self) -> HttpResponse {
        let (status, name) = self.kind();
        let problem = Problem {
            r#type: format!("urn:pagemark:problem:{name}"),
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: self.to_string(),
            field: if let Self::Invalid { field, .. } = self {
                Some(field)
            } else {
                None
            },
            scope: if let Self::ScopeOff(scope) | Self::NotAllowed(scope) = self {
                Some(scope.to_string())
            } else {
                None
            },
        };
        self.answer()
            .insert_header((header::CONTENT_TYPE, PROBLEM_JSON))
            .json(problem)
    }
}

impl From<InvalidInput> for ApiError {
    fn from(error: InvalidInput) -> Self {
        Self::invalid(error.field, error.problem)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error.remedy() {
            Remedy::TryAgain | Remedy::CallOperator => Self::TableUnavailable(error),
            Remedy::Quarantine => Self::internal(error),
        }
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NotFound => Self::NoSuchComment,
            // The id of a new comment has 80 random bits.
            WriteError::AlreadyExists => Self::internal(error),
            WriteError::RevisionMismatch { current } => Self::RevisionMismatch { current },
            WriteError::PreconditionFailed { current } => Self::PreconditionFailed { current },
            WriteError::IdempotencyMismatch => Self::IdempotencyMismatch,
            WriteError::Contended => Self::Contended,
            WriteError::Full { item_bytes } => Self::NoRoomInItem { item_bytes },
            WriteError::Invalid(error) => error.into(),
            WriteError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::ApiError;

    pub(crate) fn refused_field<T>(result: Result<T, ApiError>) -> String {
        match result {
            Err(ApiError::Invalid { field, .. }) => field.into_owned(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("accepted"),
        }
    }
}
