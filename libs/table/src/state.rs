//! State of the repair job, in separate items: `STATE#<what>`, `<name>`.
//!
//! These items have no `cd`, so no index holds them. Their sort keys do not end like a primary item's, so they trigger
//! no function.

use std::error::Error;

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    operation::put_item::builders::PutItemFluentBuilder,
    types::AttributeValue,
};
use model::Timestamp;
use process::{Store, StoreError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    SdkItem, Table,
    error::store_error,
    from_sdk_item,
    item_key::{ItemKey, item_key},
    to_sdk_item,
};

/// Maximum number of calls to list states of one kind.
const LIST_CALLS_MAX: usize = 100;

const WATERMARK: &str = "watermark";
const LEASE: &str = "lease";
const DUPLICATES: &str = "duplicates";

/// A lease: which run works, and how long others must respect it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub holder: String,
    /// Host and process, so that a person can find the run.
    pub who: String,
    pub since: Timestamp,
    /// When the lease ends unless it is renewed, in milliseconds since 1970.
    pub until_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Watermark {
    up_to: Timestamp,
}

fn pk(what: &str) -> String {
    format!("STATE#{what}")
}

fn key(what: &str, name: &str) -> SdkItem {
    item_key(pk(what), name.to_owned())
}

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// The answer to a conditional write; `None` when its condition did not hold.
fn unless_condition_failed<T, E>(sent: Result<T, SdkError<E>>) -> Result<Option<T>, StoreError>
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    match sent {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(None),
        Err(error) => Err(store_error(error)),
    }
}

impl Table {
    /// Strongly consistent.
    pub async fn state<T: DeserializeOwned>(&self, what: &str, name: &str) -> Result<Option<T>, StoreError> {
        self.item(key(what, name)).await?.map(from_sdk_item).transpose()
    }

    /// All states of a kind with their names, strongly consistent.
    pub async fn states<T: DeserializeOwned>(&self, what: &str) -> Result<Vec<(String, T)>, StoreError> {
        let too_many = || StoreError::refused(Store::Table, format!("there are too many states of {what} to read"));
        let (items, _) = self.items(pk(what), LIST_CALLS_MAX).await?.ok_or_else(too_many)?;
        items.into_iter().map(|item| Ok((ItemKey::of(&item).sk, from_sdk_item(item)?))).collect()
    }

    pub async fn put_state<T: Serialize>(&self, what: &str, name: &str, state: &T) -> Result<(), StoreError> {
        let put = self.put(what, name, state)?;
        self.admit_write().await;
        let answer = put.set_return_consumed_capacity(self.wants_capacity()).send().await.map_err(store_error)?;
        self.charge_write(&answer.consumed_capacity);
        Ok(())
    }

    /// Replaces the state that was read (`None` when there was none). Returns `false` when another one was stored
    /// meanwhile.
    pub async fn replace_state<T: Serialize>(
        &self,
        what: &str,
        name: &str,
        before: Option<&T>,
        after: &T,
    ) -> Result<bool, StoreError> {
        let mut put = self.put(what, name, after)?;
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
        self.admit_write().await;
        let answer = unless_condition_failed(put.send().await)?;
        self.charge_write(answer.iter().flat_map(|answer| &answer.consumed_capacity));
        Ok(answer.is_some())
    }

    fn put<T: Serialize>(&self, what: &str, name: &str, state: &T) -> Result<PutItemFluentBuilder, StoreError> {
        let mut item = to_sdk_item(state)?;
        item.extend(key(what, name));
        Ok(self.client.put_item().table_name(&self.name).set_item(Some(item)))
    }

    /// The instant up to which the journal is reconciled into the duplicates; `None` before the first time.
    pub async fn watermark(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.state::<Watermark>(WATERMARK, DUPLICATES).await?.map(|watermark| watermark.up_to))
    }

    /// Advances the watermark; a later watermark stays.
    pub async fn advance_watermark(&self, to: Timestamp) -> Result<(), StoreError> {
        let put = self.put(WATERMARK, DUPLICATES, &Watermark { up_to: to })?;
        // The texts of instants sort by time.
        let put = put.condition_expression("attribute_not_exists(pk) OR up_to < :to");
        let put = put.expression_attribute_values(":to", AttributeValue::S(to.to_string()));
        unless_condition_failed(put.send().await).map(drop)
    }

    /// Moves a wrong watermark back, unless another run has moved it meanwhile.
    pub async fn set_watermark_back(&self, from: Timestamp, to: Timestamp) -> Result<(), StoreError> {
        let (from, to) = (Watermark { up_to: from }, Watermark { up_to: to });
        self.replace_state(WATERMARK, DUPLICATES, Some(&from), &to).await.map(drop)
    }

    pub async fn delete_state(&self, what: &str, name: &str) -> Result<(), StoreError> {
        self.admit_write().await;
        let delete = self.client.delete_item().table_name(&self.name).set_key(Some(key(what, name)));
        let answer = delete.set_return_consumed_capacity(self.wants_capacity()).send().await.map_err(store_error)?;
        self.charge_write(&answer.consumed_capacity);
        Ok(())
    }

    /// Takes the lease of a scope if it is free or has expired. Returns `None` on success, otherwise the lease of the
    /// current holder.
    pub async fn take_lease(&self, scope: &str, lease: &Lease, now: Timestamp) -> Result<Option<Lease>, StoreError> {
        let put = self
            .put(LEASE, scope, lease)?
            // A holder may take its lease again: the SDK repeats an attempt whose answer was lost.
            .condition_expression("attribute_not_exists(pk) OR until_ms < :now OR holder = :holder")
            .expression_attribute_values(":now", number(now.epoch_ms()))
            .expression_attribute_values(":holder", AttributeValue::S(lease.holder.clone()));
        if unless_condition_failed(put.send().await)?.is_some() {
            return Ok(None);
        }
        // Some engines do not return the item that failed the condition.
        let holder = self.state(LEASE, scope).await?;
        let given_back = || StoreError::unavailable(Store::Table, "the lease has just been given back");
        holder.ok_or_else(given_back).map(Some)
    }

    /// Extends a lease; `false` when another run holds it by now.
    pub async fn renew_lease(&self, scope: &str, holder: &str, until_ms: i64) -> Result<bool, StoreError> {
        let update = self
            .client
            .update_item()
            .table_name(&self.name)
            .set_key(Some(key(LEASE, scope)))
            .update_expression("SET until_ms = :until")
            .condition_expression("holder = :holder")
            .expression_attribute_values(":until", number(until_ms))
            .expression_attribute_values(":holder", AttributeValue::S(holder.to_owned()));
        Ok(unless_condition_failed(update.send().await)?.is_some())
    }

    /// Releases a lease; another run's lease stays.
    pub async fn release_lease(&self, scope: &str, holder: &str) -> Result<(), StoreError> {
        let delete = self
            .client
            .delete_item()
            .table_name(&self.name)
            .set_key(Some(key(LEASE, scope)))
            .condition_expression("holder = :holder")
            .expression_attribute_values(":holder", AttributeValue::S(holder.to_owned()));
        unless_condition_failed(delete.send().await).map(drop)
    }

    /// All leases, including expired ones.
    pub async fn leases(&self) -> Result<Vec<(String, Lease)>, StoreError> {
        self.states(LEASE).await
    }
}
