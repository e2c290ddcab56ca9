//! Reads the comments of a status that readers do not see, from the sparse index `moderation`.

use aws_sdk_dynamodb::types::{AttributeValue, ConsumedCapacity};
use model::{
    Cd, Comment, Status,
    item::{CommentItem, attribute},
};
use process::StoreError;

use super::{
    MODERATION, SdkItem, Table,
    inspection::without_index,
    item_key::InvalidEntry,
    page_answer::{QueryReader, StoredItem},
};
use crate::error::store_error;

#[derive(Debug, Clone, PartialEq)]
pub struct ModerationPart {
    pub comments: Vec<Result<Comment, InvalidEntry>>,
    pub next: Option<ModerationPosition>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ModerationPosition {
    After(Cd),
    Answer(SdkKey),
}

/// A key of the index, as DynamoDB gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct SdkKey(SdkItem);

impl Table {
    /// At most `limit` comments of an unpublished status, oldest first, and at most a megabyte. Eventually consistent.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the table does not have the index yet. Also the store's.
    pub async fn moderation_part(
        &self,
        status: Status,
        from: Option<ModerationPosition>,
        limit: u16,
    ) -> Result<ModerationPart, StoreError> {
        self.admit_read().await;
        let reader = QueryReader::<CommentItem>::default();
        let query = self
            .client
            .query()
            .table_name(&self.name)
            .index_name(MODERATION)
            .expression_attribute_names("#status", attribute::UNPUBLISHED)
            .expression_attribute_values(":status", AttributeValue::S(status.to_string()))
            .limit(limit.into())
            .set_return_consumed_capacity(self.wants_capacity());
        let query = match from {
            None => query.key_condition_expression("#status = :status"),
            Some(ModerationPosition::Answer(SdkKey(key))) => {
                query.key_condition_expression("#status = :status").set_exclusive_start_key(Some(key))
            }
            Some(ModerationPosition::After(cd)) => query
                .key_condition_expression("#status = :status AND #cd > :cd")
                .expression_attribute_names("#cd", attribute::UNPUBLISHED_CD)
                .expression_attribute_values(":cd", AttributeValue::S(cd.to_string())),
        };
        let sent = query.customize().interceptor(reader.clone()).send().await;
        sent.map_err(|error| without_index(MODERATION, store_error(error)))?;
        let answer = reader.take_readable()?.into_items();
        let units = answer.consumed_capacity.map(|consumed| consumed.capacity_units);
        self.charge_read([&ConsumedCapacity::builder().set_capacity_units(units).build()]);
        Ok(ModerationPart {
            comments: answer.items.into_iter().map(StoredItem::unpublished).collect(),
            next: answer.last_evaluated_key.map(|key| ModerationPosition::Answer(SdkKey(key.into()))),
        })
    }
}
