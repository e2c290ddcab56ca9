//! The parameters as they are described. `request` and `conditional` read them: what stands here must be what they take.

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

/// In which order and portions a listing comes.
pub(crate) struct PortionParameters;

/// Which page of a listing.
pub(crate) struct PlaceParameters;

/// On which condition a comment is changed.
pub(crate) struct IfMatchHeader;

/// What makes a repeated request known.
pub(crate) struct IdempotencyKeyHeader;

/// A parameter with an example.
fn example(of: (&str, ParameterIn), description: &str, schema: impl Into<RefOr<Schema>>, value: Value) -> Parameter {
    parameter(of, description, schema).example(Some(value)).build()
}

fn parameter(
    (name, place): (&str, ParameterIn),
    description: &str,
    schema: impl Into<RefOr<Schema>>,
) -> ParameterBuilder {
    let required = if place == ParameterIn::Path { Required::True } else { Required::False };
    let named = ParameterBuilder::new().name(name).parameter_in(place).required(required);
    named.description(Some(description)).schema(Some(schema))
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
        let description = "The id of a comment; those made here are ULIDs";
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
        let size = parameter(("page_size", ParameterIn::Query), "How many comments a page has", schemas::page_size());
        let order = parameter(("order", ParameterIn::Query), "Newest or oldest first", schemas::order());
        vec![size.build(), order.build()]
    }
}

impl IntoParams for PlaceParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let query = |name| (name, ParameterIn::Query);
        let page = "The number of the page, from 1; not together with `cursor`";
        let as_of = "An `as_of` of an earlier answer: pages as they were numbered then. Comments dated later do not \
                     shift them. Not together with `cursor`";
        let cursor = "A cursor of an earlier answer for the same product, language, ratings, order and page size; not \
                      together with `page` or `as_of`";
        vec![
            parameter(query("page"), page, schemas::page()).build(),
            parameter(query("as_of"), as_of, schemas::date_time()).build(),
            parameter(query("cursor"), cursor, schemas::cursor()).build(),
        ]
    }
}

impl IntoParams for IfMatchHeader {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Only when the comment is at this revision: one entity tag, or `*` for any";
        vec![parameter(("If-Match", ParameterIn::Header), description, schemas::if_match()).build()]
    }
}

impl IntoParams for IdempotencyKeyHeader {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Names this comment among all that are ever created; it is kept for a day";
        vec![parameter(("Idempotency-Key", ParameterIn::Header), description, schemas::idempotency_key()).build()]
    }
}
