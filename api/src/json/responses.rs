//! The errors in the OpenAPI document. They must match the answers of `error`.

use utoipa::{
    Modify,
    openapi::{
        Content, ContentBuilder, HeaderBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Response,
        ResponseBuilder, Type, path::Operation,
    },
};

use crate::{error::PROBLEM_JSON, http::body::BODY_MAX_BYTES};

/// Adds to each operation of the API the errors that follow from what it takes.
pub(crate) struct Errors;

impl Modify for Errors {
    fn modify(&self, description: &mut OpenApi) {
        for (path, item) in &mut description.paths.paths {
            if !path.starts_with("/api/") {
                continue;
            }
            let operations = [
                &mut item.get,
                &mut item.post,
                &mut item.put,
                &mut item.patch,
                &mut item.delete,
            ];
            for operation in operations.into_iter().flatten() {
                let errors = errors(path, operation);
                operation.responses.responses.extend(errors);
            }
        }
    }
}

fn errors(path: &str, operation: &Operation) -> Vec<(String, RefOr<Response>)> {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let has_body = operation.request_body.is_some();
    let needs_token = operation.security.is_some();
    let is_write = needs_token && !matches!(id, "list_comments_of_author" | "list_unpublished");
    let is_of_comment = path.starts_with("/api/v1/comments/");
    let is_of_record = path == "/api/v1/products/{product}";
    let too_large = format!("The body is larger than {} KiB", BODY_MAX_BYTES / 1024);
    let errors = [
        (
            !is_write,
            "400",
            "A parameter or a part of the path breaks a rule; `field` names it",
        ),
        (
            is_write,
            "400",
            "A field, a parameter, a header or a part of the path breaks a rule; `field` names it",
        ),
        (needs_token, "401", "No token, or one that is not known"),
        (
            needs_token,
            "403",
            "No token of this server has the scope that this needs, or this one lacks it; `scope` names it",
        ),
        (id == "list_products", "404", "The page lies past the end"),
        (
            id == "list_comments",
            "404",
            "The page lies past the end. Or nobody knows the product, and the site does not serve such products",
        ),
        (
            id == "product_stats",
            "404",
            "Nobody knows the product, and the site does not serve such products",
        ),
        (is_of_comment, "404", "There is no such comment"),
        (
            is_of_record && !has_body,
            "404",
            "The product has no record",
        ),
        (has_body, "408", "The body did not arrive in time"),
        (
            is_write && (is_of_comment || is_of_record),
            "412",
            "It is not at a revision in `If-Match`, or at one in `If-None-Match`",
        ),
        (has_body, "413", &too_large),
        (
            has_body,
            "415",
            "The body is not sent as JSON, or it is compressed",
        ),
        (
            id == "create_comment",
            "422",
            "This `Idempotency-Key` was used for another request",
        ),
        (true, "500", "A mistake of the server's; it has been logged"),
        (
            !is_write,
            "503",
            "A store is away, or too many requests are under way: later",
        ),
        (
            is_write,
            "503",
            "Later: a store is away, or too many requests are under way, and the write may have happened or not. \
             Or, with the type `urn:pagemark:problem:contended`, too many requests changed the comment or record \
             at the same time, and nothing was written",
        ),
    ];
    errors
        .into_iter()
        .filter(|(applies, ..)| *applies)
        .map(|(_, status, description)| (status.to_owned(), problem(status, description).into()))
        .collect()
}

fn problem(status: &str, description: &str) -> Response {
    let schema: Content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .build();
    let problem = ResponseBuilder::new()
        .description(description)
        .content(PROBLEM_JSON, schema);
    let (name, of, says) = match status {
        "401" => ("WWW-Authenticate", Type::String, "Always `Bearer`"),
        "412" => ("ETag", Type::String, "The present revision"),
        "503" => ("Retry-After", Type::Integer, "Seconds"),
        _ => return problem.build(),
    };
    let schema = ObjectBuilder::new().schema_type(of);
    problem
        .header(
            name,
            HeaderBuilder::new()
                .schema(Some(schema))
                .description(Some(says))
                .build(),
        )
        .build()
}
