//! The JSON API, under `/api/v1`.
//!
//! Each operation has a request type (`parameters::FromParameters`), which reads the request and
//! describes it for `/openapi.json`. The schema of a body names its fields (`fields`). A handler's
//! name is the id of its operation there.

mod author;
mod comment;
mod comment_body;
mod comment_fields;
mod create;
mod explanation;
mod fields;
mod headers;
mod list;
mod moderation;
pub(crate) mod openapi;
mod parameters;
mod product;
mod product_list;
mod responses;
mod schema;
mod stats;
mod summaries;

use actix_web::web;

use crate::http::routing::{cached, get};

/// Registers the operations and their description.
pub(crate) fn configure(config: &mut web::ServiceConfig, max_age_seconds: u32) {
    let age = max_age_seconds;
    config
        .service(
            cached("/api/v1/products", "GET, HEAD", age)
                .route(get().to(product_list::list_products)),
        )
        .service(
            cached(
                "/api/v1/products/{product}/comments",
                "GET, HEAD, POST",
                age,
            )
            .route(get().to(list::list_comments))
            .route(web::post().to(create::create_comment)),
        )
        .service(
            cached("/api/v1/products/{product}", "GET, HEAD, PUT, DELETE", age)
                .route(get().to(product::get_product))
                .route(web::put().to(product::put_product))
                .route(web::delete().to(product::delete_product)),
        )
        .service(
            cached("/api/v1/products/{product}/stats", "GET, HEAD", age)
                .route(get().to(stats::product_stats)),
        )
        .service(
            cached("/api/v1/stats", "GET, HEAD", age).route(get().to(summaries::stats_of_products)),
        )
        .service(
            cached("/api/v1/comments/{id}", "GET, HEAD, PATCH, DELETE", age)
                .route(get().to(comment::get_comment))
                .route(web::patch().to(comment::change_comment))
                .route(web::delete().to(comment::delete_comment)),
        )
        .service(
            cached("/api/v1/comments/{id}/position", "GET, HEAD", age)
                .route(get().to(comment::comment_position)),
        )
        .service(
            cached("/api/v1/authors/{author_id}/comments", "GET, HEAD", age)
                .route(get().to(author::list_comments_of_author)),
        )
        .service(
            cached("/api/v1/moderation", "GET, HEAD", age)
                .route(get().to(moderation::list_unpublished)),
        )
        .service(cached("/openapi.json", "GET, HEAD", age).route(get().to(openapi::description)));
}

#[cfg(test)]
pub(crate) mod tests;
