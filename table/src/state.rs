//! State of the repair job, in separate items: `STATE#<what>`, `<name>`.
//!
//! These items have no `cd`, so no index holds them. Their sort keys do not end like a primary item's, so they trigger
//! no function.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::AttributeValue,
};
use model::{Timestamp, item::attribute};
use process::{Store, StoreError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{SdkItem, Table, from_sdk_item, to_sdk_item};
use crate::error::store_error;

/// Maximum number of calls to list states of one kind.
const LIST_CALLS_MAX: usize = 100;

const WATERMARK: &str = "watermark";
const LEASE: &str = "lease";
/// The watermark of the duplicates: the journal is reconciled into them up to this instant.
const DUPLICATES: &str = "duplicates";
/// The attribute of a watermark.
const UP_TO: &str = "up_to";
/// Attributes of a lease.
const HOLDER: &str = "holder";
const UNTIL: &str = "until_ms";

/// A lease: which run works, and how long others must respect it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Unique to one run.
    pub holder: String,
    /// Host and process, so that a person can find the run.
    pub who: String,
    /// When the run began.
    pub since: Timestamp,
    /// When the lease ends unless it is renewed, in milliseconds since 1970.
    pub until_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Watermark {
    up_to: Timestamp,
}

fn key(what: &str, name: &str) -> SdkItem {
    [
        (attribute::PK.to_owned(), AttributeValue::S(format!("STATE#{what}"))),
        (attribute::SK.to_owned(), AttributeValue::S(name.to_owned())),
    ]
    .into()
}

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn is_condition_failed<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    error.code() == Some("ConditionalCheckFailedException")
}

impl Table {
    /// Reads a state, strongly consistent.
    ///
    /// # Errors
    /// The store's, or when the state is malformed.
    pub async fn state<T: DeserializeOwned>(&self, what: &str, name: &str) -> Result<Option<T>, StoreError> {
        self.admit_read().await;
        let get = self.client.get_item().table_name(&self.name).set_key(Some(key(what, name))).consistent_read(true);
        let answer = get.set_return_consumed_capacity(self.wants_capacity()).send().await.map_err(store_error)?;
        self.charge_read(&answer.consumed_capacity);
        answer.item.map(from_sdk_item).transpose()
    }

    /// Reads all states of a kind with their names, strongly consistent.
    ///
    /// # Errors
    /// The store's, or when a state is malformed.
    pub async fn states<T: DeserializeOwned>(&self, what: &str) -> Result<Vec<(String, T)>, StoreError> {
        let mut states = Vec::new();
        let mut start = None;
        for _ in 0..LIST_CALLS_MAX {
            self.admit_read().await;
            let query = self.client.query().table_name(&self.name).key_condition_expression("pk = :pk");
            let answer = query
                .expression_attribute_values(":pk", AttributeValue::S(format!("STATE#{what}")))
                .consistent_read(true)
                .set_exclusive_start_key(start)
                .set_return_consumed_capacity(self.wants_capacity())
                .send()
                .await
                .map_err(store_error)?;
            self.charge_read(&answer.consumed_capacity);
            for item in answer.items.unwrap_or_default() {
                let name = item.get(attribute::SK).and_then(|sk| sk.as_s().ok()).cloned().unwrap_or_default();
                states.push((name, from_sdk_item(item)?));
            }
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(states);
            }
        }
        Err(StoreError::refused(Store::Table, format!("there are too many states of {what} to read")))
    }

    /// Stores a state and replaces the previous one of this name.
    ///
    /// # Errors
    /// The store's.
    pub async fn put_state<T: Serialize>(&self, what: &str, name: &str, state: &T) -> Result<(), StoreError> {
        let mut item = to_sdk_item(state)?;
        item.extend(key(what, name));
        self.admit_write().await;
        let put = self.client.put_item().table_name(&self.name).set_item(Some(item));
        let answer = put.set_return_consumed_capacity(self.wants_capacity()).send().await.map_err(store_error)?;
        self.charge_write(&answer.consumed_capacity);
        Ok(())
    }

    /// Replaces the state that was read (`None` when there was none). Returns `false` when another one was stored
    /// meanwhile.
    ///
    /// # Errors
    /// The store's.
    pub async fn replace_state<T: Serialize>(
        &self,
        what: &str,
        name: &str,
        before: Option<&T>,
        after: &T,
    ) -> Result<bool, StoreError> {
        let mut item = to_sdk_item(after)?;
        item.extend(key(what, name));
        self.admit_write().await;
        let mut put = self.client.put_item().table_name(&self.name).set_item(Some(item));
        let mut conditions = Vec::new();
        for (place, (attribute, value)) in
            before.map(to_sdk_item).transpose()?.unwrap_or_default().into_iter().enumerate()
        {
            conditions.push(format!("#a{place} = :v{place}"));
            put = put.expression_attribute_names(format!("#a{place}"), attribute);
            put = put.expression_attribute_values(format!(":v{place}"), value);
        }
        let condition = match conditions.is_empty() {
            true => "attribute_not_exists(pk)".to_owned(),
            false => conditions.join(" AND "),
        };
        let put = put.condition_expression(condition).set_return_consumed_capacity(self.wants_capacity());
        match put.send().await {
            Ok(answer) => {
                self.charge_write(&answer.consumed_capacity);
                Ok(true)
            }
            Err(error) if is_condition_failed(&error) => Ok(false),
            Err(error) => Err(store_error(error)),
        }
    }

    /// The instant up to which the journal is reconciled into the duplicates; `None` before the first time.
    ///
    /// # Errors
    /// The store's.
    pub async fn watermark(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.state::<Watermark>(WATERMARK, DUPLICATES).await?.map(|watermark| watermark.up_to))
    }

    /// Advances the watermark; a later watermark stays.
    ///
    /// # Errors
    /// The store's.
    pub async fn advance_watermark(&self, to: Timestamp) -> Result<(), StoreError> {
        // The texts of instants sort by time.
        self.put_watermark(to, "attribute_not_exists(pk) OR #up_to < :is", to).await
    }

    /// Moves a wrong watermark back, unless another run has moved it meanwhile.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_watermark_back(&self, from: Timestamp, to: Timestamp) -> Result<(), StoreError> {
        self.put_watermark(to, "#up_to = :is", from).await
    }

    /// Writes the watermark if the condition about `is` holds. Otherwise the stored one stays.
    async fn put_watermark(&self, to: Timestamp, condition: &str, is: Timestamp) -> Result<(), StoreError> {
        let mut item = to_sdk_item(&Watermark { up_to: to })?;
        item.extend(key(WATERMARK, DUPLICATES));
        let put = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item))
            .condition_expression(condition)
            .expression_attribute_names("#up_to", UP_TO)
            .expression_attribute_values(":is", AttributeValue::S(is.to_string()))
            .send();
        match put.await {
            Ok(_) => Ok(()),
            Err(error) if is_condition_failed(&error) => Ok(()),
            Err(error) => Err(store_error(error)),
        }
    }

    /// Deletes a state.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete_state(&self, what: &str, name: &str) -> Result<(), StoreError> {
        self.admit_write().await;
        let delete = self.client.delete_item().table_name(&self.name).set_key(Some(key(what, name)));
        let answer = delete.set_return_consumed_capacity(self.wants_capacity()).send().await.map_err(store_error)?;
        self.charge_write(&answer.consumed_capacity);
        Ok(())
    }

    /// Takes the lease of a scope if it is free or has expired. Returns `None` on success, otherwise the lease of the
    /// current holder.
    ///
    /// # Errors
    /// The store's.
    pub async fn take_lease(&self, scope: &str, lease: &Lease, now: Timestamp) -> Result<Option<Lease>, StoreError> {
        let mut item = to_sdk_item(lease)?;
        item.extend(key(LEASE, scope));
        let put = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item))
            // A holder may take its lease again: the SDK repeats an attempt whose answer was lost.
            .condition_expression("attribute_not_exists(pk) OR #until < :now OR #holder = :holder")
            .expression_attribute_names("#until", UNTIL)
            .expression_attribute_names("#holder", HOLDER)
            .expression_attribute_values(":now", number(now.epoch_ms()))
            .expression_attribute_values(":holder", AttributeValue::S(lease.holder.clone()))
            .send();
        match put.await {
            Ok(_) => Ok(None),
            // Some engines do not return the item that failed the condition.
            Err(error) if is_condition_failed(&error) => match self.state(LEASE, scope).await? {
                Some(holder) => Ok(Some(holder)),
                None => Err(StoreError::unavailable(Store::Table, "the lease has just been given back")),
            },
            Err(error) => Err(store_error(error)),
        }
    }

    /// Extends a lease; `false` when another run holds it by now.
    ///
    /// # Errors
    /// The store's.
    pub async fn renew_lease(&self, scope: &str, holder: &str, until_ms: i64) -> Result<bool, StoreError> {
        let update = self
            .client
            .update_item()
            .table_name(&self.name)
            .set_key(Some(key(LEASE, scope)))
            .update_expression("SET #until = :until")
            .condition_expression("#holder = :holder")
            .expression_attribute_names("#until", UNTIL)
            .expression_attribute_names("#holder", HOLDER)
            .expression_attribute_values(":until", number(until_ms))
            .expression_attribute_values(":holder", AttributeValue::S(holder.to_owned()))
            .send();
        match update.await {
            Ok(_) => Ok(true),
            Err(error) if is_condition_failed(&error) => Ok(false),
            Err(error) => Err(store_error(error)),
        }
    }

    /// Releases a lease; another run's lease stays.
    ///
    /// # Errors
    /// The store's.
    pub async fn release_lease(&self, scope: &str, holder: &str) -> Result<(), StoreError> {
        let names: HashMap<String, String> = [("#holder".to_owned(), HOLDER.to_owned())].into();
        let delete = self
            .client
            .delete_item()
            .table_name(&self.name)
            .set_key(Some(key(LEASE, scope)))
            .condition_expression("#holder = :holder")
            .set_expression_attribute_names(Some(names))
            .expression_attribute_values(":holder", AttributeValue::S(holder.to_owned()))
            .send();
        match delete.await {
            Ok(_) => Ok(()),
            Err(error) if is_condition_failed(&error) => Ok(()),
            Err(error) => Err(store_error(error)),
        }
    }

    /// All leases, including expired ones.
    ///
    /// # Errors
    /// The store's.
    pub async fn leases(&self) -> Result<Vec<(String, Lease)>, StoreError> {
        self.states(LEASE).await
    }
}
