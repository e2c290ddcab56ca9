//! `/openapi.json`: the description of the JSON API (OpenAPI 3.1), made from the handlers and the
//! types of their answers.
//!
//! **Invariant:** the description that is served is the committed one, `docs/openapi.json`
//! (`the_description_is_the_committed_one`). It matches the service: every request that it allows
//! is accepted, any other is refused, and every answer has a shape that it names (the module
//! `described` of the package `tests`).

use actix_web::{HttpResponse, http::header::ContentType, web};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        OpenApi as Description, Server,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

use super::{
    author, comment, create, list, moderation, product, product_list, responses::Errors, stats,
    summaries,
};
use crate::{
    error::{ApiError, Problem},
    operations::{health, scrape},
    site::Site,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Pagemark",
        description = "Comments of products: any filter in one query, page numbers as stable URLs.\n\n\
                       Errors are problem details (RFC 9457). A parameter or a field that is not described is refused \
                       with 400. 503 means: try again later, see `Retry-After`. A store that is away never causes a 404.",
        license(name = "MIT", identifier = "MIT"),
    ),
    paths(
        product_list::list_products,
        list::list_comments,
        create::create_comment,
        stats::product_stats,
        product::get_product,
        product::put_product,
        product::delete_product,
        summaries::stats_of_products,
        comment::get_comment,
        comment::change_comment,
        comment::delete_comment,
        comment::comment_position,
        author::list_comments_of_author,
        moderation::list_unpublished,
        health::livez,
        health::readyz,
        scrape::metrics,
    ),
    components(schemas(Problem<'static>)),
    modifiers(&BearerTokens, &Errors),
    tags(
        (name = "comments", description = "The comments of products"),
        (name = "products", description = "The list of products, and what a site says about each"),
        (name = "moderation", description = "The comments that readers do not see"),
        (name = "operations", description = "Health and metrics, for operators; perhaps at another address"),
    ),
)]
struct ApiDescription;

/// Writes and moderation need a bearer token, which has scopes.
struct BearerTokens;

impl Modify for BearerTokens {
    fn modify(&self, description: &mut Description) {
        let components = description.components.get_or_insert_default();
        components.add_security_scheme(
            "token",
            SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)),
        );
    }
}

/// The description for a site with this base path. It names the path, unless the site is at the
/// root of its host.
fn text(base_path: &str) -> Result<String, serde_json::Error> {
    let mut description = ApiDescription::openapi();
    if !base_path.is_empty() {
        description.servers = Some(vec![Server::new(base_path)]);
    }
    Ok(description.to_pretty_json()? + "\n")
}

pub(crate) async fn description(site: web::Data<Site>) -> Result<HttpResponse, ApiError> {
    let text = text(&site.public_url.base_path).map_err(ApiError::internal)?;
    Ok(HttpResponse::Ok()
        .insert_header(ContentType::json())
        .body(text))
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    /// After a change, `UPDATE_EXPECT=1 cargo test -p api the_description` writes the file anew.
    #[test]
    fn the_description_is_the_committed_one() {
        expect_file!["../../../docs/openapi.json"].assert_eq(&text("").unwrap());
    }

    #[test]
    fn the_description_of_a_site_below_a_path_names_it() {
        let named: serde_json::Value = serde_json::from_str(&text("/reviews").unwrap()).unwrap();
        assert_eq!(named["servers"][0]["url"], "/reviews");
    }

    #[test]
    fn every_parameter_and_every_answer_has_an_example() {
        let description: serde_json::Value = serde_json::from_str(&text("").unwrap()).unwrap();
        let operations = description["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|path| path.as_object().unwrap());
        let mut looked_at = 0;
        for (method, operation) in operations {
            let id = format!("{method} {}", operation["operationId"]);
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(
                    !parameter["example"].is_null(),
                    "{id}: {}",
                    parameter["name"]
                );
            }
            let contents = operation["responses"]
                .as_object()
                .unwrap()
                .values()
                .map(|response| &response["content"]);
            for content in contents.chain([&operation["requestBody"]["content"]]) {
                let of_json = content
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(kind, _)| kind.ends_with("json"));
                for schema in of_json.map(|(_, content)| &content["schema"]["$ref"]) {
                    let pointer = schema.as_str().unwrap().trim_start_matches('#');
                    let schema = description.pointer(pointer).unwrap();
                    assert!(
                        !(schema["example"].is_null() && schema["examples"].is_null()),
                        "{id}: {pointer}"
                    );
                    looked_at += 1;
                }
            }
        }
        assert!(looked_at > 10);
    }
}
