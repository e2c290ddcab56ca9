//! The errors in the OpenAPI document. They must match the answers of `error`.

use utoipa::{
    Modify,
    openapi::{
        Content, ContentBuilder, Header, HeaderBuilder, ObjectBuilder, OpenApi, Ref, ResponseBuilder, Type,
        path::Operation,
    },
};

use crate::{error::PROBLEM_JSON, http::body::BODY_MAX_BYTES};

/// The errors that single operations have besides.
const OWN: [(&str, &str, &str); 5] = [
    ("list_products", "404", "The page lies past the end"),
    (
        "list_comments",
        "404",
        "The page lies past the end. Or nobody knows the product, and the site does not serve such products",
    ),
    ("product_stats", "404", "Nobody knows the product, and the site does not serve such products"),
    (
        "create_comment",
        "409",
        "The comment that this `Idempotency-Key` created has been deleted since, and an earlier version of the service \
         created it",
    ),
    ("create_comment", "422", "This `Idempotency-Key` was used for another request"),
];

/// Adds to each operation of the API the errors that follow from what it takes.
pub(crate) struct Errors;

impl Modify for Errors {
    fn modify(&self, description: &mut OpenApi) {
        for (path, item) in description.paths.paths.iter_mut().filter(|(path, _)| path.starts_with("/api/")) {
            for operation in
                [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
            {
                let errors = errors(path, operation);
                let errors = errors.into_iter().map(|(status, error)| (status.to_owned(), error.into()));
                operation.responses.responses.extend(errors);
            }
        }
    }
}

fn errors(path: &str, operation: &Operation) -> Vec<(&'static str, ResponseBuilder)> {
    let is_of_comment = path.starts_with("/api/v1/comments/");
    let mut errors = vec![("500", problem("A mistake of the server's; it has been logged"))];
    let own = OWN.iter().filter(|(id, ..)| operation.operation_id.as_deref() == Some(id));
    errors.extend(own.map(|(_, status, description)| (*status, problem(description))));
    let is_of_record = path == "/api/v1/products/{product}";
    if is_of_comment {
        errors.push(("404", problem("There is no such comment")));
    } else if is_of_record && operation.request_body.is_none() {
        errors.push(("404", problem("The product has no record")));
    }
    if operation.request_body.is_some() {
        errors.extend([
            ("408", problem("The body did not arrive in time")),
            ("413", problem(&format!("The body is larger than {} KiB", BODY_MAX_BYTES / 1024))),
            ("415", problem("The body is not sent as JSON, or it is compressed")),
        ]);
    }
    if operation.security.is_some() {
        let unauthorized = problem("No token, or one that is not known");
        errors.extend([
            ("401", unauthorized.header("WWW-Authenticate", header(Type::String, "Always `Bearer`"))),
            (
                "403",
                problem(
                    "No token of this server has the scope that this needs, or this one lacks it; `scope` names it",
                ),
            ),
        ]);
    }
    let is_read = path.starts_with("/api/v1/authors/") || path == "/api/v1/moderation";
    let is_write = operation.security.is_some() && !is_read;
    if !is_write {
        errors.extend([
            ("400", problem("A parameter or a part of the path breaks a rule; `field` names it")),
            ("503", later("A store is away, or too many requests are under way: later")),
        ]);
        return errors;
    }
    errors.extend([
        ("400", problem("A field, a parameter, a header or a part of the path breaks a rule; `field` names it")),
        (
            "503",
            later(
                "Later: a store is away, or too many requests are under way, and the write may have happened or not. \
                 Or, with the type `urn:pagemark:problem:contended`, too many requests changed the comment or record \
                 at the same time, and nothing was written",
            ),
        ),
    ]);
    if is_of_comment || is_of_record {
        let error = problem("It is not at a revision in `If-Match`, or at one in `If-None-Match`");
        errors.push(("412", error.header("ETag", header(Type::String, "The present revision"))));
    }
    errors
}

fn problem(description: &str) -> ResponseBuilder {
    let schema: Content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(description).content(PROBLEM_JSON, schema)
}

fn later(description: &str) -> ResponseBuilder {
    problem(description).header("Retry-After", header(Type::Integer, "Seconds"))
}

fn header(of: Type, description: &str) -> Header {
    HeaderBuilder::new().schema(Some(ObjectBuilder::new().schema_type(of))).description(Some(description)).build()
}
