//! The import of a comment.

use model::{Comment, CommentText, ProductId};
use process::StoreError;
use table::{CommentPatch, NewComment, Table, WriteError};

use super::{Existing, ImportOptions, Importable, LOOKUPS_MAX, Outcome};

impl Importable for NewComment {
    fn product(&self) -> &ProductId {
        &self.product
    }

    fn key(&self) -> &str {
        self.id.as_str()
    }

    /// Creates the comment unless its id is in use. An id is used only once.
    async fn import(&self, table: &Table, options: &ImportOptions) -> Result<Outcome, StoreError> {
        let (id, comment) = (&self.id, self);
        if options.dry_run && options.table_is_missing {
            return Ok(Outcome::Created);
        }
        for _ in 0..LOOKUPS_MAX {
            let written = match table.comment(id).await {
                Ok(Some(present)) if options.existing == Existing::Replace && !is_same_place(comment, &present) => {
                    // Then the next look finds none.
                    table.delete_comment(id, Some(present.revision)).await.map(|()| None)
                }
                Ok(Some(present)) if present.product != comment.product => {
                    let product = present.product.as_str();
                    return Ok(Outcome::Refused(format!("id: {id} is in use by a comment of product {product:?}")));
                }
                Ok(Some(present)) if is_same(comment, &present) => return Ok(Outcome::Unchanged),
                Ok(Some(_)) if options.existing == Existing::Keep => return Ok(Outcome::Differing),
                Ok(Some(present)) if present.created_at != comment.created_at => {
                    let present = present.created_at;
                    return Ok(Outcome::Refused(format!("created_at: {id} is of {present}, which never changes")));
                }
                Ok(Some(_)) if options.dry_run => return Ok(Outcome::Updated),
                Ok(Some(present)) => {
                    options.admit(comment).await;
                    // Only this comment is changed, and none that took its id since.
                    let patched = table.patch_comment(id, Some(present.revision), &whole_patch(comment)).await;
                    patched.map(|_| Some(Outcome::Updated))
                }
                Ok(None) if options.dry_run => return Ok(Outcome::Created),
                Ok(None) => {
                    options.admit(comment).await;
                    table.create_comment(comment.clone(), None).await.map(|_| Some(Outcome::Created))
                }
                Err(StoreError::Malformed(malformed)) => {
                    return Ok(Outcome::Refused(format!("id: {id} is in use: {malformed}")));
                }
                Err(error) => return Err(error),
            };
            match written {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {}
                // Another writer was faster, or a deleted comment's duplicates hide this one: look again.
                Err(
                    WriteError::AlreadyExists
                    | WriteError::NotFound
                    | WriteError::RevisionMismatch { .. }
                    | WriteError::Contended,
                ) => {}
                Err(WriteError::Store(error)) => return Err(error),
                Err(other) => return Ok(Outcome::Refused(other.to_string())),
            }
        }
        Ok(Outcome::Refused(format!("id: {id} is in use and being changed; import it again later")))
    }
}

/// The change that gives a comment the content of the imported one.
fn whole_patch(comment: &NewComment) -> CommentPatch {
    let CommentText { title, body, author } = comment.text.clone();
    CommentPatch {
        language: Some(comment.language.clone()),
        rating: Some(comment.rating),
        title: Some(title),
        body: Some(body),
        author: Some(author),
        attributes: Some(comment.site.attributes.clone()),
        author_id: Some(comment.site.author_id.clone()),
        status: comment.status,
    }
}

/// Whether a comment of the same id has the product and the time that never change.
fn is_same_place(comment: &NewComment, present: &Comment) -> bool {
    present.product == comment.product && present.created_at == comment.created_at
}

/// Whether a comment of the same id and product has the same content.
fn is_same(comment: &NewComment, present: &Comment) -> bool {
    present.language == comment.language
        && present.rating == comment.rating
        && present.created_at == comment.created_at
        && comment.status.is_none_or(|status| present.status == status)
        && present.text == comment.text
        && present.site == comment.site
}
