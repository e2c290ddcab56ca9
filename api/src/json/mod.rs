//! The JSON API, under `/api/v1`.
//!
//! Each operation has a request type (`parameters::FromParameters`), which reads the request and
//! describes it for `/openapi.json`. The schema of a body names its fields (`fields`). A handler's name is
//! the id of its operation there.

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
    let resource = |path, allow| cached(path, allow, max_age_seconds);
    config
        .service(
            resource("/api/v1/products", "GET, HEAD").route(get().to(product_list::list_products)),
        )
        .service(
            resource("/api/v1/products/{product}/comments", "GET, HEAD, POST")
                .route(get().to(list::list_comments))
                .route(web::post().to(create::create_comment)),
        )
        .service(
            resource("/api/v1/products/{product}", "GET, HEAD, PUT, DELETE")
                .route(get().to(product::get_product))
                .route(web::put().to(product::put_product))
                .route(web::delete().to(product::delete_product)),
        )
        .service(
            resource("/api/v1/products/{product}/stats", "GET, HEAD")
                .route(get().to(stats::product_stats)),
        )
        .service(
            resource("/api/v1/stats", "GET, HEAD").route(get().to(summaries::stats_of_products)),
        )
        .service(
            resource("/api/v1/comments/{id}", "GET, HEAD, PATCH, DELETE")
                .route(get().to(comment::get_comment))
                .route(web::patch().to(comment::change_comment))
                .route(web::delete().to(comment::delete_comment)),
        )
        .service(
            resource("/api/v1/comments/{id}/position", "GET, HEAD")
                .route(get().to(comment::comment_position)),
        )
        .service(
            resource("/api/v1/authors/{author_id}/comments", "GET, HEAD")
                .route(get().to(author::list_comments_of_author)),
        )
        .service(
            resource("/api/v1/moderation", "GET, HEAD")
                .route(get().to(moderation::list_unpublished)),
        )
        .service(resource("/openapi.json", "GET, HEAD").route(get().to(openapi::description)));
}

#[cfg(test)]
pub(crate) mod tests;
