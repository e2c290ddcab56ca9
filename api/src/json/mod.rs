//! The JSON API.

pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod comment;
pub(crate) mod conditional;
pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod openapi;
pub(crate) mod request;
pub(crate) mod stats;

use actix_web::{HttpRequest, Route, guard, middleware::from_fn, web};

use crate::{
    error::{ApiError, Audience},
    http::{caching, compression},
};

/// Registers everything under `/api/v1`.
pub(crate) fn configure(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource("/api/v1/products/{product}/comments")
                .route(get().to(list::comments))
                .route(web::post().to(create::comment))
                .wrap(from_fn(caching::revalidate))
                .wrap(from_fn(compression::compress))
                .default_service(not_allowed("GET, HEAD, POST")),
        )
        .service(
            web::resource("/api/v1/products/{product}/stats")
                .route(get().to(stats::product))
                .wrap(from_fn(caching::revalidate))
                .wrap(from_fn(compression::compress))
                .default_service(not_allowed("GET, HEAD")),
        )
        .service(
            web::resource("/api/v1/comments/{id}")
                .route(get().to(comment::get))
                .route(web::patch().to(comment::patch))
                .route(web::delete().to(comment::delete))
                // Not compressed: its entity tag is strong, and so stands for the exact bytes.
                .wrap(from_fn(caching::revalidate))
                .default_service(not_allowed("GET, HEAD, PATCH, DELETE")),
        )
        .service(
            web::resource("/api/v1/comments/{id}/position")
                .route(get().to(comment::position))
                .wrap(from_fn(caching::revalidate))
                .default_service(not_allowed("GET, HEAD")),
        );
}

/// GET and HEAD: a HEAD request gets the answer to GET without the body.
pub(crate) fn get() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

/// Answers all other methods of a resource.
pub(crate) fn not_allowed(allow: &'static str) -> Route {
    web::to(move |request: HttpRequest| async move {
        let error = ApiError::MethodNotAllowed { allow };
        Err::<&'static str, _>(Audience::of_path(request.path()).error(error))
    })
}

/// Answers all other addresses.
pub(crate) async fn no_route(request: HttpRequest) -> Result<&'static str, actix_web::Error> {
    Err(Audience::of_path(request.path()).error(ApiError::NoRoute))
}

/// A comment.
#[derive(Debug, serde::Serialize, utoipa::ToSchema)]
#[schema(as = Comment, example = json!({
    "id": "01JCP3D7W0K2V6H9QF1T8MZ4XB", "product": "espresso-machine", "language": "en", "rating": 5,
    "created_at": "2024-11-14T09:21:05.600Z", "title": "Well made", "body": "Two years, every day.\nNo trouble.",
    "author": "Ada", "revision": "01JCP3D7W0Q4N1R5Y8B3C6D9EF"
}))]
pub(crate) struct CommentBody<'comment> {
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    id: &'comment str,
    product: &'comment str,
    /// A BCP 47 tag.
    language: &'comment str,
    #[schema(minimum = 1, maximum = 5)]
    rating: u8,
    /// When it was made; it never changes.
    #[schema(value_type = String, format = DateTime)]
    created_at: model::Timestamp,
    #[schema(required)]
    title: Option<&'comment str>,
    body: &'comment str,
    #[schema(required)]
    author: Option<&'comment str>,
    /// Its version, a ULID: in quotes it is its entity tag.
    #[schema(value_type = String)]
    revision: model::Revision,
}

impl<'comment> From<&'comment model::Comment> for CommentBody<'comment> {
    fn from(comment: &'comment model::Comment) -> Self {
        Self {
            id: comment.id.as_str(),
            product: comment.product.as_str(),
            language: comment.language.as_str(),
            rating: comment.rating.get(),
            created_at: comment.created_at,
            title: comment.text.title.as_deref(),
            body: &comment.text.body,
            author: comment.text.author.as_deref(),
            revision: comment.revision,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
