//! The comments of an author: found by the sparse index `authors`, read from their primary items, and deleted.

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::{StreamExt, TryStreamExt, stream};
use model::{
    AuthorId, Comment, CommentId, FilterKey, Malformed, ProductId,
    item::{COMMENT_PREFIX, Image, attribute, comment_id_of_pk, comment_pk},
};
use process::{Store, StoreError};

use super::{AUTHORS, ItemKey, Table, change::WriteError, error::store_error};

/// Number of primary items that are read at the same time.
const READS_AT_ONCE: usize = 10;

/// The text that follows every key that begins with [`COMMENT_PREFIX`].
const AFTER_COMMENTS: &str = "COMMENT$";

#[derive(Debug, Clone, PartialEq)]
pub struct AuthorPart {
    pub comments: Vec<Result<Comment, Malformed>>,
    /// The comment after which reading continues; `None` at the end.
    pub next: Option<CommentId>,
}

impl Table {
    /// Comments of an author, after the one of this id. At most `limit`, and fewer where the index is behind: it is
    /// eventually consistent, but each comment is read from its primary item, strongly consistent.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the table does not have the index. Also the store's.
    pub async fn comments_of_author(
        &self,
        author: &AuthorId,
        after: Option<&CommentId>,
        limit: u16,
    ) -> Result<AuthorPart, StoreError> {
        self.admit_read().await;
        // No id has a character below `-`, so this is less than every longer id.
        let from = after.map_or_else(|| COMMENT_PREFIX.to_owned(), |id| comment_pk(id) + "!");
        let answer = self
            .client
            .query()
            .table_name(&self.name)
            .index_name(AUTHORS)
            .key_condition_expression("author_id = :author AND pk BETWEEN :from AND :to")
            .expression_attribute_values(":author", AttributeValue::S(author.to_string()))
            .expression_attribute_values(":from", AttributeValue::S(from))
            .expression_attribute_values(":to", AttributeValue::S(AFTER_COMMENTS.to_owned()))
            .limit(limit.into())
            .set_return_consumed_capacity(self.wants_capacity())
            .send()
            .await
            .map_err(|error| without_authors(store_error(error)))?;
        self.charge_read(&answer.consumed_capacity);
        let keys = answer.items.unwrap_or_default().into_iter().map(|item| ItemKey::of(&item));
        let entries: Vec<_> = keys.filter_map(|key| placed(&key)).collect();
        let next = match answer.last_evaluated_key.map(|key| ItemKey::of(&key)) {
            None => None,
            Some(ItemKey { pk, sk }) => Some(comment_id_of_pk(&pk).ok_or_else(|| {
                Malformed::of_item(&pk, &sk, attribute::PK, "is not a comment's, but the item has an author_id")
            })?),
        };
        let read = stream::iter(entries).map(|(id, product)| self.comment_of_author(author, id, product));
        let comments: Vec<_> = read.buffered(READS_AT_ONCE).try_collect().await?;
        Ok(AuthorPart { comments: comments.into_iter().flatten().collect(), next })
    }

    /// The comment of an entry; `None` when it was deleted, or is no longer this author's.
    async fn comment_of_author(
        &self,
        author: &AuthorId,
        id: CommentId,
        product: ProductId,
    ) -> Result<Option<Result<Comment, Malformed>>, StoreError> {
        let item = self.primary_item_in(&id, &product).await?;
        let comment = item.map(|item| Image::of_primary(&item).and_then(|image| image.comment()));
        let is_of_another = |comment: &Comment| comment.site.author_id.as_ref() != Some(author);
        Ok(comment.filter(|comment| !comment.as_ref().is_ok_and(is_of_another)))
    }

    /// Deletes a comment if it is of this author, with its journal entry, like any other deletion.
    ///
    /// # Errors
    /// [`WriteError::NotFound`] also when it is of another author. Those of [`Table::delete_comment`].
    pub async fn delete_comment_of(&self, id: &CommentId, author: &AuthorId) -> Result<(), WriteError> {
        self.delete_if(id, None, |comment| comment.site.author_id.as_ref() == Some(author)).await
    }
}

/// The error of a query of `authors`. Its keys are within every limit, so only the index can be missing.
fn without_authors(error: StoreError) -> StoreError {
    match error {
        StoreError::Rejected { detail, .. } => StoreError::refused(
            Store::Table,
            format!(
                "the table has no index `{AUTHORS}`, or DynamoDB is still filling it; docs/deploy.md says how to add it \
                 ({detail})"
            ),
        ),
        error @ (StoreError::Unavailable { .. } | StoreError::Refused { .. } | StoreError::Malformed(_)) => error,
    }
}

fn placed(key: &ItemKey) -> Option<(CommentId, ProductId)> {
    let (id, filter_key) = (comment_id_of_pk(&key.pk)?, FilterKey::parse(&key.sk).ok()?);
    filter_key.is_primary().then_some((id, filter_key.product))
}
