//! Compressing answers as part of the requests that they answer.
//!
//! actix's middleware [`Compress`](actix_web::middleware::Compress) compresses while an answer is being sent. By then its
//! request does not count as under way any more, and nothing would bound that work, measure it, or turn readers away for it.
//!
//! **Invariant:** an answer is compressed within the request's time and while it is one of those under way, and is sent
//! whole (`a_compressed_answer_is_whole_before_it_is_sent`). Its texts are in memory anyway.

use actix_web::{
    Error, HttpMessage,
    body::{BodySize, BoxBody, MessageBody, to_bytes},
    dev::{ServiceRequest, ServiceResponse},
    http::header::{self, AcceptEncoding, Encoding},
    middleware::Next,
};

use crate::error::{ApiError, Audience};

/// Takes answers that are made while they are sent, which are the compressed ones, and makes them whole. It stands around
/// whatever compresses, and within what bounds requests.
///
/// A client that takes neither a coding that there is nor a plain answer gets a plain one: RFC 9110 (section 12.5.3) lets a
/// server do without the header, and a text that can be read helps more than a refusal.
pub(crate) async fn within_the_request<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let codings = [Encoding::identity(), Encoding::brotli(), Encoding::gzip(), Encoding::deflate()];
    let accepted = request.get_header::<AcceptEncoding>();
    if accepted.is_some_and(|accepted| accepted.negotiate(codings.iter()).is_none()) {
        request.headers_mut().remove(header::ACCEPT_ENCODING);
    }
    let audience = Audience::of_path(request.path());
    let answer = next.call(request).await?;
    if answer.response().body().size() != BodySize::Stream {
        return Ok(answer.map_into_boxed_body());
    }
    let (request, answer) = answer.into_parts();
    let (answer, body) = answer.into_parts();
    let failed = |error: B::Error| audience.error(ApiError::internal(error.into().to_string()));
    let body = to_bytes(body).await.map_err(failed)?;
    Ok(ServiceResponse::new(request, answer.set_body(BoxBody::new(body))))
}
