//! OpenAPI descriptions of the errors. They must match the answers of `error`.

use std::collections::BTreeMap;

use utoipa::{
    IntoResponses,
    openapi::{
        Content, ContentBuilder, Header, HeaderBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder, Type,
    },
};

use crate::{error::PROBLEM_JSON, http::body::BODY_MAX_BYTES};

/// The errors of any reading request.
pub(crate) struct ReadErrors;

/// The errors of any writing request.
pub(crate) struct WriteErrors;

/// The additional errors of a request with a body.
pub(crate) struct BodyErrors;

/// The additional errors of a request about one comment.
pub(crate) struct NotFound;

/// The additional errors of a request with `If-Match` or `If-None-Match`.
pub(crate) struct NotAtRevision;

fn problem(description: &str) -> ResponseBuilder {
    let schema: Content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(description).content(PROBLEM_JSON, schema)
}

fn header(of: Type, description: &str) -> Header {
    HeaderBuilder::new().schema(Some(ObjectBuilder::new().schema_type(of))).description(Some(description)).build()
}

fn later(description: &str) -> ResponseBuilder {
    problem(description).header("Retry-After", header(Type::Integer, "Seconds"))
}

fn by_status<const N: usize>(responses: [(&str, ResponseBuilder); N]) -> BTreeMap<String, RefOr<Response>> {
    responses.into_iter().map(|(status, response)| (status.to_owned(), RefOr::T(response.build()))).collect()
}

impl IntoResponses for ReadErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        by_status([
            ("400", problem("A parameter or a part of the path breaks a rule; `field` names it")),
            ("500", problem("A mistake of the server's; it has been logged")),
            ("503", later("A store is away, or too many requests are under way: later")),
        ])
    }
}

impl IntoResponses for WriteErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let unauthorized = problem("No token, or one that is not known");
        by_status([
            ("400", problem("A field, a parameter, a header or a part of the path breaks a rule; `field` names it")),
            ("401", unauthorized.header("WWW-Authenticate", header(Type::String, "Always `Bearer`"))),
            ("403", problem("The server was started without tokens")),
            ("500", problem("A mistake of the server's; it has been logged")),
            (
                "503",
                later(
                    "Later: a store is away, or too many requests are under way, and the write may have happened or not. \
                     Or, with the type `urn:pagemark:problem:contended`, too many requests changed the comment at the \
                     same time, and nothing was written",
                ),
            ),
        ])
    }
}

impl IntoResponses for BodyErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        by_status([
            ("408", problem("The body did not arrive in time")),
            ("413", problem(&format!("The body is larger than {} KiB", BODY_MAX_BYTES / 1024))),
            ("415", problem("The body is not sent as JSON, or it is compressed")),
        ])
    }
}

impl IntoResponses for NotFound {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        by_status([("404", problem("There is no such comment"))])
    }
}

impl IntoResponses for NotAtRevision {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let description = "The comment is not at a revision in `If-Match`, or at one in `If-None-Match`";
        by_status([("412", problem(description).header("ETag", header(Type::String, "The present revision")))])
    }
}
