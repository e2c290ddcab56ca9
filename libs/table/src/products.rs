//! The records of products.
//!
//! A record has no journal entry, because nothing is derived from it. Its writes use the
//! transactions of comments: a repeated attempt finds out that an earlier one has happened.

use model::{
    ProductDetails, ProductId, ProductRecord, Revision,
    product::{ProductItem, record_pk},
};
use process::{StoreError, now, random};

use crate::{
    Table,
    actions::{IS_REPLACED, replaced},
    change::{ProductChange, ProductPut, WriteError},
    error::store_error,
    item::{InvalidEntry, ItemKey, record_key_of, record_of},
    parts::{Part, Position},
    transaction::{Transacted, wait_for_others},
};

impl Table {
    /// Strongly consistent.
    pub async fn product(&self, product: &ProductId) -> Result<Option<ProductRecord>, StoreError> {
        self.item(record_key_of(product))
            .await?
            .map(record_of)
            .transpose()
    }

    /// Eventually consistent: at half the price.
    pub async fn product_to_show(
        &self,
        product: &ProductId,
    ) -> Result<Option<ProductRecord>, StoreError> {
        let get = self
            .client
            .get_item()
            .table_name(self.name())
            .set_key(Some(record_key_of(product)));
        get.send()
            .await
            .map_err(store_error)?
            .item
            .map(record_of)
            .transpose()
    }

    /// Some records of a shard, strongly consistent: at most a megabyte.
    pub async fn records_part(
        &self,
        shard: u32,
        from: Option<Position>,
    ) -> Result<Part<Result<ProductRecord, InvalidEntry>>, StoreError> {
        let query = self
            .query_of(record_pk(shard))
            .set_exclusive_start_key(from.map(|position| position.0));
        let answer = query.send().await.map_err(store_error)?;
        let mut rows = Vec::new();
        for item in answer.items.unwrap_or_default() {
            let key = ItemKey::of(&item);
            match record_of(item) {
                Ok(record) => rows.push(Ok(record)),
                Err(StoreError::Malformed(problem)) => rows.push(Err(InvalidEntry {
                    key,
                    cd: None,
                    problem,
                })),
                Err(error) => return Err(error),
            }
        }
        Ok(Part {
            rows,
            next: answer.last_evaluated_key.map(Position),
        })
    }

    /// Puts a record, if `allows` accepts the revision of the record that is there (`None`: there
    /// is none). A record that says the same already stays.
    ///
    /// # Errors
    /// [`WriteError::PreconditionFailed`], [`WriteError::Contended`], the store's. Also when the
    /// stored item is not a record.
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
                    return Ok(ProductPut {
                        record,
                        change: ProductChange::Nothing,
                    });
                }
                Some(_) => ProductChange::Replaced,
                None => ProductChange::Created,
            };
            let revision = Revision::after(current, now(), random());
            let record = ProductRecord {
                product: product.clone(),
                revision,
                details: details.clone(),
            };
            let item = ProductItem::from(record.clone());
            let action = match current {
                None => self.put_new(&item)?,
                Some(current) => self.put_if(&item, IS_REPLACED, replaced(current))?,
            };
            match self.transact(vec![action], revision, &mut backoff).await? {
                Transacted::Done => return Ok(ProductPut { record, change }),
                // Another writer was faster; the next round decides by what it wrote.
                Transacted::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }

    /// Deletes a record, if `allows` accepts its revision.
    ///
    /// # Errors
    /// [`WriteError::NotFound`], [`WriteError::PreconditionFailed`], [`WriteError::Contended`], the
    /// store's. Also when the stored item is not a record.
    pub async fn delete_product(
        &self,
        product: &ProductId,
        allows: impl Fn(Option<Revision>) -> bool,
    ) -> Result<(), WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let current = self
                .product(product)
                .await?
                .ok_or(WriteError::NotFound)?
                .revision;
            if !allows(Some(current)) {
                return Err(WriteError::PreconditionFailed {
                    current: Some(current),
                });
            }
            let actions = vec![self.delete_at(record_key_of(product), current)?];
            let token = Revision::after(Some(current), now(), random());
            match self.transact(actions, token, &mut backoff).await? {
                Transacted::Done => return Ok(()),
                Transacted::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }
}
