//! `POST /api/v1/products/{product}/comments`

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::ProductId;

use super::{comment_body::CommentBody, fields, parameters::Parsed};
use crate::{
    error::ApiError,
    http::entity_tag::strong_tag,
    links,
    store::StoreClients,
    tokens::CommentWriter,
    write::{self, IdempotencyKey, content::NewContent},
};

/// A new comment.
///
/// Repeated with the same `Idempotency-Key` and the same body, it is answered as the first time, whatever has happened to
/// the comment since, and creates nothing. A key belongs to the token's name and the product: with a token of another
/// name, or for another product, it is another key.
#[utoipa::path(
    post,
    path = "/api/v1/products/{product}/comments",
    tag = "comments",
    params(Parsed<(ProductId, Option<IdempotencyKey>)>),
    request_body(content = NewContent, content_type = "application/json"),
    responses(
        (
            status = 201,
            description = "The comment; pages show it a moment later",
            body = CommentBody<'static>,
            headers(
                ("Location" = String, description = "Its address"),
                ("ETag" = String, description = "Its revision, for `If-Match`"),
            ),
            links(
                ("read" = (operation_id = "get_comment", parameters(("id" = "$response.body#/id")))),
                ("change" = (operation_id = "change_comment", parameters(("id" = "$response.body#/id")))),
                ("delete" = (operation_id = "delete_comment", parameters(("id" = "$response.body#/id")))),
                ("position" = (operation_id = "comment_position", parameters(("id" = "$response.body#/id")))),
            ),
        ),
    ),
    security(("token" = ["comments:write"])),
)]
pub(crate) async fn create_comment(
    CommentWriter(writer): CommentWriter,
    Parsed((product, key)): Parsed<(ProductId, Option<IdempotencyKey>)>,
    request: HttpRequest,
    payload: web::Payload,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    ProductId::parse(product.as_str())?;
    let content = NewContent::of_fields(&fields::read(&request, payload, &["application/json"]).await?)?;
    let comment = write::create(&stores, product, content, &writer, key).await?;
    Ok(HttpResponse::Created()
        .insert_header((header::LOCATION, links::api_comment(&comment.id)))
        .insert_header((header::ETAG, strong_tag(comment.revision)))
        .json(CommentBody::for_writer(&comment)))
}
