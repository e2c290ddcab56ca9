//! The JSON API and the health checks.

mod comment;
mod create;
mod list;
pub(crate) mod stats;

use actix_web::{HttpRequest, Route, guard, web};

use crate::{
    error::{ApiError, Audience},
    health,
};

/// Registers everything under `/api/v1`, `/livez` and `/readyz`.
pub(crate) fn configure(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource("/api/v1/products/{product}/comments")
                .route(get().to(list::comments))
                .route(web::post().to(create::comment))
                .default_service(not_allowed("GET, HEAD, POST")),
        )
        .service(
            web::resource("/api/v1/products/{product}/stats")
                .route(get().to(stats::product))
                .default_service(not_allowed("GET, HEAD")),
        )
        .service(
            web::resource("/api/v1/comments/{id}")
                .route(get().to(comment::get))
                .route(web::patch().to(comment::patch))
                .route(web::delete().to(comment::delete))
                .default_service(not_allowed("GET, HEAD, PATCH, DELETE")),
        )
        .service(
            web::resource("/api/v1/comments/{id}/position")
                .route(get().to(comment::position))
                .default_service(not_allowed("GET, HEAD")),
        )
        .service(web::resource("/livez").route(get().to(health::livez)).default_service(not_allowed("GET, HEAD")))
        .service(web::resource("/readyz").route(get().to(health::readyz)).default_service(not_allowed("GET, HEAD")));
}

/// GET and HEAD: the answer to HEAD is that to GET without its body.
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

/// A comment as the API shows it.
#[derive(Debug, serde::Serialize)]
pub(crate) struct CommentBody<'comment> {
    id: &'comment str,
    product: &'comment str,
    language: &'comment str,
    rating: u8,
    created_at: model::Instant,
    title: Option<&'comment str>,
    body: &'comment str,
    author: Option<&'comment str>,
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
mod tests;
