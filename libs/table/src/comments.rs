//! Reading comments by their ids.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::types::{KeysAndAttributes, builders::KeysAndAttributesBuilder};
use model::{
    Comment, CommentId, Malformed, ProductId,
    item::{attribute, comment_of_primary, comment_pk, text},
    planted::{self, Bug},
};
use process::{Backoff, Store, StoreError};
use serde_dynamo::Item;
use tokio::time::Instant;

use crate::{
    Table,
    actions::DECIDING,
    error::{refused, store_error},
    item::{SdkItem, primary_key},
};

/// Maximum number of calls to read a comment's items: 32 items of at most 400 KB in answers of 1
/// MB, and as many items that should not exist.
const COLLECTION_CALLS_MAX: usize = 40;

/// Maximum number of keys in one call (AWS: `BatchGetItem`).
const BATCH_GET_MAX: usize = 100;

/// How long to ask again for keys of a page that DynamoDB did not process: as long as a call with
/// its retries may take.
const UNPROCESSED_KEYS_WITHIN: Duration = Duration::from_secs(8);

impl Table {
    /// The comment of this id, published or not, strongly consistent.
    pub async fn comment(&self, id: &CommentId) -> Result<Option<Comment>, StoreError> {
        match self.primary_item(id).await? {
            Some(item) => Ok(Some(comment_of_primary(&item)?)),
            None => Ok(None),
        }
    }

    /// The primary item of this id as it is in the table, strongly consistent and unparsed: the
    /// last of the item collection. An `auto` there means that the comment was deleted, and that
    /// its duplicates are still to be removed.
    pub async fn primary_item(&self, id: &CommentId) -> Result<Option<Item>, StoreError> {
        let query = self
            .query_of(comment_pk(id))
            .scan_index_forward(false)
            .limit(1);
        let answer = query.send().await.map_err(store_error)?;
        let last = answer.items.unwrap_or_default().pop();
        Ok(last
            .filter(|item| !item.contains_key(attribute::AUTO))
            .map(Item::from))
    }

    /// The primary item of this id and product, strongly consistent.
    pub async fn primary_item_in(
        &self,
        id: &CommentId,
        product: &ProductId,
    ) -> Result<Option<Item>, StoreError> {
        Ok(self.item(primary_key(id, product)).await?.map(Item::from))
    }

    /// All items of a comment id, unchanged, in the order of their keys, strongly consistent.
    ///
    /// # Errors
    /// The store's; [`StoreError::Malformed`] when there are more than a comment can have.
    pub async fn items_of(&self, id: &CommentId) -> Result<Vec<Item>, StoreError> {
        Ok(self.items_and_instant_of(id).await?.0)
    }

    /// Like [`Table::items_of`], with an instant before the first item was read, but after the wait
    /// for a limit of units.
    pub async fn items_and_instant_of(
        &self,
        id: &CommentId,
    ) -> Result<(Vec<Item>, Instant), StoreError> {
        let read = self.items(comment_pk(id), COLLECTION_CALLS_MAX).await?;
        let Some((items, read_at)) = read else {
            let problem = format!("comment {id} has more items than a comment can have");
            return Err(Malformed::new("item collection", problem).into());
        };
        Ok((items.into_iter().map(Item::from).collect(), read_at))
    }

    /// The comments with these ids in a product, published or not, strongly consistent. The answers
    /// are in the order of the ids: `None` for an absent comment, an error for an invalid primary
    /// item. No id may occur twice.
    pub async fn comments_in(
        &self,
        product: &ProductId,
        ids: &[CommentId],
    ) -> Result<Vec<Option<Result<Comment, Malformed>>>, StoreError> {
        let keys: Vec<SdkItem> = ids.iter().map(|id| primary_key(id, product)).collect();
        let wanted = KeysAndAttributes::builder().consistent_read(true);
        let items = self
            .items_with(&keys, &wanted, Instant::now() + UNPROCESSED_KEYS_WITHIN)
            .await?;
        let mut by_pk: HashMap<String, Item> = HashMap::new();
        for item in items {
            if let Some(pk) = text(&item, attribute::PK).map(str::to_owned) {
                by_pk.insert(pk, item);
            }
        }
        let found = ids.iter().map(|id| by_pk.remove(&comment_pk(id)));
        Ok(found
            .map(|item| item.map(|item| comment_of_primary(&item)))
            .collect())
    }

    /// The keys of primary items, and the attributes that decide their validity, eventually
    /// consistent, in no order. Absent items are omitted. No key may occur twice. No wait lasts
    /// beyond `deadline`.
    pub async fn primary_items_of(
        &self,
        comments: &[(CommentId, ProductId)],
        deadline: Instant,
    ) -> Result<Vec<Item>, StoreError> {
        let placeholders = DECIDING.map(|name| format!("#{name}"));
        let projection = format!("pk, sk, {}", placeholders.join(", "));
        let names = placeholders
            .into_iter()
            .zip(DECIDING.map(str::to_owned))
            .collect();
        let keys: Vec<SdkItem> = comments
            .iter()
            .map(|(id, product)| primary_key(id, product))
            .collect();
        let wanted = KeysAndAttributes::builder()
            .projection_expression(projection)
            .set_expression_attribute_names(Some(names));
        self.items_with(&keys, &wanted, deadline).await
    }

    /// The attributes that are `wanted` of the items with these keys, in no order. Asks again for
    /// keys that DynamoDB leaves unprocessed, as it does with those beyond the 16 MB of an answer.
    pub(crate) async fn items_with(
        &self,
        keys: &[SdkItem],
        wanted: &KeysAndAttributesBuilder,
        deadline: Instant,
    ) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::with_capacity(keys.len());
        for part in keys.chunks(BATCH_GET_MAX) {
            let mut keys = part.to_vec();
            let mut backoff = Backoff::until(deadline);
            while !keys.is_empty() {
                self.meter.read.admit().await;
                let wanted = wanted
                    .clone()
                    .set_keys(Some(std::mem::take(&mut keys)))
                    .build()
                    .map_err(refused)?;
                let get = self
                    .client
                    .batch_get_item()
                    .request_items(self.name(), wanted);
                let answer = get.set_return_consumed_capacity(self.meter.report()).send();
                let answer = answer.await.map_err(store_error)?;
                self.meter.read.charge(answer.consumed_capacity());
                let found = answer
                    .responses
                    .unwrap_or_default()
                    .remove(self.name())
                    .unwrap_or_default();
                items.extend(found.into_iter().map(Item::from));
                let unprocessed = answer
                    .unprocessed_keys
                    .unwrap_or_default()
                    .remove(self.name());
                keys = keys_to_read_again(unprocessed);
                if !keys.is_empty() && !backoff.wait().await {
                    return Err(StoreError::unavailable(
                        Store::Table,
                        "it left keys of a batch unprocessed",
                    ));
                }
            }
        }
        Ok(items)
    }
}

/// A key that DynamoDB did not process is read again. It says nothing about its item.
fn keys_to_read_again(unprocessed: Option<KeysAndAttributes>) -> Vec<SdkItem> {
    if planted::has(Bug::UnreadIsAbsent) {
        return Vec::new();
    }
    match unprocessed {
        Some(unprocessed) => unprocessed.keys,
        None => Vec::new(),
    }
}
