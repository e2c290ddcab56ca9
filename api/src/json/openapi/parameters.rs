//! OpenAPI descriptions of the parameters. They must match what `request` and `conditional` accept.

use serde_json::{Value, json};
use utoipa::{
    IntoParams,
    openapi::{
        RefOr, Required, Schema,
        path::{Parameter, ParameterBuilder, ParameterIn},
    },
};

use super::schemas;

/// The product in the path.
pub(crate) struct ProductPath;

/// The comment's id in the path.
pub(crate) struct CommentPath;

/// A filter by language.
pub(crate) struct LanguageParameter;

/// A filter by ratings.
pub(crate) struct RatingParameter;

/// The order and the page size of a listing.
pub(crate) struct PortionParameters;

/// The page of a listing.
pub(crate) struct PlaceParameters;

/// The condition under which a comment is changed.
pub(crate) struct IfMatchHeader;

/// The condition under which a comment is not changed.
pub(crate) struct IfNoneMatchHeader;

/// The key that identifies a repeated request.
pub(crate) struct IdempotencyKeyHeader;

/// An example of a cursor; the key that sealed it is lost.
const CURSOR: &str = "LWH1nTgQm0q2b5yXoS3cVQe7dJk9uPzR4tA6wGhYB8sC";

/// A parameter with an example.
fn example(
    (name, place): (&str, ParameterIn),
    description: &str,
    schema: impl Into<RefOr<Schema>>,
    value: Value,
) -> Parameter {
    let required = if place == ParameterIn::Path { Required::True } else { Required::False };
    let named = ParameterBuilder::new().name(name).parameter_in(place).required(required);
    named.description(Some(description)).schema(Some(schema)).example(Some(value)).build()
}

impl IntoParams for ProductPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "The id of a product: any text without control characters but `.` and `..`, percent-encoded, a \
                           slash in it as `%2F`";
        vec![example(("product", ParameterIn::Path), description, schemas::product(), json!("espresso-machine"))]
    }
}

impl IntoParams for CommentPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "The id of a comment, never `.` or `..`; those made here are ULIDs";
        vec![example(
            ("id", ParameterIn::Path),
            description,
            schemas::comment_id(),
            json!("01JCP3D7W0K2V6H9QF1T8MZ4XB"),
        )]
    }
}

impl IntoParams for LanguageParameter {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Only comments in this language: a BCP 47 tag, such as `en` or `pt-BR`; case does not matter";
        vec![example(("language", ParameterIn::Query), description, schemas::language(), json!("en"))]
    }
}

impl IntoParams for RatingParameter {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Only comments with one of these ratings; all five are the same as none";
        vec![example(("rating", ParameterIn::Query), description, schemas::ratings(), json!([1, 5]))]
    }
}

impl IntoParams for PortionParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let query = |name| (name, ParameterIn::Query);
        vec![
            example(query("page_size"), "How many comments a page has", schemas::page_size(), json!(20)),
            example(query("order"), "Newest or oldest first", schemas::order(), json!("newest")),
        ]
    }
}

impl IntoParams for PlaceParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let query = |name| (name, ParameterIn::Query);
        let page = "The number of the page, from 1; not together with `cursor`";
        let as_of = "An `as_of` of an earlier answer, or any other instant: only the comments dated up to then. So comments \
                     posted later shift no page. Deletions, changes of rating or language, and imports of earlier \
                     dates still do; a cursor goes on where its page ended. Not together with `cursor`";
        let cursor = "A cursor of an earlier answer for the same product, language, ratings, order and page size; not \
                      together with `page` or `as_of`";
        vec![
            example(query("page"), page, schemas::page(), json!(1)),
            example(query("as_of"), as_of, schemas::date_time(), json!("2024-11-14T09:30:00.000Z")),
            example(query("cursor"), cursor, schemas::cursor(), json!(CURSOR)),
        ]
    }
}

impl IntoParams for IfMatchHeader {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Only when the comment is at one of these revisions: entity tags, or `*` for any";
        vec![example(("If-Match", ParameterIn::Header), description, schemas::if_match(), json!("*"))]
    }
}

impl IntoParams for IfNoneMatchHeader {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Only when the comment is at none of these revisions: entity tags, or `*` for any, so never";
        let value = json!("\"01JCP3D7W0Q4N1R5Y8B3C6D9EF\"");
        vec![example(("If-None-Match", ParameterIn::Header), description, schemas::if_match(), value)]
    }
}

impl IntoParams for IdempotencyKeyHeader {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Names this comment among all that are created with the same token for the same product; it is \
                           kept for a day";
        vec![example(
            ("Idempotency-Key", ParameterIn::Header),
            description,
            schemas::idempotency_key(),
            json!("6d1f0a52-1d5c-4f0f-9f3b-2b1f6c1c8a77"),
        )]
    }
}
