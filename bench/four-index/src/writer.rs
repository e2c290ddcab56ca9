//! Writes comments, with or without their counters.
//!
//! **Invariant:** if every write keeps the counters, they equal a count of the table's comments, even after repeated or
//! concurrent writes. Comment and counters change in one transaction, on condition that the comment is in the state
//! that was read (`tests/designs`).

use std::{collections::HashMap, time::Duration};

use ::table::store_error;
use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::{AttributeValue, Delete, Put, ReturnConsumedCapacity, TransactWriteItem, Update},
};
use model::{Comment, item::attribute};
use process::{Backoff, StoreError};
use serde_dynamo::Item;
use table::transaction::{reasons, sort};

use crate::{
    cost::WriteCost,
    counters::{CounterChange, KeepCounters, counter_changes},
    error::Error,
    item::{comment_item, item_key},
    table::{FourIndexTable, refused},
};

/// How long to retry a transaction that conflicts with others. All writes of a product change the same item, so
/// conflicts happen under load.
const TRIED_WITHIN: Duration = Duration::from_secs(20);

const CONDITION_FAILED: &str = "ConditionalCheckFailed";
const ABSENT: &str = "attribute_not_exists(PK)";
/// The condition that the comment is in the state that was read.
const UNCHANGED: &str = "#revision = :revision AND #language = :language AND #rating = :rating";

/// Names and values of the condition.
struct Read {
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Read {
    fn of(comment: &Comment) -> Self {
        let names = [attribute::REVISION, attribute::LANGUAGE, attribute::RATING];
        let values = [
            (":revision", AttributeValue::S(comment.revision.to_string())),
            (":language", AttributeValue::S(comment.language.to_string())),
            (":rating", AttributeValue::N(comment.rating.to_string())),
        ];
        Self {
            names: names.map(|name| (format!("#{name}"), name.to_owned())).into(),
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }
}

/// The change of the comment's item.
enum Write {
    Put { item: Item, replaces: Option<Read> },
    Delete { key: Item, read: Read },
}

impl FourIndexTable {
    /// Writes a new comment.
    ///
    /// # Errors
    /// [`Error::Exists`]; the store's.
    pub async fn insert(&self, comment: &Comment, counters: KeepCounters) -> Result<WriteCost, Error> {
        let write = Write::Put { item: comment_item(comment), replaces: None };
        match self.write(write, None, Some(comment), counters).await {
            Err(Error::Changed) => Err(Error::Exists),
            done => done,
        }
    }

    /// Replaces a comment with a later state: another text, rating or language. A change of the text alone leaves the
    /// counters unchanged and needs no transaction.
    ///
    /// # Errors
    /// [`Error::Changed`] when the comment is not in the state `old`; [`Error::NoEdit`] when `new` is not a later
    /// revision; the store's.
    pub async fn edit(&self, old: &Comment, new: &Comment, counters: KeepCounters) -> Result<WriteCost, Error> {
        if (&old.id, &old.product, old.created_at) != (&new.id, &new.product, new.created_at) {
            return Err(Error::NoEdit("id, product and creation time never change"));
        }
        // With an equal revision, the condition of a second attempt would hold, and the attempt would count again.
        if new.revision <= old.revision {
            return Err(Error::NoEdit("its revision must be greater"));
        }
        let write = Write::Put { item: comment_item(new), replaces: Some(Read::of(old)) };
        self.write(write, Some(old), Some(new), counters).await
    }

    /// Deletes a comment.
    ///
    /// # Errors
    /// [`Error::Changed`] when the comment is not in the state `old`, or is gone; the store's.
    pub async fn delete(&self, old: &Comment, counters: KeepCounters) -> Result<WriteCost, Error> {
        let write = Write::Delete { key: item_key(&old.id), read: Read::of(old) };
        self.write(write, Some(old), None, counters).await
    }

    async fn write(
        &self,
        write: Write,
        old: Option<&Comment>,
        new: Option<&Comment>,
        counters: KeepCounters,
    ) -> Result<WriteCost, Error> {
        let changes = match counters {
            KeepCounters::No => Vec::new(),
            KeepCounters::Yes => {
                counter_changes(old.map(Comment::placement).as_ref(), new.map(Comment::placement).as_ref())
            }
        };
        if changes.is_empty() { self.send(write).await } else { self.transact(write, changes).await }
    }

    /// Writes the comment alone. After a lost answer the SDK repeats the write. If the first one arrived, the condition
    /// then fails, and the answer is that the comment has changed.
    async fn send(&self, write: Write) -> Result<WriteCost, Error> {
        let consumed = match write {
            Write::Put { item, replaces } => {
                let put = self.client.put_item().table_name(&self.name).set_item(Some(item.into()));
                let put = match replaces {
                    None => put.condition_expression(ABSENT),
                    Some(read) => put
                        .condition_expression(UNCHANGED)
                        .set_expression_attribute_names(Some(read.names))
                        .set_expression_attribute_values(Some(read.values)),
                };
                let put = put.return_consumed_capacity(ReturnConsumedCapacity::Indexes);
                put.send().await.map_err(of_conditional)?.consumed_capacity
            }
            Write::Delete { key, read } => {
                let delete = self
                    .client
                    .delete_item()
                    .table_name(&self.name)
                    .set_key(Some(key.into()))
                    .condition_expression(UNCHANGED)
                    .set_expression_attribute_names(Some(read.names))
                    .set_expression_attribute_values(Some(read.values))
                    .return_consumed_capacity(ReturnConsumedCapacity::Indexes);
                delete.send().await.map_err(of_conditional)?.consumed_capacity
            }
        };
        Ok(WriteCost::reported(consumed.as_ref()))
    }

    /// Writes comment and counters. The SDK gives the transaction a token, so a repeat after a lost answer has no
    /// second effect.
    async fn transact(&self, write: Write, changes: Vec<CounterChange>) -> Result<WriteCost, Error> {
        let mut actions = vec![self.comment_action(write)?];
        for change in changes {
            actions.push(self.counter_action(change)?);
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

    fn comment_action(&self, write: Write) -> Result<TransactWriteItem, StoreError> {
        let action = TransactWriteItem::builder();
        Ok(match write {
            Write::Put { item, replaces } => {
                let put = Put::builder().table_name(&self.name).set_item(Some(item.into()));
                let put = match replaces {
                    None => put.condition_expression(ABSENT),
                    Some(read) => put
                        .condition_expression(UNCHANGED)
                        .set_expression_attribute_names(Some(read.names))
                        .set_expression_attribute_values(Some(read.values)),
                };
                action.put(put.build().map_err(refused)?).build()
            }
            Write::Delete { key, read } => {
                let delete = Delete::builder()
                    .table_name(&self.name)
                    .set_key(Some(key.into()))
                    .condition_expression(UNCHANGED)
                    .set_expression_attribute_names(Some(read.names))
                    .set_expression_attribute_values(Some(read.values));
                action.delete(delete.build().map_err(refused)?).build()
            }
        })
    }

    fn counter_action(&self, change: CounterChange) -> Result<TransactWriteItem, StoreError> {
        let additions: Vec<String> = change.add.keys().map(|name| format!("{name} :{name}")).collect();
        let values = change.add.iter().map(|(name, count)| (format!(":{name}"), AttributeValue::N(count.to_string())));
        let update = Update::builder()
            .table_name(&self.name)
            .set_key(Some(change.key.item().into()))
            .update_expression(format!("ADD {}", additions.join(", ")))
            .set_expression_attribute_values(Some(values.collect()));
        Ok(TransactWriteItem::builder().update(update.build().map_err(refused)?).build())
    }
}

/// The error of a single conditional write.
fn of_conditional<E>(error: SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match error.code() {
        Some("ConditionalCheckFailedException") => Error::Changed,
        _ => store_error(error).into(),
    }
}
