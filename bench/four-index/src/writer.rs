//! Writes comments, with or without their counters, and the counters of a batch of the stream.
//!
//! **Invariant:** if every write changes the counters in its transaction, they equal a count of the
//! table's comments. Comment and counters change on condition that the comment is in the state that
//! was read.
//!
//! **By the stream**, counters lag behind the comments. They become equal to a count if the
//! function gets every record. A batch that is delivered again counts once: all its counters change
//! in one transaction, and the batch gives its token. DynamoDB remembers a token for ten minutes.
//! So a batch counts twice if its answer was lost and it is delivered again later than that. With
//! other records under its token, it is refused until then. A batch of more than 100 statistics
//! items takes several transactions, so counters may show a part of it.

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
    counters::{CounterChanges, KeepCounters, StatisticsKey, changes_of_batch, counter_changes},
    item::{comment_item, item_key},
    table::{FourIndexTable, refused},
};

/// The most actions of a transaction (AWS: "Amazon DynamoDB Transactions").
const TRANSACTION_ITEMS: usize = 100;
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
            KeepCounters::No | KeepCounters::ByStream => CounterChanges::new(),
            KeepCounters::InTransaction => counter_changes(old, new),
        };
        if changes.is_empty() {
            return self.send(action).await;
        }
        let mut actions = vec![action];
        for (key, add) in &changes {
            actions.push(self.counter_action(key, add)?);
        }
        self.transact(actions, None).await
    }

    /// Changes the counters for a batch of the table's stream, as a function does that follows it.
    /// Each statistics item changes once, by the sum of the batch. `event_id` is that of the first
    /// record.
    ///
    /// # Errors
    /// The batch must be delivered again, also if another batch changed the same counters
    /// meanwhile.
    pub async fn count_batch<'comment>(
        &self,
        event_id: &str,
        batch: impl IntoIterator<Item = (Option<&'comment Comment>, Option<&'comment Comment>)>,
    ) -> Result<WriteCost, StoreError> {
        let mut actions = Vec::new();
        for (key, add) in &changes_of_batch(batch) {
            actions.push(self.counter_action(key, add)?);
        }
        let mut cost = WriteCost::default();
        for (part, actions) in actions.chunks(TRANSACTION_ITEMS).enumerate() {
            let token = format!("{event_id}-{part}");
            cost.table_units += self
                .transact(actions.to_vec(), Some(token))
                .await?
                .table_units;
        }
        Ok(cost)
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

    /// Sends a transaction. A repeat with the same token has no second effect. Without one, the SDK
    /// makes one for its own repeats.
    async fn transact(
        &self,
        actions: Vec<TransactWriteItem>,
        token: Option<String>,
    ) -> Result<WriteCost, StoreError> {
        let answer = self
            .client
            .transact_write_items()
            .set_transact_items(Some(actions))
            .set_client_request_token(token)
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
