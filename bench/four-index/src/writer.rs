//! Writes comments, with or without their counters.
//!
//! **Invariant:** if every write keeps the counters, they equal a count of the table's comments, even after repeated or
//! concurrent writes. Comment and counters change in one transaction, on condition that the comment is in the state
//! that was read.

use std::{collections::BTreeMap, time::Duration};

use ::table::store_error;
use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::{AttributeValue, Delete, Put, ReturnConsumedCapacity, TransactWriteItem, Update},
};
use model::{Comment, CommentId, item::attribute};
use process::{Backoff, StoreError};
use table::transaction::{reasons, sort};

use crate::{
    cost::WriteCost,
    counters::{CounterChanges, KeepCounters, StatisticsKey, counter_changes},
    error::Error,
    item::{comment_item, item_key},
    table::{FourIndexTable, refused},
};

const TRIED_WITHIN: Duration = Duration::from_secs(20);

const CONDITION_FAILED: &str = "ConditionalCheckFailed";
const ABSENT: &str = "attribute_not_exists(PK)";
const UNCHANGED: &str = "#revision = :revision AND #language = :language AND #rating = :rating";

impl FourIndexTable {
    pub async fn insert(&self, comment: &Comment, counters: KeepCounters) -> Result<WriteCost, Error> {
        match self.write(&comment.id, None, Some(comment), counters).await {
            Err(Error::Changed) => Err(Error::Exists),
            done => done,
        }
    }

    pub async fn edit(&self, old: &Comment, new: &Comment, counters: KeepCounters) -> Result<WriteCost, Error> {
        if (&old.id, &old.product, old.created_at) != (&new.id, &new.product, new.created_at) {
            return Err(Error::NoEdit("id, product and creation time never change"));
        }
        // With an equal revision, the condition of a second attempt would hold, and the attempt would count again.
        if new.revision <= old.revision {
            return Err(Error::NoEdit("its revision must be greater"));
        }
        self.write(&old.id, Some(old), Some(new), counters).await
    }

    pub async fn delete(&self, old: &Comment, counters: KeepCounters) -> Result<WriteCost, Error> {
        self.write(&old.id, Some(old), None, counters).await
    }

    async fn write(
        &self,
        id: &CommentId,
        old: Option<&Comment>,
        new: Option<&Comment>,
        counters: KeepCounters,
    ) -> Result<WriteCost, Error> {
        let action = self.comment_action(id, old, new)?;
        let changes = match counters {
            KeepCounters::No => CounterChanges::new(),
            KeepCounters::Yes => counter_changes(old, new),
        };
        if changes.is_empty() { self.send(action).await } else { self.transact(action, changes).await }
    }

    /// Writes the comment alone. After a lost answer the SDK repeats the write. If the first one arrived, the condition
    /// then fails, and the answer is that the comment has changed.
    async fn send(&self, TransactWriteItem { put, delete, .. }: TransactWriteItem) -> Result<WriteCost, Error> {
        let mut consumed = None;
        if let Some(put) = put {
            let call = self.client.put_item().table_name(put.table_name).set_item(Some(put.item));
            let call = call
                .set_condition_expression(put.condition_expression)
                .set_expression_attribute_names(put.expression_attribute_names)
                .set_expression_attribute_values(put.expression_attribute_values)
                .return_consumed_capacity(ReturnConsumedCapacity::Indexes);
            consumed = call.send().await.map_err(of_conditional)?.consumed_capacity;
        }
        if let Some(delete) = delete {
            let call = self.client.delete_item().table_name(delete.table_name).set_key(Some(delete.key));
            let call = call
                .set_condition_expression(delete.condition_expression)
                .set_expression_attribute_names(delete.expression_attribute_names)
                .set_expression_attribute_values(delete.expression_attribute_values)
                .return_consumed_capacity(ReturnConsumedCapacity::Indexes);
            consumed = call.send().await.map_err(of_conditional)?.consumed_capacity;
        }
        Ok(WriteCost::reported(consumed.as_ref()))
    }

    /// Writes comment and counters. The SDK gives the transaction a token, so a repeat after a lost answer has no
    /// second effect.
    async fn transact(&self, action: TransactWriteItem, changes: CounterChanges) -> Result<WriteCost, Error> {
        let mut actions = vec![action];
        for (key, add) in changes {
            actions.push(self.counter_action(&key, &add)?);
        }
        let mut backoff = Backoff::until(tokio::time::Instant::now() + TRIED_WITHIN);
        loop {
            let sent = self
                .client
                .transact_write_items()
                .set_transact_items(Some(actions.clone()))
                .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
                .send()
                .await;
            let error = match sent {
                Ok(answer) => return Ok(WriteCost::reported(answer.consumed_capacity())),
                Err(error) => error,
            };
            let reasons = reasons(&error);
            if reasons.iter().any(|code| code == CONDITION_FAILED) {
                return Err(Error::Changed);
            }
            let error = sort(error);
            // Retry only what the SDK did not retry itself.
            let cancelled_for_now = !reasons.is_empty() && error.is_unavailable();
            if !cancelled_for_now || !backoff.wait().await {
                return Err(error.into());
            }
        }
    }

    fn comment_action(
        &self,
        id: &CommentId,
        old: Option<&Comment>,
        new: Option<&Comment>,
    ) -> Result<TransactWriteItem, StoreError> {
        let condition = if old.is_some() { UNCHANGED } else { ABSENT };
        let names = [attribute::REVISION, attribute::LANGUAGE, attribute::RATING];
        let names = old.map(|_| names.map(|name| (format!("#{name}"), name.to_owned())).into());
        let values = old.map(|old| {
            let values = [
                (":revision", AttributeValue::S(old.revision.to_string())),
                (":language", AttributeValue::S(old.language.to_string())),
                (":rating", AttributeValue::N(old.rating.to_string())),
            ];
            values.map(|(name, value)| (name.to_owned(), value)).into()
        });
        let action = TransactWriteItem::builder();
        Ok(match new {
            Some(new) => {
                let put = Put::builder().table_name(&self.name).set_item(Some(comment_item(new).into()));
                let put = put.condition_expression(condition).set_expression_attribute_names(names);
                action.put(put.set_expression_attribute_values(values).build().map_err(refused)?).build()
            }
            None => {
                let delete = Delete::builder().table_name(&self.name).set_key(Some(item_key(id).into()));
                let delete = delete.condition_expression(condition).set_expression_attribute_names(names);
                action.delete(delete.set_expression_attribute_values(values).build().map_err(refused)?).build()
            }
        })
    }

    fn counter_action(
        &self,
        key: &StatisticsKey,
        add: &BTreeMap<String, i64>,
    ) -> Result<TransactWriteItem, StoreError> {
        let additions: Vec<String> = add.keys().map(|name| format!("{name} :{name}")).collect();
        let values = add.iter().map(|(name, count)| (format!(":{name}"), AttributeValue::N(count.to_string())));
        let update = Update::builder()
            .table_name(&self.name)
            .set_key(Some(key.item().into()))
            .update_expression(format!("ADD {}", additions.join(", ")))
            .set_expression_attribute_values(Some(values.collect()));
        Ok(TransactWriteItem::builder().update(update.build().map_err(refused)?).build())
    }
}

fn of_conditional<E>(error: SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match error.code() {
        Some("ConditionalCheckFailedException") => Error::Changed,
        _ => store_error(error).into(),
    }
}
