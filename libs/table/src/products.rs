//! The records of products: read, put and deleted.
//!
//! A record has no journal entry, because nothing is derived from it. Its writes use the transactions of comments: a
//! repeated attempt finds out that an earlier one has happened.

use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem};
use model::{
    ProductDetails, ProductId, ProductRecord, Revision,
    item::attribute,
    product::{ProductItem, record_key, record_pk},
};
use process::{StoreError, now};

use super::{
    SdkItem, Table,
    change::WriteError,
    error::{refused, store_error},
    from_sdk_item,
    item_key::{InvalidEntry, ItemKey, item_key},
    to_sdk_item,
    writer::{Outcome, wait_for_others},
};

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

#[derive(Debug, Clone, PartialEq)]
pub struct RecordsPart {
    /// The records in the order of their keys, or the invalid items in their places.
    pub records: Vec<Result<ProductRecord, InvalidEntry>>,
    pub next: Option<RecordsPosition>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecordsPosition(SdkItem);

fn key_of(product: &ProductId) -> SdkItem {
    let (pk, sk) = record_key(product);
    item_key(pk, sk)
}

fn record_of(item: SdkItem) -> Result<ProductRecord, StoreError> {
    Ok(ProductRecord::try_from(from_sdk_item::<ProductItem>(item)?)?)
}

impl Table {
    /// Strongly consistent.
    pub async fn product(&self, product: &ProductId) -> Result<Option<ProductRecord>, StoreError> {
        self.item(key_of(product)).await?.map(record_of).transpose()
    }

    /// Eventually consistent: at half the price.
    pub async fn product_to_show(&self, product: &ProductId) -> Result<Option<ProductRecord>, StoreError> {
        let get = self.client.get_item().table_name(&self.name).set_key(Some(key_of(product)));
        get.send().await.map_err(store_error)?.item.map(record_of).transpose()
    }

    /// Puts a record, if `allows` accepts the revision of the record that is there (`None`: there is none). A record that
    /// says the same already stays.
    ///
    /// # Errors
    /// [`WriteError::PreconditionFailed`], [`WriteError::Contended`], the store's. Also that the stored item is no record.
    pub async fn put_product(
        &self,
        product: &ProductId,
        details: &ProductDetails,
        allows: impl Fn(Option<Revision>) -> bool,
    ) -> Result<ProductPut, WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let old = self.product(product).await?;
            let current = old.as_ref().map(|old| old.revision);
            if !allows(current) {
                return Err(WriteError::PreconditionFailed { current });
            }
            let change = match old {
                Some(record) if record.details == *details => {
                    return Ok(ProductPut { record, change: ProductChange::Nothing });
                }
                Some(_) => ProductChange::Replaced,
                None => ProductChange::Created,
            };
            let revision = Revision::after(current, now(), rand::random());
            let record = ProductRecord { product: product.clone(), revision, details: details.clone() };
            let action = match current {
                None => self.put_new(&ProductItem::from(record.clone()))?,
                Some(current) => self.replace(&record, current)?,
            };
            match self.transact(vec![action], revision, &mut backoff).await? {
                Outcome::Done => return Ok(ProductPut { record, change }),
                // Another writer was faster; the next round decides by what it wrote.
                Outcome::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }

    fn replace(&self, record: &ProductRecord, replaced: Revision) -> Result<TransactWriteItem, StoreError> {
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(to_sdk_item(&ProductItem::from(record.clone()))?))
            .condition_expression("revision = :replaced")
            .expression_attribute_values(":replaced", AttributeValue::S(replaced.to_string()))
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// Deletes a record, if `allows` accepts its revision.
    ///
    /// # Errors
    /// [`WriteError::NotFound`], [`WriteError::PreconditionFailed`], [`WriteError::Contended`], the store's. Also that the
    /// stored item is no record.
    pub async fn delete_product(
        &self,
        product: &ProductId,
        allows: impl Fn(Option<Revision>) -> bool,
    ) -> Result<(), WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let current = self.product(product).await?.ok_or(WriteError::NotFound)?.revision;
            if !allows(Some(current)) {
                return Err(WriteError::PreconditionFailed { current: Some(current) });
            }
            let delete = Delete::builder()
                .table_name(&self.name)
                .set_key(Some(key_of(product)))
                .condition_expression("revision = :replaced")
                .expression_attribute_values(":replaced", AttributeValue::S(current.to_string()))
                .build()
                .map_err(refused)?;
            let actions = vec![TransactWriteItem::builder().delete(delete).build()];
            let token = Revision::after(Some(current), now(), rand::random());
            match self.transact(actions, token, &mut backoff).await? {
                Outcome::Done => return Ok(()),
                Outcome::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }

    /// Some records of a shard, strongly consistent: at most a megabyte.
    pub async fn records_part(&self, shard: u32, from: Option<RecordsPosition>) -> Result<RecordsPart, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.name)
            .key_condition_expression("#pk = :pk")
            .expression_attribute_names("#pk", attribute::PK)
            .expression_attribute_values(":pk", AttributeValue::S(record_pk(shard)))
            .consistent_read(true)
            .set_exclusive_start_key(from.map(|position| position.0));
        let answer = query.send().await.map_err(store_error)?;
        let records = answer.items.unwrap_or_default().into_iter().map(|item| {
            let key = ItemKey::of(&item);
            match record_of(item) {
                Err(StoreError::Malformed(problem)) => Ok(Err(InvalidEntry { key, problem })),
                read => read.map(Ok),
            }
        });
        Ok(RecordsPart {
            records: records.collect::<Result<_, _>>()?,
            next: answer.last_evaluated_key.map(RecordsPosition),
        })
    }
}
