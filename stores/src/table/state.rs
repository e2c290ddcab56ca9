//! What the repair job remembers, in items of its own: `STATE#<what>`, `<name>`.
//!
//! They have no `cd`, so they are in no index, and their sort keys end like no primary item's, so they wake nobody.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::AttributeValue,
};
use model::{Instant, item::attribute};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{SdkItem, Table, from_sdk_item, to_sdk_item};
use crate::error::{Store, StoreError};

/// The most calls that listing states of one kind may take.
const LIST_CALLS_MAX: usize = 100;

const WATERMARK: &str = "watermark";
const LEASE: &str = "lease";
/// The watermark up to which the journal has been reconciled into the duplicates.
const DUPLICATES: &str = "duplicates";
/// The attribute of a watermark.
const UP_TO: &str = "up_to";
/// Attributes of a lease.
const HOLDER: &str = "holder";
const UNTIL: &str = "until_ms";

/// Who is at work, and until when others must believe so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Unique to one run.
    pub holder: String,
    /// What a person finds it by: host and process.
    pub who: String,
    /// When it began.
    pub since: Instant,
    /// When it ends unless it is renewed, in milliseconds since 1970.
    pub until_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Watermark {
    up_to: Instant,
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
    /// A state, strongly consistent.
    ///
    /// # Errors
    /// The store's, or that it is malformed.
    pub async fn state<T: DeserializeOwned>(&self, what: &str, name: &str) -> Result<Option<T>, StoreError> {
        self.admit_read().await;
        let get = self.client.get_item().table_name(&self.name).set_key(Some(key(what, name))).consistent_read(true);
        let answer =
            get.set_return_consumed_capacity(self.wants_capacity()).send().await.map_err(StoreError::of_sdk)?;
        self.charge_read(&answer.consumed_capacity);
        answer.item.map(from_sdk_item).transpose()
    }

    /// All states of a kind by their names, strongly consistent.
    ///
    /// # Errors
    /// The store's, or that one is malformed.
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
                .map_err(StoreError::of_sdk)?;
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

    /// Keeps a state instead of the one of this name.
    ///
    /// # Errors
    /// The store's.
    pub async fn put_state<T: Serialize>(&self, what: &str, name: &str, state: &T) -> Result<(), StoreError> {
        let mut item = to_sdk_item(state)?;
        item.extend(key(what, name));
        self.admit_write().await;
        let put = self.client.put_item().table_name(&self.name).set_item(Some(item));
        let answer =
            put.set_return_consumed_capacity(self.wants_capacity()).send().await.map_err(StoreError::of_sdk)?;
        self.charge_write(&answer.consumed_capacity);
        Ok(())
    }

    /// Keeps a state instead of the one that was read, `None` when there was none; `false` when there is another by now.
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
            Err(error) => Err(StoreError::of_sdk(error)),
        }
    }

    /// Up to when the journal has been reconciled into the duplicates; `None` before the first time.
    ///
    /// # Errors
    /// The store's.
    pub async fn watermark(&self) -> Result<Option<Instant>, StoreError> {
        Ok(self.state::<Watermark>(WATERMARK, DUPLICATES).await?.map(|watermark| watermark.up_to))
    }

    /// Moves the watermark on; one that is further on stays.
    ///
    /// # Errors
    /// The store's.
    pub async fn advance_watermark(&self, to: Instant) -> Result<(), StoreError> {
        // The order of instants' texts is that of time.
        self.put_watermark(to, "attribute_not_exists(pk) OR #up_to < :is", to).await
    }

    /// Sets a watermark back that was found to be wrong, unless somebody has moved it since.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_watermark_back(&self, from: Instant, to: Instant) -> Result<(), StoreError> {
        self.put_watermark(to, "#up_to = :is", from).await
    }

    /// Writes the watermark, on a condition about what it `is`; when that does not hold, it stays.
    async fn put_watermark(&self, to: Instant, condition: &str, is: Instant) -> Result<(), StoreError> {
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
            Err(error) => Err(StoreError::of_sdk(error)),
        }
    }

    /// Forgets a state.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete_state(&self, what: &str, name: &str) -> Result<(), StoreError> {
        self.admit_write().await;
        let delete = self.client.delete_item().table_name(&self.name).set_key(Some(key(what, name)));
        let answer =
            delete.set_return_consumed_capacity(self.wants_capacity()).send().await.map_err(StoreError::of_sdk)?;
        self.charge_write(&answer.consumed_capacity);
        Ok(())
    }

    /// Takes the lease of a scope if nobody has it, or whoever had it let it run out: then the answer is `None`, otherwise
    /// who has it.
    ///
    /// # Errors
    /// The store's.
    pub async fn take_lease(&self, scope: &str, lease: &Lease, now: Instant) -> Result<Option<Lease>, StoreError> {
        let mut item = to_sdk_item(lease)?;
        item.extend(key(LEASE, scope));
        let put = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item))
            // Its own: an attempt whose answer was lost is repeated by the SDK.
            .condition_expression("attribute_not_exists(pk) OR #until < :now OR #holder = :holder")
            .expression_attribute_names("#until", UNTIL)
            .expression_attribute_names("#holder", HOLDER)
            .expression_attribute_values(":now", number(now.epoch_ms()))
            .expression_attribute_values(":holder", AttributeValue::S(lease.holder.clone()))
            .send();
        match put.await {
            Ok(_) => Ok(None),
            // Not every engine tells the item that the condition failed on.
            Err(error) if is_condition_failed(&error) => match self.state(LEASE, scope).await? {
                Some(holder) => Ok(Some(holder)),
                None => Err(StoreError::unavailable(Store::Table, "the lease has just been given back")),
            },
            Err(error) => Err(StoreError::of_sdk(error)),
        }
    }

    /// Keeps a lease for longer; `false` when somebody else has it by now.
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
            Err(error) => Err(StoreError::of_sdk(error)),
        }
    }

    /// Gives a lease back; somebody else's stays.
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
            Err(error) => Err(StoreError::of_sdk(error)),
        }
    }

    /// The leases that somebody has, or let run out.
    ///
    /// # Errors
    /// The store's.
    pub async fn leases(&self) -> Result<Vec<(String, Lease)>, StoreError> {
        self.states(LEASE).await
    }
}
