//! `POST /api/v1/products/{product}/comments`

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::ProductId;

use super::{
    comment_body::CommentBody,
    fields::read_content,
    headers::{IDEMPOTENCY_KEY, idempotency_key},
    parameters::{PRODUCT, Parameter, Parsed, Query, Request},
};
use crate::{
    error::{ApiError, PROBLEM_JSON, Problem},
    http::{entity_tag::strong_tag, path_and_query},
    links,
    store::StoreClients,
    tokens::CommentWriter,
    write::{self, IdempotencyKey, content::NewContent},
};

pub(crate) struct CreateRequest {
    product: ProductId,
    key: Option<IdempotencyKey>,
}

impl Request for CreateRequest {
    const PARAMETERS: &'static [&'static Parameter] = &[&PRODUCT, &IDEMPOTENCY_KEY];

    fn read(request: &HttpRequest) -> Result<Self, ApiError> {
        let product = path_and_query::new_product(request, 4)?;
        Query::read(request, Self::PARAMETERS)?;
        Ok(Self { product, key: idempotency_key(request)? })
    }
}

/// A new comment.
///
/// Repeated with the same `Idempotency-Key` and the same body, it is answered as the first time, whatever has happened to
/// the comment since, and creates nothing. A key belongs to the token's name and the product: with a token of another
/// name, or for another product, it is another key.
#[utoipa::path(
    post,
    path = "/api/v1/products/{product}/comments",
    tag = "comments",
    params(Parsed<CreateRequest>),
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
        (
            status = 409,
            description = "The comment that this `Idempotency-Key` created has been deleted since, and an earlier \
                           version of the service created it",
            body = Problem<'static>,
            content_type = PROBLEM_JSON,
        ),
        (
            status = 422,
            description = "This `Idempotency-Key` was used for another request",
            body = Problem<'static>,
            content_type = PROBLEM_JSON,
        ),
    ),
    security(("token" = ["comments:write"])),
)]
pub(crate) async fn create_comment(
    CommentWriter(writer): CommentWriter,
    Parsed(CreateRequest { product, key }): Parsed<CreateRequest>,
    request: HttpRequest,
    payload: web::Payload,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    let content = read_content(&request, payload).await?;
    let comment = write::create(&stores, product, content, &writer, key).await?;
    Ok(HttpResponse::Created()
        .insert_header((header::LOCATION, links::api_comment(&comment.id)))
        .insert_header((header::ETAG, strong_tag(comment.revision)))
        .json(CommentBody::for_writer(&comment)))
}
