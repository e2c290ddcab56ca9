//! A comment as the JSON API answers it.

use model::{AuthorId, Comment, CommentAttributes, Revision, Status, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::entity_tag::{strong_tag, strong_tag_with_author_id};

/// A comment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Comment, example = example)]
pub(crate) struct CommentBody<'comment> {
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    id: &'comment str,
    product: &'comment str,
    /// A BCP 47 tag.
    language: &'comment str,
    #[schema(minimum = 1, maximum = 5)]
    rating: u8,
    /// When it was made; it never changes.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(required)]
    title: Option<&'comment str>,
    #[schema(required)]
    body: Option<&'comment str>,
    #[schema(required)]
    author: Option<&'comment str>,
    /// What the site stores with it. Everybody may read it.
    #[schema(value_type = Option<Object>, required)]
    attributes: Option<&'comment CommentAttributes>,
    /// The author's id at the site. Only in answers to requests with a known token about this one
    /// comment or about this author.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    author_id: Option<&'comment AuthorId>,
    /// Its version, a ULID. In quotes, `If-Match` takes it for any entity tag of this version.
    #[schema(value_type = String)]
    revision: Revision,
    /// Only of a comment that readers do not see: `pending` or `hidden`.
    #[serde(skip_serializing_if = "Status::is_published")]
    #[schema(value_type = String, pattern = "^(pending|hidden)$", required = false)]
    status: Status,
}

impl<'comment> CommentBody<'comment> {
    /// The comment as a client with a write token sees it.
    pub(super) fn for_writer(comment: &'comment Comment) -> Self {
        Self {
            author_id: comment.site.author_id.as_ref(),
            ..Self::from(comment)
        }
    }

    pub(super) fn entity_tag(&self) -> String {
        if self.author_id.is_some() {
            strong_tag_with_author_id(self.revision)
        } else {
            strong_tag(self.revision)
        }
    }
}

impl<'comment> From<&'comment Comment> for CommentBody<'comment> {
    /// The comment as everybody sees it.
    fn from(comment: &'comment Comment) -> Self {
        Self {
            id: comment.id.as_str(),
            product: comment.product.as_str(),
            language: comment.language.as_str(),
            rating: comment.rating.get(),
            created_at: comment.created_at,
            title: comment.text.title.as_deref(),
            body: comment.text.body.as_deref(),
            author: comment.text.author.as_deref(),
            attributes: comment.site.attributes.as_ref(),
            author_id: None,
            revision: comment.revision,
            status: comment.status,
        }
    }
}

pub(super) fn example() -> Value {
    json!({
        "id": "01JCP3D7W0K2V6H9QF1T8MZ4XB", "product": "espresso-machine", "language": "en", "rating": 5,
        "created_at": "2024-11-14T09:21:05.600Z", "title": "Well made", "body": "Two years, every day.\nNo trouble.",
        "author": "Ada", "attributes": {"verified": true}, "revision": "01JCP3D7W0Q4N1R5Y8B3C6D9EF"
    })
}

pub(super) fn example_with(field: &str, value: &str) -> Value {
    let mut example = example();
    if let Some(fields) = example.as_object_mut() {
        fields.insert(field.to_owned(), value.into());
    }
    example
}
