//! One comment: `/api/v1/comments/{id}` and its position.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::{CommentId, Filter, ListingOrder, PageNumber, PageSize};
use serde::Serialize;
use table::CommentPatch;
use utoipa::ToSchema;

use super::{
    comment_body::CommentBody,
    comment_fields::{CommentChangeBody, change},
    fields::Fields,
    headers::Conditions,
    parameters::{FromParameters, Given, NUMBERING, ORDER, Parsed},
};
use crate::{
    callers::{AnyCaller, CommentWriter, WriterOrModerator},
    error::ApiError,
    read::{ListingQuery, page::position_by_rating},
    secrets::TokenScope,
    store::StoreClients,
};

/// A comment, as it is now. With a token, also its author's id, and then another entity tag.
/// `If-Match` takes either.
///
/// One that is not published is shown only to a token with the scope `comments:moderate`; to others
/// it does not exist.
#[utoipa::path(
    get,
    path = "/api/v1/comments/{id}",
    tag = "comments",
    params(Parsed<CommentId>),
    responses(
        (
            status = 200,
            description = "The comment",
            body = CommentBody<'static>,
            headers(("ETag" = String, description = "Its revision, for `If-Match`")),
        ),
    ),
)]
pub(crate) async fn get_comment(
    AnyCaller(caller): AnyCaller,
    Parsed(id): Parsed<CommentId>,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    let is_writer = caller.may(TokenScope::WriteComments);
    let is_moderator = caller.may(TokenScope::ModerateComments);
    let comment = stores.comment_of_any_status(&id).await?;
    let comment = comment.ok_or(ApiError::NoSuchComment)?;
    let is_published = comment.status.is_published();
    if !is_published && !is_moderator {
        return Err(ApiError::NoSuchComment);
    }
    let is_known = is_writer || is_moderator;
    let body = if is_known {
        CommentBody::for_writer(&comment)
    } else {
        CommentBody::from(&comment)
    };
    // The client may change next what it reads here, so no cache may answer. No shared cache may
    // keep the author's id, and none at all what readers do not see.
    let caching = if !is_published {
        "no-store"
    } else if is_known {
        "private, no-cache"
    } else {
        "no-cache"
    };
    let mut answer = HttpResponse::Ok();
    answer
        .insert_header((header::ETAG, body.entity_tag()))
        .insert_header((header::CACHE_CONTROL, caching));
    Ok(answer
        .append_header((header::VARY, "Authorization"))
        .json(body))
}

/// Which comment to write, and on which conditions.
type CommentTarget = (CommentId, Conditions);

/// A change of a comment.
///
/// Its status needs the scope `comments:moderate`, everything else `comments:write`. A published
/// comment takes the place that its creation time gives it in every listing.
#[utoipa::path(
    patch,
    path = "/api/v1/comments/{id}",
    tag = "comments",
    params(Parsed<CommentTarget>),
    request_body(content(
        (CommentChangeBody = "application/merge-patch+json"),
        (CommentChangeBody = "application/json"),
    )),
    responses(
        (
            status = 200,
            description = "The comment after the change",
            body = CommentBody<'static>,
            headers(("ETag" = String, description = "Its new revision")),
        ),
    ),
    security(("token" = ["comments:write"]), ("token" = ["comments:moderate"])),
)]
pub(crate) async fn change_comment(
    WriterOrModerator(caller): WriterOrModerator,
    Parsed((id, conditions)): Parsed<CommentTarget>,
    request: HttpRequest,
    payload: web::Payload,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    let accepted = &["application/json", "application/merge-patch+json"];
    let patch = change(&Fields::read::<CommentChangeBody>(&request, payload, accepted).await?)?;
    if patch.status.is_some() {
        caller.check(TokenScope::ModerateComments)?;
    }
    let without_status = CommentPatch {
        status: None,
        ..patch.clone()
    };
    if without_status != CommentPatch::default() {
        caller.check(TokenScope::WriteComments)?;
    }
    let patched = stores
        .patch(
            caller.token_name()?,
            &id,
            |comment| conditions.hold(Some(comment.revision)),
            &patch,
        )
        .await;
    let comment = patched.map_err(|error| conditions.refused(error))?;
    let body = CommentBody::for_writer(&comment);
    Ok(HttpResponse::Ok()
        .insert_header((header::ETAG, body.entity_tag()))
        .json(body))
}

/// The end of a comment.
#[utoipa::path(
    delete,
    path = "/api/v1/comments/{id}",
    tag = "comments",
    params(Parsed<CommentTarget>),
    responses((status = 204, description = "It is gone; pages stop showing it a moment later")),
    security(("token" = ["comments:write"])),
)]
pub(crate) async fn delete_comment(
    CommentWriter(writer): CommentWriter,
    Parsed((id, conditions)): Parsed<CommentTarget>,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    let deleted = stores
        .delete(&writer.name, &id, |comment| {
            conditions.hold(Some(comment.revision))
        })
        .await;
    deleted.map_err(|error| conditions.refused(error))?;
    Ok(HttpResponse::NoContent().finish())
}

pub(crate) struct PositionRequest {
    id: CommentId,
    filter: Filter,
    page_size: PageSize,
    order: ListingOrder,
    is_stable: bool,
}

impl FromParameters for PositionRequest {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        let ((id, filter), page_size) = FromParameters::read(given)?;
        let order = given.get(&ORDER)?;
        let stable = given.get(&NUMBERING)?;
        if stable.is_some() {
            given.check_absent([ORDER.name], NUMBERING.name)?;
        }
        Ok(Self {
            id,
            filter,
            page_size,
            order: order.unwrap_or_default(),
            is_stable: stable.is_some(),
        })
    }
}

/// Where a comment stands in a listing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Position, example = json!({"page": 3, "position": 41, "total": 45}))]
pub(crate) struct PositionBody {
    /// The page that shows the comment; null for the front page of stable numbering.
    #[schema(value_type = Option<u64>, minimum = 1, required)]
    page: Option<PageNumber>,
    /// Its place in the whole listing, from 1. In stable numbering, the newest comment is the first
    /// too.
    position: u64,
    /// How many comments the filter matches.
    total: u64,
}

/// Which page a comment is on under a filter.
#[utoipa::path(
    get,
    path = "/api/v1/comments/{id}/position",
    tag = "comments",
    params(Parsed<PositionRequest>),
    responses((status = 200, description = "Its page and place", body = PositionBody)),
)]
pub(crate) async fn comment_position(
    Parsed(request): Parsed<PositionRequest>,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    let PositionRequest {
        id,
        filter,
        page_size,
        order,
        is_stable,
    } = request;
    let comment = stores.comment(&id).await?.ok_or(ApiError::NoSuchComment)?;
    if !filter.matches(&comment.placement()) {
        return Err(ApiError::FilterDoesNotMatch {
            language: comment.language.to_string(),
            rating: comment.rating.get(),
        });
    }
    let listing = ListingQuery {
        product: comment.product.clone(),
        filter,
        order,
        page_size,
    };
    let position = if order.is_by_rating() {
        position_by_rating(&stores, &listing, &comment).await
    } else {
        stores.position(&comment, &listing.filter).await
    };
    let position = position.ok_or(ApiError::IndexUnavailable)?;
    Ok(HttpResponse::Ok().json(PositionBody {
        page: listing.number_of(is_stable, position),
        position: listing.number_in_listing(position),
        total: position.total,
    }))
}
