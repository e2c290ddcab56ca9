//! `POST /api/v1/products/{product}/comments`

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderName},
    web,
};
use model::{Comment, CommentId, ProductId};
use table::{Created, Idempotency, NewComment};

use super::CommentBody;
use crate::{
    error::ApiError,
    json::{
        body::{Content, Fields},
        conditional::{etag, single_header},
        openapi::{self, BodyErrors, IdempotencyKeyHeader, ProductPath, RepeatedDifferently, WriteErrors},
        request::{self, Parameters},
    },
    links,
    settings::WriteTokenHash,
    store::State,
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest `Idempotency-Key`.
pub(crate) const IDEMPOTENCY_KEY_MAX_LEN: usize = 255;

/// A new comment.
///
/// Repeated with the same `Idempotency-Key` and the same body, it is answered as the first time, whatever has happened to
/// the comment since, and creates nothing. A key belongs to the token and the product: with another token, or for another
/// product, it is another key.
#[utoipa::path(
    post,
    path = "/api/v1/products/{product}/comments",
    operation_id = "create_comment",
    tag = "comments",
    params(ProductPath, IdempotencyKeyHeader),
    request_body(content = openapi::NewComment, content_type = "application/json"),
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
        BodyErrors,
        RepeatedDifferently,
        WriteErrors,
    ),
    security(("write_token" = [])),
)]
pub(crate) async fn comment(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<State>,
) -> Result<HttpResponse, ApiError> {
    let writer = state.write_tokens.check(&request)?;
    let product = request::product(&request, 4)?;
    Parameters::read(&request, &[], &[])?;
    let key = idempotency_key(&request)?.map(|key| OwnedKey { writer, key });
    let content = Fields::read(&request, payload, &["application/json"]).await?.content()?;
    let comment = create(&state, product, content, key).await?;
    Ok(HttpResponse::Created()
        .insert_header((header::LOCATION, links::api_comment(&comment.id)))
        .insert_header((header::ETAG, etag(comment.revision)))
        .json(CommentBody::from(&comment)))
}

/// A client's key, and the token that it was sent with: only the two together identify a request.
pub(crate) struct OwnedKey {
    pub(crate) writer: WriteTokenHash,
    pub(crate) key: String,
}

/// Creates a comment, dated now. A request whose key was used before gets the comment that was created then.
///
/// # Errors
/// The key was used for another request; the table's.
pub(crate) async fn create(
    state: &State,
    product: ProductId,
    content: Content,
    key: Option<OwnedKey>,
) -> Result<Comment, ApiError> {
    let idempotency = match key {
        Some(OwnedKey { writer, key }) => {
            Some(Idempotency { client: writer.to_string(), key, body_hash: content.hash(&product)? })
        }
        None => None,
    };
    // One instant for both makes cursors at the comment shorter.
    let created_at = process::now();
    let new = NewComment {
        id: CommentId::parse(&process::new_ulid_at(created_at)).map_err(ApiError::internal)?,
        product,
        language: content.language,
        rating: content.rating,
        created_at,
        text: content.text,
    };
    // A repeated request gets the answer of the first one.
    let (Created::New(comment) | Created::Before(comment)) = state.create(new, idempotency).await?;
    Ok(comment)
}

fn idempotency_key(request: &HttpRequest) -> Result<Option<String>, ApiError> {
    single_header(request, &IDEMPOTENCY_KEY)?.map(parse_idempotency_key).transpose()
}

/// A key that distinguishes repeated requests from new ones.
///
/// # Errors
/// The key is empty, too long, or has other characters.
pub(crate) fn parse_idempotency_key(key: &str) -> Result<String, ApiError> {
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_MAX_LEN || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!("must be 1 to {IDEMPOTENCY_KEY_MAX_LEN} visible ASCII characters");
        return Err(ApiError::invalid("Idempotency-Key", problem));
    }
    Ok(key.to_owned())
}
