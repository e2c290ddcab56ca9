//! The stored state of the repair job.
//!
//! Each state has a separate item, `STATE#<what>`, `<name>`. They have no `cd`, so no index holds
//! them. Their sort keys do not end like a primary item's, so they trigger no function.

use std::error::Error;

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    operation::put_item::builders::PutItemFluentBuilder,
    types::AttributeValue,
};
use model::Timestamp;
use process::{Store, StoreError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_dynamo::Item;

use crate::{
    Table,
    actions::Condition,
    error::store_error,
    item::{ItemKey, SdkItem, from_sdk_item, item_key, to_sdk_item},
};

/// Maximum number of calls to list states of one kind.
const LIST_CALLS_MAX: usize = 100;

const WATERMARK: &str = "watermark";
const DUPLICATES: &str = "duplicates";

#[derive(Debug, Serialize, Deserialize)]
struct Watermark {
    up_to: Timestamp,
}

fn state_pk(what: &str) -> String {
    format!("STATE#{what}")
}

pub(crate) fn state_key(what: &str, name: &str) -> SdkItem {
    item_key(state_pk(what), name.to_owned())
}

/// The answer to a conditional write; `None` when its condition did not hold.
pub(crate) fn unless_condition_failed<T, E>(
    sent: Result<T, SdkError<E>>,
) -> Result<Option<T>, StoreError>
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
    pub async fn state<T: DeserializeOwned>(
        &self,
        what: &str,
        name: &str,
    ) -> Result<Option<T>, StoreError> {
        self.item(state_key(what, name))
            .await?
            .map(from_sdk_item)
            .transpose()
    }

    /// All states of a kind with their names, strongly consistent.
    pub async fn states<T: DeserializeOwned>(
        &self,
        what: &str,
    ) -> Result<Vec<(String, T)>, StoreError> {
        let Some((items, _)) = self.items(state_pk(what), LIST_CALLS_MAX).await? else {
            let detail = format!("there are too many states of {what} to read");
            return Err(StoreError::refused(Store::Table, detail));
        };
        let mut states = Vec::with_capacity(items.len());
        for item in items {
            let ItemKey { sk: name, .. } = ItemKey::of(&item);
            states.push((name, from_sdk_item(item)?));
        }
        Ok(states)
    }

    pub async fn put_state<T: Serialize>(
        &self,
        what: &str,
        name: &str,
        state: &T,
    ) -> Result<(), StoreError> {
        let put = self.put(what, name, state)?;
        self.meter.write.admit().await;
        let answer = put
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
            .map_err(store_error)?;
        self.meter.write.charge(&answer.consumed_capacity);
        Ok(())
    }

    /// Replaces the state that was read (`None` when there was none). Returns `false` when another
    /// one was stored meanwhile.
    pub async fn replace_state<T: Serialize>(
        &self,
        what: &str,
        name: &str,
        before: Option<&T>,
        after: &T,
    ) -> Result<bool, StoreError> {
        let put = self.put(what, name, after)?;
        let put = match before.map(to_sdk_item).transpose()?.map(Item::from) {
            None => put.condition_expression("attribute_not_exists(pk)"),
            Some(before) => {
                let Condition {
                    expression,
                    names,
                    values,
                } = Condition::as_read(&before, before.keys().map(String::as_str));
                put.condition_expression(expression)
                    .set_expression_attribute_names(Some(names))
                    .set_expression_attribute_values(Some(values))
            }
        };
        let put = put.set_return_consumed_capacity(self.meter.report());
        self.meter.write.admit().await;
        let answer = unless_condition_failed(put.send().await)?;
        self.meter
            .write
            .charge(answer.iter().flat_map(|answer| &answer.consumed_capacity));
        Ok(answer.is_some())
    }

    pub async fn delete_state(&self, what: &str, name: &str) -> Result<(), StoreError> {
        self.meter.write.admit().await;
        let delete = self
            .client
            .delete_item()
            .table_name(self.name())
            .set_key(Some(state_key(what, name)));
        let answer = delete
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
            .map_err(store_error)?;
        self.meter.write.charge(&answer.consumed_capacity);
        Ok(())
    }

    pub(crate) fn put<T: Serialize>(
        &self,
        what: &str,
        name: &str,
        state: &T,
    ) -> Result<PutItemFluentBuilder, StoreError> {
        let mut item = to_sdk_item(state)?;
        item.extend(state_key(what, name));
        Ok(self
            .client
            .put_item()
            .table_name(self.name())
            .set_item(Some(item)))
    }

    /// The instant up to which the journal is reconciled into the duplicates; `None` before the
    /// first time.
    pub async fn watermark(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self
            .state::<Watermark>(WATERMARK, DUPLICATES)
            .await?
            .map(|watermark| watermark.up_to))
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
    pub async fn set_watermark_back(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<(), StoreError> {
        let from = Watermark { up_to: from };
        let to = Watermark { up_to: to };
        self.replace_state(WATERMARK, DUPLICATES, Some(&from), &to)
            .await
            .map(drop)
    }
}
