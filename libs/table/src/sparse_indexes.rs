//! Reading the sparse indexes, which hold primary items alone: `primaries`, `moderation` and
//! `authors`.

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::{StreamExt, TryStreamExt, stream};
use model::{
    AuthorId, Cd, Comment, CommentId, Malformed, ProductId, Status,
    item::{
        COMMENT_PREFIX, PlacedComment, attribute, comment_id_of_pk, comment_of_primary, comment_pk,
    },
    planted::{self, Bug},
    primaries::primaries_shard,
};
use process::StoreError;

use crate::{
    Table,
    definition::{AUTHORS, MODERATION, PRIMARIES},
    error::{store_error, without_index},
    item::{InvalidEntry, ItemKey, primary_of},
    page_answer::StoredItem,
    parts::{Part, Position},
    queries::comments_of,
};

/// Maximum number of entries of `primaries` in one answer. An answer also ends after a megabyte.
const ENTRIES_MAX: u32 = 4_000;

/// Number of primary items that are read in parallel.
const READS_AT_ONCE: usize = 10;

/// The text that follows every key that begins with [`COMMENT_PREFIX`].
const AFTER_COMMENTS: &str = "COMMENT$";

impl Table {
    /// One answer about a shard of the index `primaries`, in the order of products and, within a
    /// product, oldest first. Eventually consistent. It reads at most `limit` entries, and at most
    /// a megabyte.
    pub async fn primaries_part(
        &self,
        shard: u32,
        from: Option<Position>,
        limit: u32,
    ) -> Result<Part<Result<PlacedComment, InvalidEntry>>, StoreError> {
        let query = self
            .query_index(PRIMARIES)
            .key_condition_expression("#shard = :shard")
            .expression_attribute_names("#shard", attribute::SHARD)
            .expression_attribute_values(":shard", AttributeValue::S(primaries_shard(shard)))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(from.map(|position| position.0));
        let answer = self
            .read_directly(query)
            .await
            .map_err(|error| without_index(PRIMARIES, error))?;
        // A foreign tool may have put other items into the index.
        let entries = answer.items.into_iter().filter(StoredItem::is_primary);
        Ok(Part {
            rows: entries.map(StoredItem::into_placed).collect(),
            next: answer.last_evaluated_key.map(|key| Position(key.into())),
        })
    }

    /// Some products of a shard of `primaries`. A product with many comments costs one answer: the
    /// rest of its entries is passed over.
    pub async fn products_part(
        &self,
        shard: u32,
        from: Option<Position>,
    ) -> Result<Part<Result<ProductId, InvalidEntry>>, StoreError> {
        let Part { rows, next } = self.primaries_part(shard, from, ENTRIES_MAX).await?;
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|row| row.map(|comment| comment.placement.product))
            .collect();
        rows.dedup();
        if planted::has(Bug::ProductIsPassedOver) {
            rows = rows.split_off(1.min(rows.len()));
        }
        // The key of an invalid entry says nothing about other entries, so nothing after it is
        // passed over.
        let next = next.map(|next| match rows.last() {
            Some(Ok(product)) => Position::after_product(product),
            _ => next,
        });
        Ok(Part { rows, next })
    }

    /// At most `limit` comments of an unpublished status, oldest first, and at most a megabyte:
    /// those `after` a key, if given. Eventually consistent.
    pub async fn moderation_part(
        &self,
        status: Status,
        after: Option<&Cd>,
        from: Option<Position>,
        limit: u16,
    ) -> Result<Part<Result<Comment, InvalidEntry>>, StoreError> {
        let query = self
            .query_index(MODERATION)
            .expression_attribute_names("#status", attribute::UNPUBLISHED)
            .expression_attribute_values(":status", AttributeValue::S(status.to_string()))
            .limit(limit.into())
            .set_exclusive_start_key(from.map(|position| position.0));
        let query = match after {
            None => query.key_condition_expression("#status = :status"),
            Some(cd) => query
                .key_condition_expression("#status = :status AND #cd > :cd")
                .expression_attribute_names("#cd", attribute::UNPUBLISHED_CD)
                .expression_attribute_values(":cd", AttributeValue::S(cd.to_string())),
        };
        Ok(comments_of(
            self.read_directly(query)
                .await
                .map_err(|error| without_index(MODERATION, error))?,
        ))
    }

    /// Comments of an author, after the one of this id. At most `limit`, and fewer where the index
    /// is behind: it is eventually consistent, but each comment is read from its primary item,
    /// strongly consistent.
    pub async fn comments_of_author(
        &self,
        author: &AuthorId,
        after: Option<&CommentId>,
        limit: u16,
    ) -> Result<Part<Result<Comment, Malformed>, CommentId>, StoreError> {
        self.meter.read.admit().await;
        // No id has a character below `-`, so this is less than every longer id.
        let from = match after {
            Some(id) => comment_pk(id) + "!",
            None => COMMENT_PREFIX.to_owned(),
        };
        let answer = self
            .query_index(AUTHORS)
            .key_condition_expression("author_id = :author AND pk BETWEEN :from AND :to")
            .expression_attribute_values(":author", AttributeValue::S(author.to_string()))
            .expression_attribute_values(":from", AttributeValue::S(from))
            .expression_attribute_values(":to", AttributeValue::S(AFTER_COMMENTS.to_owned()))
            .limit(limit.into())
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
            .map_err(|error| without_index(AUTHORS, store_error(error)))?;
        self.meter.read.charge(&answer.consumed_capacity);
        let items = answer.items.unwrap_or_default();
        let keys = items.iter().map(ItemKey::of);
        let entries: Vec<_> = keys.filter_map(|key| primary_of(&key)).collect();
        let next = match answer.last_evaluated_key.map(|key| ItemKey::of(&key)) {
            None => None,
            Some(ItemKey { pk, sk }) => Some(comment_id_of_pk(&pk).ok_or_else(|| {
                Malformed::of_item(
                    &pk,
                    &sk,
                    attribute::PK,
                    "is not a comment's, but the item has an author_id",
                )
            })?),
        };
        let read =
            stream::iter(entries).map(|(id, product)| self.comment_of_author(author, id, product));
        let comments: Vec<_> = read.buffered(READS_AT_ONCE).try_collect().await?;
        Ok(Part {
            rows: comments.into_iter().flatten().collect(),
            next,
        })
    }

    /// The comment of an entry; `None` when it was deleted, or belongs to a different author now.
    async fn comment_of_author(
        &self,
        author: &AuthorId,
        id: CommentId,
        product: ProductId,
    ) -> Result<Option<Result<Comment, Malformed>>, StoreError> {
        let Some(item) = self.primary_item_in(&id, &product).await? else {
            return Ok(None);
        };
        let comment = comment_of_primary(&item);
        if let Ok(comment) = &comment
            && comment.site.author_id.as_ref() != Some(author)
        {
            return Ok(None);
        }
        Ok(Some(comment))
    }
}
