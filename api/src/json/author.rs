//! `GET /api/v1/authors/{author_id}/comments`

use actix_web::{HttpResponse, web};
use model::{AuthorId, CommentId, PageSize};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    comment_body::{self, CommentBody},
    parameters::{AUTHOR_ID, AUTHORS_CURSOR, FromParameters, Given, Parsed},
};
use crate::{
    callers::WriterOrModerator, error::ApiError, http::caching::NO_STORE, links, site::Site,
    store::StoreClients,
};

pub(crate) struct AuthorRequest {
    author: AuthorId,
    page_size: PageSize,
    after: Option<CommentId>,
}

impl FromParameters for AuthorRequest {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            author: given.in_path(&AUTHOR_ID)?,
            page_size: FromParameters::read(given)?,
            after: given.get(&AUTHORS_CURSOR)?,
        })
    }
}

/// Some comments of an author.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CommentsOfAuthor, example = example)]
pub(crate) struct CommentsOfAuthorBody<'page> {
    /// Ordered by their ids, whatever their products. Those made here begin with their time.
    comments: Vec<CommentBody<'page>>,
    cursor: NextBody,
    links: NextBody,
}

/// What leads on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Next)]
pub(crate) struct NextBody {
    /// Null at the end.
    #[schema(required)]
    pub(super) next: Option<String>,
}

fn example() -> serde_json::Value {
    let comment = comment_body::example_with("author_id", "customer-4711");
    let path = "/api/v1/authors/customer-4711/comments";
    serde_json::json!({
        "comments": [comment], "cursor": {"next": "01JCP3D7W0K2V6H9QF1T8MZ4XB"},
        "links": {"next": format!("{path}?page_size=1&cursor=01JCP3D7W0K2V6H9QF1T8MZ4XB")},
    })
}

/// All comments of an author, page by page.
///
/// A page may be shorter than `page_size` although more follow: the end is where `next` is null. A
/// comment that was posted in the last second may be missing.
#[utoipa::path(
    get,
    path = "/api/v1/authors/{author_id}/comments",
    tag = "comments",
    params(Parsed<AuthorRequest>),
    responses((status = 200, description = "The comments; none of an unknown author", body = CommentsOfAuthorBody<'static>)),
    security(("token" = ["comments:write"]), ("token" = ["comments:moderate"])),
)]
pub(crate) async fn list_comments_of_author(
    _: WriterOrModerator,
    Parsed(AuthorRequest {
        author,
        page_size,
        after,
    }): Parsed<AuthorRequest>,
    stores: web::Data<StoreClients>,
    site: web::Data<Site>,
) -> Result<HttpResponse, ApiError> {
    let part = stores
        .comments_of_author(&author, after.as_ref(), page_size)
        .await?;
    let next = part.next.as_ref();
    let path = format!(
        "{}{}",
        site.public_url.base_path,
        links::api_author(&author)
    );
    let comments = part.rows.iter().filter_map(|row| row.as_ref().ok());
    let body = CommentsOfAuthorBody {
        comments: comments.map(CommentBody::for_writer).collect(),
        cursor: NextBody {
            next: next.map(ToString::to_string),
        },
        links: NextBody {
            next: next.map(|id| format!("{path}?page_size={page_size}&cursor={id}")),
        },
    };
    Ok(HttpResponse::Ok().insert_header(NO_STORE).json(body))
}
