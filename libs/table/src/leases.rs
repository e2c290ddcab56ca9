//! Leases: which run of the repair job works. A lease is a state.

use aws_sdk_dynamodb::types::AttributeValue;
use model::Timestamp;
use process::{Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::{
    Table,
    states::{state_key, unless_condition_failed},
};

const LEASE: &str = "lease";

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

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Maximum number of times a lease is tried to be taken that its holder releases meanwhile.
const TAKE_TRIES_MAX: u32 = 5;

impl Table {
    /// Takes the lease of a scope if it is free or has expired. Returns `None` on success,
    /// otherwise the lease of the current holder.
    pub async fn take_lease(
        &self,
        scope: &str,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Lease>, StoreError> {
        for _ in 0..TAKE_TRIES_MAX {
            let put = self
                .put(LEASE, scope, lease)?
                // A holder may take its lease again: the SDK repeats an attempt whose answer was
                // lost.
                .condition_expression(
                    "attribute_not_exists(pk) OR until_ms < :now OR holder = :holder",
                )
                .expression_attribute_values(":now", number(now.epoch_ms()))
                .expression_attribute_values(":holder", AttributeValue::S(lease.holder.clone()));
            if unless_condition_failed(put.send().await)?.is_some() {
                return Ok(None);
            }
            // Some engines do not return the item that failed the condition. Between both calls the
            // holder may have released it.
            if let Some(held) = self.state(LEASE, scope).await? {
                return Ok(Some(held));
            }
        }
        Err(StoreError::unavailable(
            Store::Table,
            "its lease changes hands faster than it can be taken",
        ))
    }

    /// Extends a lease; `false` when another run holds it by now.
    pub async fn renew_lease(
        &self,
        scope: &str,
        holder: &str,
        until_ms: i64,
    ) -> Result<bool, StoreError> {
        let update = self
            .client
            .update_item()
            .table_name(self.name())
            .set_key(Some(state_key(LEASE, scope)))
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
            .table_name(self.name())
            .set_key(Some(state_key(LEASE, scope)))
            .condition_expression("holder = :holder")
            .expression_attribute_values(":holder", AttributeValue::S(holder.to_owned()));
        unless_condition_failed(delete.send().await).map(drop)
    }

    /// All leases, including expired ones.
    pub async fn leases(&self) -> Result<Vec<(String, Lease)>, StoreError> {
        self.states(LEASE).await
    }
}
