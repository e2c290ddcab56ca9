//! Reads every published comment, for an export: the products in each shard of the index `primaries`, and the comments of a
//! product in order. Both are eventually consistent.

use aws_sdk_dynamodb::types::AttributeValue;
use model::{Cd, Comment, CommentId, FilterKey, Order, ProductId, Timestamp, item::attribute, primaries::PrimariesKey};
use process::StoreError;

use super::{
    PrimariesPosition, SdkItem, Table,
    item_key::{InvalidEntry, primary_key},
    page_answer::MalformedItem,
    reader::{PageQuery, start_key},
};

/// Maximum number of entries of `primaries` in one answer. An answer also ends after a megabyte.
const ENTRIES_MAX: u32 = 4_000;

#[derive(Debug, Clone, PartialEq)]
pub struct ProductsPart {
    pub products: Vec<ProductId>,
    pub invalid: Vec<InvalidEntry>,
    pub next: Option<PrimariesPosition>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CommentsPosition(SdkItem);

#[derive(Debug, Clone, PartialEq)]
pub struct CommentsPart {
    pub comments: Vec<Result<Comment, MalformedItem>>,
    pub next: Option<CommentsPosition>,
}

impl PrimariesPosition {
    pub fn after(product: &ProductId) -> Self {
        let last = Cd { created_at: Timestamp::MAX, id: CommentId::greatest() };
        let PrimariesKey { shard, pcd } = PrimariesKey::of(product, &last);
        let mut position = primary_key(&last.id, product);
        position.insert(attribute::SHARD.to_owned(), AttributeValue::S(shard));
        position.insert(attribute::PCD.to_owned(), AttributeValue::S(pcd));
        Self(position)
    }
}

impl CommentsPosition {
    pub fn after(product: &ProductId, cd: &Cd) -> Self {
        Self(start_key(&FilterKey::primary(product.clone()), cd))
    }
}

impl Table {
    /// Some products of a shard of `primaries`. A product with many comments costs one answer: the rest of its entries is
    /// passed over.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the table does not have the index yet. Also the store's.
    pub async fn products_part(&self, shard: u32, from: Option<PrimariesPosition>) -> Result<ProductsPart, StoreError> {
        let part = self.primaries_part(shard, from, ENTRIES_MAX).await?;
        let ends_with_valid = part.comments.last().is_some_and(Result::is_ok);
        let (mut products, mut invalid) = (Vec::new(), Vec::new());
        for comment in part.comments {
            match comment {
                Ok(comment) => products.push(comment.placement.product),
                Err(entry) => invalid.push(entry),
            }
        }
        products.dedup();
        // The place of an invalid entry says nothing about other entries, so nothing after it is passed over.
        let next = part.next.map(|next| match products.last() {
            Some(product) if ends_with_valid => PrimariesPosition::after(product),
            _ => next,
        });
        Ok(ProductsPart { products, invalid, next })
    }

    /// At most `limit` comments of a product, and at most a megabyte.
    pub async fn comments_part(
        &self,
        product: &ProductId,
        from: Option<CommentsPosition>,
        limit: u16,
    ) -> Result<CommentsPart, StoreError> {
        let key = FilterKey::primary(product.clone());
        let query = PageQuery { key, order: Order::Oldest, limit, start: None };
        let answer = self.page_part(&query, limit.into(), from.map(|position| position.0)).await?;
        Ok(CommentsPart {
            comments: (0..).zip(answer.items).map(|(place, item)| item.into_comment(place)).collect(),
            next: answer.last_evaluated_key.map(|key| CommentsPosition(key.into())),
        })
    }
}
