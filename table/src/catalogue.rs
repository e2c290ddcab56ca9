//! The list of products: items `STATE#products#<shard>`, `<product>`, with the product escaped as in filter keys.
//!
//! These items have no `cd`, so the index does not hold them. An escaped product holds no `/`, so their sort keys do
//! not end like a primary item's, and they trigger no function. [`model::catalogue::Catalogue`] says how complete the
//! list is. A product is never removed from it. So a caller that read a product there, eventually consistent or not,
//! need not write it.

use std::{collections::BTreeSet, time::Duration};

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, PutRequest, WriteRequest};
use model::{
    Malformed, ProductId,
    catalogue::{CATALOGUE_SHARDS, Catalogue, catalogue_shard},
    item::attribute,
};
use process::{Backoff, Store, StoreError};
use tokio::time::Instant as Deadline;

use super::{SdkItem, Table};
use crate::error::{refused, store_error};

/// The state that says how complete the list is, and its only name.
const CATALOGUE: &str = "catalogue";
const PRODUCTS: &str = "products";

/// Maximum number of keys in one call (AWS: `BatchGetItem`).
const BATCH_GET_MAX: usize = 100;

/// How long to repeat the keys and writes that DynamoDB leaves unprocessed.
const BATCH_WITHIN: Duration = Duration::from_secs(30);

/// The position from which listing products continues.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductPosition {
    shard: u32,
    after: Option<SdkItem>,
}

fn product_key(product: &ProductId) -> SdkItem {
    [
        (attribute::PK.to_owned(), AttributeValue::S(shard_pk(catalogue_shard(product)))),
        (attribute::SK.to_owned(), AttributeValue::S(product.escaped())),
    ]
    .into()
}

fn shard_pk(shard: u32) -> String {
    format!("STATE#{PRODUCTS}#{shard}")
}

/// The product of an item of the list, or of that item's key.
fn product_of(item: &SdkItem) -> Result<ProductId, StoreError> {
    let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).map_or("", String::as_str);
    let (pk, sk) = (text(attribute::PK), text(attribute::SK));
    let product = ProductId::from_escaped(sk);
    Ok(product.map_err(|error| Malformed::of_item(pk, sk, attribute::SK, error))?)
}

impl Table {
    /// How complete the list of products is, strongly consistent; `None` before the first catalogue.
    ///
    /// # Errors
    /// The store's, or that the catalogue is malformed.
    pub async fn catalogue(&self) -> Result<Option<Catalogue>, StoreError> {
        self.state(CATALOGUE, PRODUCTS).await
    }

    /// Replaces the catalogue that was read; `false` when another run has replaced it meanwhile. Every product that
    /// `after` covers must have been listed before.
    ///
    /// # Errors
    /// The store's.
    pub async fn replace_catalogue(&self, before: Option<&Catalogue>, after: &Catalogue) -> Result<bool, StoreError> {
        self.replace_state(CATALOGUE, PRODUCTS, before, after).await
    }

    /// Some products of the list, strongly consistent, and the position to continue from; `None` begins.
    ///
    /// # Errors
    /// The store's, or that an item is malformed.
    pub async fn listed_products(
        &self,
        position: Option<ProductPosition>,
    ) -> Result<(Vec<ProductId>, Option<ProductPosition>), StoreError> {
        let ProductPosition { shard, after } = position.unwrap_or(ProductPosition { shard: 0, after: None });
        self.admit_read().await;
        let query = self.client.query().table_name(&self.name).key_condition_expression("pk = :pk");
        let answer = query
            .expression_attribute_values(":pk", AttributeValue::S(shard_pk(shard)))
            .consistent_read(true)
            .set_exclusive_start_key(after)
            .set_return_consumed_capacity(self.wants_capacity())
            .send()
            .await
            .map_err(store_error)?;
        self.charge_read(&answer.consumed_capacity);
        let products = answer.items.unwrap_or_default().iter().map(product_of).collect::<Result<_, _>>()?;
        let next = match answer.last_evaluated_key {
            Some(after) => Some(ProductPosition { shard, after: Some(after) }),
            None => {
                Some(ProductPosition { shard: shard + 1, after: None }).filter(|next| next.shard < CATALOGUE_SHARDS)
            }
        };
        Ok((products, next))
    }

    /// Lists products that are not listed yet; returns how many were new. No product may occur twice.
    ///
    /// # Errors
    /// The store's; some products may have been listed by then.
    pub async fn list_products(&self, products: &[ProductId]) -> Result<usize, StoreError> {
        let mut count = 0;
        for part in products.chunks(BATCH_GET_MAX) {
            let listed = self.which_are_listed(part).await?;
            let missing: Vec<&ProductId> = part.iter().filter(|product| !listed.contains(*product)).collect();
            for batch in missing.chunks(Self::BATCH_MAX) {
                self.put_products(batch).await?;
            }
            count += missing.len();
        }
        Ok(count)
    }

    /// The products that are listed, of at most [`BATCH_GET_MAX`] given ones, eventually consistent.
    async fn which_are_listed(&self, products: &[ProductId]) -> Result<BTreeSet<ProductId>, StoreError> {
        let mut listed = BTreeSet::new();
        let mut keys: Vec<SdkItem> = products.iter().map(product_key).collect();
        let mut backoff = Backoff::until(Deadline::now() + BATCH_WITHIN);
        while !keys.is_empty() {
            self.admit_read().await;
            let wanted = KeysAndAttributes::builder().set_keys(Some(std::mem::take(&mut keys))).build();
            let wanted = wanted.map_err(refused)?;
            let get = self.client.batch_get_item().request_items(&self.name, wanted);
            let answer = get.set_return_consumed_capacity(self.wants_capacity()).send();
            let answer = answer.await.map_err(store_error)?;
            self.charge_read(answer.consumed_capacity());
            for item in answer.responses.unwrap_or_default().remove(&self.name).unwrap_or_default() {
                listed.insert(product_of(&item)?);
            }
            let left = answer.unprocessed_keys.unwrap_or_default().remove(&self.name);
            keys = left.map(|left| left.keys).unwrap_or_default();
            if !keys.is_empty() && !backoff.wait().await {
                return Err(StoreError::unavailable(Store::Table, "it left keys of a batch unprocessed"));
            }
        }
        Ok(listed)
    }

    /// Puts at most [`Table::BATCH_MAX`] products.
    async fn put_products(&self, products: &[&ProductId]) -> Result<(), StoreError> {
        let put = |product: &&ProductId| {
            let put = PutRequest::builder().set_item(Some(product_key(product))).build();
            put.map(|put| WriteRequest::builder().put_request(put).build())
        };
        let requests = products.iter().map(put).collect::<Result<Vec<_>, _>>();
        let mut requests = requests.map_err(refused)?;
        let mut backoff = Backoff::until(Deadline::now() + BATCH_WITHIN);
        while !requests.is_empty() {
            self.admit_write().await;
            let write = self.client.batch_write_item().request_items(&self.name, std::mem::take(&mut requests));
            let answer = write.set_return_consumed_capacity(self.wants_capacity()).send();
            let answer = answer.await.map_err(store_error)?;
            self.charge_write(answer.consumed_capacity());
            requests = answer.unprocessed_items.unwrap_or_default().remove(&self.name).unwrap_or_default();
            if !requests.is_empty() && !backoff.wait().await {
                return Err(StoreError::unavailable(Store::Table, "it left writes of a batch unprocessed"));
            }
        }
        Ok(())
    }
}
