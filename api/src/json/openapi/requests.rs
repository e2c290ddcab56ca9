//! OpenAPI schemas of the bodies of writes. They must match what `body` accepts.

use std::borrow::Cow;

use serde_json::json;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{Object, ObjectBuilder, RefOr, Schema, schema::AdditionalProperties},
};

use super::schemas;

/// The body of a new comment.
pub(crate) struct NewComment;

/// The body of an update of a comment.
pub(crate) struct CommentChange;

/// The only fields that a client may set.
fn fields() -> ObjectBuilder {
    let described = |mut schema: Object, description: &str| {
        schema.description = Some(description.to_owned());
        schema
    };
    ObjectBuilder::new()
        .property("language", described(schemas::language(), "The language it is written in: a BCP 47 tag"))
        .property("rating", schemas::rating())
        .property("title", described(schemas::title(), "One line; without a visible character it is none"))
        .property(
            "body",
            described(
                schemas::body(),
                "The text, with at least one visible character; line breaks and tabs are its only control characters",
            ),
        )
        .property(
            "author",
            described(schemas::author(), "The name to show, one line; without a visible character it is none"),
        )
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

impl PartialSchema for NewComment {
    fn schema() -> RefOr<Schema> {
        let example = json!({
            "language": "en", "rating": 5, "title": "Well made", "body": "Two years, every day.\nNo trouble.",
            "author": "Ada",
        });
        let required = ["language", "rating", "body"];
        required.into_iter().fold(fields(), ObjectBuilder::required).examples([example]).into()
    }
}

impl ToSchema for NewComment {
    fn name() -> Cow<'static, str> {
        "NewComment".into()
    }
}

impl PartialSchema for CommentChange {
    fn schema() -> RefOr<Schema> {
        let description =
            "JSON Merge Patch (RFC 7396): fields that are left out stay, null removes a title or an author.";
        fields().description(Some(description)).examples([json!({ "rating": 4, "title": null })]).into()
    }
}

impl ToSchema for CommentChange {
    fn name() -> Cow<'static, str> {
        "CommentChange".into()
    }
}
