//! One comment: `/api/v1/comments/{id}` and its position.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::{Comment, CommentId, PageNumber, Revision};
use serde::Serialize;
use utoipa::ToSchema;

use super::CommentBody;
use crate::{
    error::ApiError,
    json::{
        body::Fields,
        conditional::{IfMatch, IfNoneMatch, etag},
        openapi::{
            self, BodyErrors, CommentPath, IfMatchHeader, IfNoneMatchHeader, LanguageParameter, NotAtRevision,
            NotFound, PortionParameters, RatingParameter, ReadErrors, WriteErrors,
        },
        request::{self, Parameters},
    },
    store::State,
};

/// A comment, as it is now.
#[utoipa::path(
    get,
    path = "/api/v1/comments/{id}",
    operation_id = "get_comment",
    tag = "comments",
    params(CommentPath),
    responses(
        (
            status = 200,
            description = "The comment",
            body = CommentBody<'static>,
            headers(("ETag" = String, description = "Its revision, for `If-Match`")),
        ),
        NotFound,
        ReadErrors,
    ),
)]
pub(crate) async fn get(request: HttpRequest, state: web::Data<State>) -> Result<HttpResponse, ApiError> {
    let id = request::comment_id(&request, 4)?;
    Parameters::read(&request, &[], &[])?;
    let comment = state.comment(&id).await?.ok_or(ApiError::NoSuchComment)?;
    let mut answer = answer(&comment);
    // The client may change next what it reads here, so no cache may answer.
    answer.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache"));
    Ok(answer)
}

/// A change of a comment.
#[utoipa::path(
    patch,
    path = "/api/v1/comments/{id}",
    operation_id = "change_comment",
    tag = "comments",
    params(CommentPath, IfMatchHeader, IfNoneMatchHeader),
    request_body(content(
        (openapi::CommentChange = "application/merge-patch+json"),
        (openapi::CommentChange = "application/json"),
    )),
    responses(
        (
            status = 200,
            description = "The comment after the change",
            body = CommentBody<'static>,
            headers(("ETag" = String, description = "Its new revision")),
        ),
        NotFound,
        BodyErrors,
        NotAtRevision,
        WriteErrors,
    ),
    security(("write_token" = [])),
)]
pub(crate) async fn patch(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<State>,
) -> Result<HttpResponse, ApiError> {
    state.write_tokens.check(&request)?;
    let id = request::comment_id(&request, 4)?;
    Parameters::read(&request, &[], &[])?;
    let preconditions = (IfMatch::read(&request)?, IfNoneMatch::read(&request)?);
    let accepted = &["application/json", "application/merge-patch+json"];
    let patch = Fields::read(&request, payload, accepted).await?.patch()?;
    let expected = expected_revision(&state, &id, preconditions).await?;
    Ok(answer(&state.patch(&id, expected, &patch).await?))
}

/// The end of a comment.
#[utoipa::path(
    delete,
    path = "/api/v1/comments/{id}",
    operation_id = "delete_comment",
    tag = "comments",
    params(CommentPath, IfMatchHeader, IfNoneMatchHeader),
    responses(
        (status = 204, description = "It is gone; pages stop showing it a moment later"),
        NotFound,
        NotAtRevision,
        WriteErrors,
    ),
    security(("write_token" = [])),
)]
pub(crate) async fn delete(request: HttpRequest, state: web::Data<State>) -> Result<HttpResponse, ApiError> {
    state.write_tokens.check(&request)?;
    let id = request::comment_id(&request, 4)?;
    Parameters::read(&request, &[], &[])?;
    let preconditions = (IfMatch::read(&request)?, IfNoneMatch::read(&request)?);
    let expected = expected_revision(&state, &id, preconditions).await?;
    state.delete(&id, expected).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// The revision that a write must find; `None` when any will do.
///
/// `If-Match` is evaluated first (RFC 9110 section 13.2.2). A comment never has a revision twice. So if `If-None-Match`
/// does not exclude a revision now, it does not exclude it when the write happens.
async fn expected_revision(
    state: &State,
    id: &CommentId,
    (if_match, if_none_match): (IfMatch, IfNoneMatch),
) -> Result<Option<Revision>, ApiError> {
    match &if_match {
        IfMatch::Any if if_none_match.is_open() => return Ok(None),
        IfMatch::OneOf(revisions) if if_none_match.is_open() && revisions.len() == 1 => {
            return Ok(revisions.first().copied());
        }
        IfMatch::Any | IfMatch::OneOf(_) => {}
    }
    let current = state.comment(id).await?.ok_or(ApiError::NoSuchComment)?.revision;
    let expected = match if_match {
        IfMatch::Any => None,
        // The write requires the current revision.
        IfMatch::OneOf(revisions) if revisions.contains(&current) => Some(current),
        IfMatch::OneOf(_) => return Err(ApiError::RevisionMismatch { current }),
    };
    if if_none_match.excludes(current) { Err(ApiError::RevisionExcluded { current }) } else { Ok(expected) }
}

fn answer(comment: &Comment) -> HttpResponse {
    HttpResponse::Ok().insert_header((header::ETAG, etag(comment.revision))).json(CommentBody::from(comment))
}

/// Where a comment stands in a listing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Position, example = json!({"page": 3, "position": 41, "total": 45}))]
pub(crate) struct PositionBody {
    /// The page that shows the comment.
    #[schema(value_type = u64, minimum = 1)]
    page: PageNumber,
    /// Its place in the whole listing, from 1.
    position: u64,
    /// How many comments the filter matches.
    total: u64,
}

/// Which page a comment is on under a filter.
#[utoipa::path(
    get,
    path = "/api/v1/comments/{id}/position",
    operation_id = "comment_position",
    tag = "comments",
    params(CommentPath, LanguageParameter, RatingParameter, PortionParameters),
    responses(
        (status = 200, description = "Its page and place", body = PositionBody),
        NotFound,
        ReadErrors,
    ),
)]
pub(crate) async fn position(request: HttpRequest, state: web::Data<State>) -> Result<HttpResponse, ApiError> {
    let id = request::comment_id(&request, 4)?;
    let parameters = Parameters::read(&request, &["language", "page_size", "order"], &["rating"])?;
    let (filter, page_size, order) = (parameters.filter()?, parameters.page_size()?, parameters.order()?);
    let comment = state.comment(&id).await?.ok_or(ApiError::NoSuchComment)?;
    if !filter.matches(&comment.placement()) {
        let (language, rating) = (comment.language.to_string(), comment.rating.get());
        return Err(ApiError::FilterDoesNotMatch { language, rating });
    }
    let position = state.position(&comment, &filter, order).await.ok_or(ApiError::IndexUnavailable)?;
    Ok(HttpResponse::Ok().json(PositionBody {
        page: PageNumber::of_rank(position.rank, page_size),
        position: position.rank + 1,
        total: position.total,
    }))
}
