//! `POST /api/v1/products/{product}/comments`

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderName},
    web,
};
use model::CommentId;
use stores::table::{Created, Idempotency, NewComment};

use super::CommentBody;
use crate::{
    body::Fields,
    conditional::{etag, single_header},
    error::ApiError,
    links,
    request::{self, Parameters},
    state::State,
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest `Idempotency-Key`.
const IDEMPOTENCY_KEY_MAX_LEN: usize = 255;

/// Creates a comment.
pub(crate) async fn comment(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<State>,
) -> Result<HttpResponse, ApiError> {
    state.write_tokens.check(&request)?;
    let product = request::product(&request, 4)?;
    Parameters::read(&request, &[], &[])?;
    let idempotency_key = idempotency_key(&request)?;
    let content = Fields::read(&request, payload, &["application/json"]).await?.content()?;
    let idempotency = match idempotency_key {
        Some(key) => Some(Idempotency { key, body_hash: content.hash(&product)? }),
        None => None,
    };
    // One instant for both makes cursors at the comment shorter.
    let created_at = stores::now();
    let new = NewComment {
        id: CommentId::parse(&stores::new_ulid_at(created_at)).map_err(ApiError::internal)?,
        product,
        language: content.language,
        rating: content.rating,
        created_at,
        text: content.text,
    };
    // A repeated request gets the answer of the first one.
    let (Created::New(comment) | Created::Before(comment)) = state.create(new, idempotency).await?;
    Ok(HttpResponse::Created()
        .insert_header((header::LOCATION, links::api_comment(&comment.id)))
        .insert_header((header::ETAG, etag(comment.revision)))
        .json(CommentBody::from(&comment)))
}

fn idempotency_key(request: &HttpRequest) -> Result<Option<String>, ApiError> {
    let Some(key) = single_header(request, &IDEMPOTENCY_KEY)? else { return Ok(None) };
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_MAX_LEN || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!("must be 1 to {IDEMPOTENCY_KEY_MAX_LEN} visible ASCII characters");
        return Err(ApiError::invalid("Idempotency-Key", problem));
    }
    Ok(Some(key.to_owned()))
}
