//! The changes that a caller asks for, and why one did not happen.

use model::{
    AuthorId, Comment, CommentAttributes, CommentId, CommentText, InvalidInput, Language,
    ProductId, ProductRecord, Rating, Revision, SiteData, Status, Timestamp,
};
use process::StoreError;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewComment {
    pub id: CommentId,
    pub product: ProductId,
    pub language: Language,
    pub rating: Rating,
    pub created_at: Timestamp,
    /// Whether readers see it. Without one, a new comment is published, and an import leaves the
    /// status of an existing one.
    pub status: Option<Status>,
    pub text: CommentText,
    pub site: SiteData,
}

impl NewComment {
    /// The comment at its first revision.
    pub fn at(self, revision: Revision) -> Comment {
        let Self {
            id,
            product,
            language,
            rating,
            created_at,
            status,
            text,
            site,
        } = self;
        let status = status.unwrap_or_default();
        Comment {
            id,
            product,
            language,
            rating,
            created_at,
            revision,
            status,
            text,
            site,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    New(Comment),
    /// An earlier request with this `Idempotency-Key` created the comment. Holds its original
    /// state, without later changes.
    Before(Comment),
}

/// The new values; `Some(None)` removes one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommentPatch {
    pub language: Option<Language>,
    pub rating: Option<Rating>,
    pub title: Option<Option<String>>,
    pub body: Option<Option<String>>,
    pub author: Option<Option<String>>,
    /// They replace all earlier ones.
    pub attributes: Option<Option<CommentAttributes>>,
    pub author_id: Option<Option<AuthorId>>,
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
            language: self
                .language
                .clone()
                .unwrap_or_else(|| comment.language.clone()),
            rating: self.rating.unwrap_or(comment.rating),
            status: self.status.unwrap_or(comment.status),
            text,
            site: SiteData {
                attributes: self
                    .attributes
                    .clone()
                    .unwrap_or_else(|| comment.site.attributes.clone()),
                author_id: self
                    .author_id
                    .clone()
                    .unwrap_or_else(|| comment.site.author_id.clone()),
            },
            ..comment.clone()
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProductPut {
    pub record: ProductRecord,
    pub change: ProductChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductChange {
    /// There was no record.
    Created,
    Replaced,
    /// The record said the same, so nothing was written.
    Nothing,
}

#[derive(Debug, Error)]
pub enum WriteError {
    #[error("there is no such comment")]
    NotFound,
    #[error("a comment with this id exists")]
    AlreadyExists,
    #[error("the comment has changed: its revision is now {current}")]
    RevisionMismatch { current: Revision },
    /// The record of a product is not as the caller requires.
    #[error("the record of the product is not as required")]
    PreconditionFailed { current: Option<Revision> },
    /// The `Idempotency-Key` was used for a request with a different content.
    #[error("this Idempotency-Key was used for another request")]
    IdempotencyMismatch,
    /// Other writers were faster, or blocked the change, for as long as a change is repeated.
    /// Nothing was written.
    #[error("other writers were faster; nothing was written")]
    Contended,
    /// What another tool stored with the comment leaves too little room in its item.
    #[error("the item of the comment has {item_bytes} bytes, so this change has no room in it")]
    Full { item_bytes: usize },
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The store's error; when the store is unavailable, the write may or may not have happened.
    #[error(transparent)]
    Store(#[from] StoreError),
}
