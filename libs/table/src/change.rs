//! The changes that a caller asks for, and why one did not happen.

use model::{
    AuthorId, Comment, CommentAttributes, CommentId, CommentText, InvalidInput, Language, ProductId, Rating, Revision,
    SiteData, Status, Timestamp,
};
use process::StoreError;
use thiserror::Error;

/// A comment to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewComment {
    /// Its id; it must not be in use for another product.
    pub id: CommentId,
    /// Its product.
    pub product: ProductId,
    /// Its language.
    pub language: Language,
    /// Its rating.
    pub rating: Rating,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whether readers see it. Without one, a new comment is published, and an import leaves the status of an existing one.
    pub status: Option<Status>,
    /// Its text.
    pub text: CommentText,
    /// What the site stores with it.
    pub site: SiteData,
}

impl NewComment {
    pub(crate) fn at(self, revision: Revision) -> Comment {
        let Self { id, product, language, rating, created_at, status, text, site } = self;
        let status = status.unwrap_or_default();
        Comment { id, product, language, rating, created_at, revision, status, text, site }
    }
}

/// The outcome of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// The request created the comment.
    New(Comment),
    /// An earlier request with this `Idempotency-Key` created the comment. Holds its original state, without later
    /// changes.
    Before(Comment),
}

/// A change of a comment; a field that is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommentPatch {
    /// The new language.
    pub language: Option<Language>,
    /// The new rating.
    pub rating: Option<Rating>,
    /// The new title; `Some(None)` removes it.
    pub title: Option<Option<String>>,
    /// The new body.
    pub body: Option<String>,
    /// The new author; `Some(None)` removes it.
    pub author: Option<Option<String>>,
    /// The new attributes, all of them; `Some(None)` removes them.
    pub attributes: Option<Option<CommentAttributes>>,
    /// The new id of the author; `Some(None)` removes it.
    pub author_id: Option<Option<AuthorId>>,
    /// The new status.
    pub status: Option<Status>,
}

impl CommentPatch {
    /// The comment as the patch makes it.
    pub fn apply(&self, comment: &Comment) -> Result<Comment, InvalidInput> {
        // Only new values must keep the rules: stored values may follow earlier rules.
        let mut text = comment.text.clone();
        if let Some(title) = &self.title {
            text.title = CommentText::new_title(title.clone())?;
        }
        if let Some(body) = &self.body {
            text.body = CommentText::new_body(body.clone())?;
        }
        if let Some(author) = &self.author {
            text.author = CommentText::new_author(author.clone())?;
        }
        Ok(Comment {
            language: self.language.clone().unwrap_or_else(|| comment.language.clone()),
            rating: self.rating.unwrap_or(comment.rating),
            status: self.status.unwrap_or(comment.status),
            text,
            site: SiteData {
                attributes: self.attributes.clone().unwrap_or_else(|| comment.site.attributes.clone()),
                author_id: self.author_id.clone().unwrap_or_else(|| comment.site.author_id.clone()),
            },
            ..comment.clone()
        })
    }
}

/// The reason why a write did not happen.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The comment does not exist.
    #[error("there is no such comment")]
    NotFound,
    /// The id is in use for this product.
    #[error("a comment with this id exists")]
    AlreadyExists,
    /// The comment's revision differs from the one that the caller expects.
    #[error("the comment has changed: its revision is now {current}")]
    RevisionMismatch {
        /// The current revision.
        current: Revision,
    },
    /// The record of a product is not as the caller requires.
    #[error("the record of the product is not as required")]
    PreconditionFailed {
        /// The current revision; `None` when there is no record.
        current: Option<Revision>,
    },
    /// The `Idempotency-Key` was used for a request with a different content.
    #[error("this Idempotency-Key was used for another request")]
    IdempotencyMismatch,
    /// The comment that this `Idempotency-Key` created has been deleted since. Its record comes from an earlier version
    /// and does not hold its content.
    #[error("the comment that this Idempotency-Key created has been deleted")]
    DeletedSince,
    /// Other writers were faster, or blocked the change, for as long as a change is repeated. Nothing was written.
    #[error("other writers were faster; nothing was written")]
    Contended,
    /// The patched comment would break a rule.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The store's error; when the store is unavailable, the write may or may not have happened.
    #[error(transparent)]
    Store(#[from] StoreError),
}
