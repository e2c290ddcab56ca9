//! Writes comments, with or without their counters.
//!
//! **Invariant:** if every write keeps the counters, they equal a count of the table's comments.
//! Comment and counters change in one transaction, on condition that the comment is in the state
//! that was read.

use std::collections::{BTreeMap, HashMap};

use ::table::store_error;
use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, ReturnConsumedCapacity, TransactWriteItem, Update,
};
use model::{Comment, item::attribute};
use process::StoreError;
use table::transaction::sort;

use crate::{
    cost::WriteCost,
    counters::{CounterChanges, KeepCounters, StatisticsKey, counter_changes},
    item::{comment_item, item_key},
    table::{FourIndexTable, refused},
};

const ABSENT: &str = "attribute_not_exists(PK)";
const UNCHANGED: &str = "#revision = :revision AND #language = :language AND #rating = :rating";

impl FourIndexTable {
    /// Writes a change of a comment; `None` stands for an absent one.
    ///
    /// # Errors
    /// Refused if the comment is not, or no longer, in its old state.
    pub async fn write(
        &self,
        old: Option<&Comment>,
        new: Option<&Comment>,
        counters: KeepCounters,
    ) -> Result<WriteCost, StoreError> {
        let action = self.comment_action(old, new)?;
        let changes = match counters {
            KeepCounters::No => CounterChanges::new(),
            KeepCounters::Yes => counter_changes(old, new),
        };
        if changes.is_empty() {
            self.send(action).await
        } else {
            self.transact(action, changes).await
        }
    }

    /// Writes the comment alone.
    async fn send(
        &self,
        TransactWriteItem { put, delete, .. }: TransactWriteItem,
    ) -> Result<WriteCost, StoreError> {
        let mut consumed = None;
        if let Some(put) = put {
            let call = self
                .client
                .put_item()
                .table_name(put.table_name)
                .set_item(Some(put.item))
                .set_condition_expression(put.condition_expression)
                .set_expression_attribute_names(put.expression_attribute_names)
                .set_expression_attribute_values(put.expression_attribute_values)
                .return_consumed_capacity(ReturnConsumedCapacity::Indexes);
            consumed = call.send().await.map_err(store_error)?.consumed_capacity;
        }
        if let Some(delete) = delete {
            let call = self
                .client
                .delete_item()
                .table_name(delete.table_name)
                .set_key(Some(delete.key))
                .set_condition_expression(delete.condition_expression)
                .set_expression_attribute_names(delete.expression_attribute_names)
                .set_expression_attribute_values(delete.expression_attribute_values)
                .return_consumed_capacity(ReturnConsumedCapacity::Indexes);
            consumed = call.send().await.map_err(store_error)?.consumed_capacity;
        }
        Ok(WriteCost::reported(consumed.as_ref()))
    }

    /// Writes comment and counters. The SDK gives the transaction a token, so a repeat after a lost
    /// answer has no second effect.
    async fn transact(
        &self,
        action: TransactWriteItem,
        changes: CounterChanges,
    ) -> Result<WriteCost, StoreError> {
        let mut actions = vec![action];
        for (key, add) in changes {
            actions.push(self.counter_action(&key, &add)?);
        }
        let sent = self
            .client
            .transact_write_items()
            .set_transact_items(Some(actions));
        let answer = sent
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await
            .map_err(sort)?;
        Ok(WriteCost::reported(answer.consumed_capacity()))
    }

    fn comment_action(
        &self,
        old: Option<&Comment>,
        new: Option<&Comment>,
    ) -> Result<TransactWriteItem, StoreError> {
        let condition = StateCondition::of(old);
        let action = TransactWriteItem::builder();
        if let (Some(old), None) = (old, new) {
            let delete = Delete::builder()
                .table_name(&self.name)
                .set_key(Some(item_key(&old.id).into()))
                .condition_expression(condition.expression)
                .set_expression_attribute_names(condition.names)
                .set_expression_attribute_values(condition.values);
            return Ok(action.delete(delete.build().map_err(refused)?).build());
        }
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(new.map(|new| comment_item(new).into()))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values);
        Ok(action.put(put.build().map_err(refused)?).build())
    }

    fn counter_action(
        &self,
        key: &StatisticsKey,
        add: &BTreeMap<String, i64>,
    ) -> Result<TransactWriteItem, StoreError> {
        let additions: Vec<String> = add.keys().map(|name| format!("{name} :{name}")).collect();
        let mut values = HashMap::new();
        for (name, count) in add {
            values.insert(format!(":{name}"), AttributeValue::N(count.to_string()));
        }
        let update = Update::builder()
            .table_name(&self.name)
            .set_key(Some(key.item().into()))
            .update_expression(format!("ADD {}", additions.join(", ")))
            .set_expression_attribute_values(Some(values));
        Ok(TransactWriteItem::builder()
            .update(update.build().map_err(refused)?)
            .build())
    }
}

/// That a comment is still in its old state.
struct StateCondition {
    expression: &'static str,
    names: Option<HashMap<String, String>>,
    values: Option<HashMap<String, AttributeValue>>,
}

impl StateCondition {
    fn of(old: Option<&Comment>) -> Self {
        let Some(old) = old else {
            return Self {
                expression: ABSENT,
                names: None,
                values: None,
            };
        };
        let names = [attribute::REVISION, attribute::LANGUAGE, attribute::RATING];
        let values = [
            (":revision", AttributeValue::S(old.revision.to_string())),
            (":language", AttributeValue::S(old.language.to_string())),
            (":rating", AttributeValue::N(old.rating.to_string())),
        ];
        Self {
            expression: UNCHANGED,
            names: Some(
                names
                    .map(|name| (format!("#{name}"), name.to_owned()))
                    .into(),
            ),
            values: Some(values.map(|(name, value)| (name.to_owned(), value)).into()),
        }
    }
}
