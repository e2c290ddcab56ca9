//! `POST /api/v1/products/{product}/comments`

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::{ProductId, SiteData};
use sha2::{Digest, Sha256};
use table::{Created, Idempotency};

use super::{
    comment_body::CommentBody,
    comment_fields::{NewCommentBody, new_comment},
    fields::Fields,
    headers::IdempotencyKey,
    parameters::Parsed,
};
use crate::{callers::CommentWriter, error::ApiError, links, store::StoreClients};

/// A new comment.
///
/// Repeated with the same `Idempotency-Key` and the same body, it is answered as the first time,
/// whatever has happened to the comment since, and creates nothing. A key belongs to the token's
/// name and the product: with a token of another name, or for another product, it is another key.
#[utoipa::path(
    post,
    path = "/api/v1/products/{product}/comments",
    tag = "comments",
    params(Parsed<(ProductId, Option<IdempotencyKey>)>),
    request_body(content = NewCommentBody, content_type = "application/json"),
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
    let fields = Fields::read::<NewCommentBody>(&request, payload, &["application/json"]).await?;
    let new = new_comment(product, process::now(), &fields)?;
    let idempotency = match key {
        Some(IdempotencyKey(key)) => Some(Idempotency {
            client: writer.name.as_str().to_owned(),
            key,
            body_hash: body_hash(&new)?,
        }),
        None => None,
    };
    let (Created::New(comment) | Created::Before(comment)) =
        stores.create(&writer.name, new, idempotency).await?;
    let body = CommentBody::for_writer(&comment);
    Ok(HttpResponse::Created()
        .insert_header((header::LOCATION, links::api_comment(&comment.id)))
        .insert_header((header::ETAG, body.entity_tag()))
        .json(body))
}

/// Identifies a request to create this content, however it is spelled.
fn body_hash(new: &table::NewComment) -> Result<String, ApiError> {
    let table::NewComment {
        product,
        language,
        rating,
        text,
        site: SiteData {
            attributes,
            author_id,
        },
        ..
    } = new;
    let fields = (product, language, rating, text);
    // Without the site's data, the hash is that of earlier versions, whose records live on for a
    // day.
    let request = match (attributes, author_id) {
        (None, None) => serde_json::to_vec(&fields),
        site => serde_json::to_vec(&(fields, site)),
    };
    let request = request.map_err(ApiError::internal)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(request)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_for(product: &str, json: &str) -> String {
        let product = ProductId::parse(product).unwrap();
        let fields = Fields::parse::<NewCommentBody>(json.as_bytes()).unwrap();
        let new = new_comment(product, process::now(), &fields).unwrap();
        body_hash(&new).unwrap()
    }

    fn hash(json: &str) -> String {
        hash_for("p", json)
    }

    #[test]
    fn the_hash_of_a_request_does_not_depend_on_its_spelling() {
        let one =
            hash(r#"{"language": "PT-br", "rating": 5, "body": "b", "title": null, "author": ""}"#);
        assert_eq!(
            one,
            hash(r#"{"body":"\u0062","rating":5,"language":"pt-BR"}"#)
        );
        assert_ne!(one, hash(r#"{"body":"b","rating":4,"language":"pt-BR"}"#));
        assert_ne!(
            one,
            hash_for("q", r#"{"body":"b","rating":5,"language":"pt-BR"}"#)
        );
        assert_ne!(
            one,
            hash(r#"{"body":"b","rating":5,"language":"pt-BR","author_id":"7"}"#)
        );
        assert_ne!(
            one,
            hash(r#"{"body":"b","rating":5,"language":"pt-BR","attributes":{"a": 1}}"#)
        );
        assert_eq!(
            one, "PIYn9cu0fb81Uz4NKJ-G5wXLBgmRrgUB3wrABZ6gkHE",
            "records of earlier versions count"
        );
    }
}
