//! `GET /api/v1/moderation`: the comments that readers do not see, for moderators.

use actix_web::{HttpResponse, web};
use model::{Cd, Comment, PageSize, Status};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{
    author::NextBody,
    comment_body::{self, CommentBody},
    parameters::{FromParameters, Given, MODERATION_CURSOR, Parsed, STATUS},
};
use crate::{
    callers::Moderator,
    error::ApiError,
    http::caching::NO_STORE,
    read::cursor::{Cursor, CursorSealer, Direction},
    store::StoreClients,
};

/// Maximum number of queries for one page. Each reads a megabyte unless the list ends, so only
/// malformed items need more than two.
const QUERIES_MAX: usize = 4;

pub(crate) struct ModerationRequest {
    status: Status,
    page_size: PageSize,
    cursor: Option<String>,
}

impl FromParameters for ModerationRequest {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        let status = given.get(&STATUS)?.unwrap_or(Status::Pending);
        Ok(Self {
            status,
            page_size: FromParameters::read(given)?,
            cursor: given.get(&MODERATION_CURSOR)?,
        })
    }
}

/// A page of comments that readers do not see.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModerationPage, example = example)]
pub(crate) struct ModerationBody<'page> {
    comments: Vec<CommentBody<'page>>,
    cursor: NextBody,
}

fn example() -> serde_json::Value {
    json!({"comments": [comment_body::example_with("status", "pending")], "cursor": {"next": null}})
}

/// The comments that readers do not see, oldest first.
///
/// A comment that is published, hidden or deleted leaves its list a moment later, and moves no
/// other. A cursor continues after its comment, wherever that comment is now.
#[utoipa::path(
    get,
    path = "/api/v1/moderation",
    tag = "moderation",
    params(Parsed<ModerationRequest>),
    responses((status = 200, description = "The page", body = ModerationBody<'static>)),
    security(("token" = ["comments:moderate"])),
)]
pub(crate) async fn list_unpublished(
    _: Moderator,
    Parsed(ModerationRequest {
        status,
        page_size,
        cursor,
    }): Parsed<ModerationRequest>,
    stores: web::Data<StoreClients>,
    cursors: web::Data<CursorSealer>,
) -> Result<HttpResponse, ApiError> {
    let list = [
        b"moderation".to_vec(),
        status.as_str().as_bytes().to_vec(),
        vec![page_size.get()],
    ];
    let after = match cursor {
        Some(cursor) => Some(cursors.open(&list, &cursor)?.at),
        None => None,
    };
    let (comments, next) = page(&stores, status, page_size, after).await?;
    let next = next.map(|at| {
        let direction = Direction::Forward;
        cursors.seal(&list, &Cursor::new(direction, at))
    });
    let body = ModerationBody {
        comments: comments.iter().map(CommentBody::from).collect(),
        cursor: NextBody { next },
    };
    Ok(HttpResponse::Ok().insert_header(NO_STORE).json(body))
}

/// The comments of a page, and the position of its last one if more may follow.
async fn page(
    stores: &StoreClients,
    status: Status,
    page_size: PageSize,
    after: Option<Cd>,
) -> Result<(Vec<Comment>, Option<Cd>), ApiError> {
    let size = usize::from(page_size.get());
    let mut comments: Vec<Comment> = Vec::with_capacity(size + 1);
    let mut from = None;
    for _ in 0..QUERIES_MAX {
        // One more, which shows whether a page follows.
        let limit = u16::try_from(size + 1 - comments.len()).unwrap_or(u16::MAX);
        let part = stores
            .moderation_part(status, after.as_ref(), from, limit)
            .await?;
        comments.extend(part.rows.into_iter().flatten());
        from = part.next;
        if from.is_none() || comments.len() > size {
            break;
        }
    }
    let has_more = from.is_some() || comments.len() > size;
    comments.truncate(size);
    let next = if has_more {
        comments.last().map(Comment::cd)
    } else {
        None
    };
    Ok((comments, next))
}
