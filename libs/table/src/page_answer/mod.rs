//! Reads the answer to a query of comments directly from its JSON.
//!
//! The SDK reads an answer into maps of its attribute values, which must become `serde_dynamo`'s
//! before a comment can be read from them. Reading a page that way costs more than all other work
//! of the API for it (docs/benchmarks-notes.md). So this module replaces the SDK's reader for such
//! queries. The SDK still does signing, time-outs, retries and errors.

mod item_json;

use std::{collections::HashMap, fmt::Debug, sync::Arc};

use aws_sdk_dynamodb::operation::query::QueryOutput;
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{
            Intercept,
            context::{BeforeDeserializationInterceptorContextMut, Error, Output},
        },
        orchestrator::{HttpResponse, OrchestratorError},
        runtime_components::RuntimeComponents,
        ser_de::{DeserializeResponse, SharedResponseDeserializer},
    },
};
use aws_smithy_types::config_bag::ConfigBag;
use model::{
    Cd, Comment, FilterKey, Malformed,
    item::{
        COMMENT_PREFIX, CommentItem, NoBlob, PlacedComment, attribute, comment_of, placed_of_entry,
        text,
    },
};
use parking_lot::Mutex;
use process::{Store, StoreError};
use serde::{Deserialize, de::DeserializeOwned};
use serde_dynamo::{AttributeValue, Item};
use serde_json::Value;

use super::item::{InvalidEntry, ItemKey};
use item_json::ItemJson;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", bound = "I: DeserializeOwned")]
pub struct QueryAnswer<I> {
    #[serde(default = "Vec::new")]
    pub items: Vec<I>,
    pub last_evaluated_key: Option<Item>,
    consumed_capacity: Option<Consumed>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Consumed {
    capacity_units: f64,
}

/// An item of an answer.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all items are read, and a box would cost each an allocation"
)]
pub enum StoredItem<T> {
    Read(T),
    /// Some item of the answer has an attribute of a wrong type, so that each item must be read
    /// separately.
    Unread(Item),
}

impl<Blob> StoredItem<CommentItem<Blob>> {
    /// Its `pk`, `sk` and `cd`, as far as they are readable.
    fn keys(&self) -> [&str; 3] {
        match self {
            Self::Read(item) => [&item.pk, &item.sk, item.cd.as_deref().unwrap_or_default()],
            Self::Unread(item) => [attribute::PK, attribute::SK, attribute::CD]
                .map(|name| text(item, name).unwrap_or_default()),
        }
    }

    pub(super) fn is_primary(&self) -> bool {
        let [pk, sk, _] = self.keys();
        pk.starts_with(COMMENT_PREFIX) && sk.ends_with(FilterKey::PRIMARY_SUFFIX)
    }

    /// The item as far as it is read, or why it is invalid.
    fn into<T>(self, read: impl FnOnce(Self) -> Result<T, Malformed>) -> Result<T, InvalidEntry> {
        let [pk, sk, cd] = self.keys().map(str::to_owned);
        read(self).map_err(|problem| InvalidEntry {
            key: ItemKey { pk, sk },
            cd: Cd::parse(&cd).ok(),
            problem,
        })
    }
}

impl StoredItem<CommentItem> {
    pub(super) fn into_comment(self) -> Result<Comment, InvalidEntry> {
        self.into(|item| match item {
            Self::Read(item) => item.into_comment(),
            Self::Unread(item) => comment_of(&item),
        })
    }
}

impl StoredItem<CommentItem<NoBlob>> {
    pub(super) fn into_placed(self) -> Result<PlacedComment, InvalidEntry> {
        self.into(|item| match item {
            Self::Read(item) => item.placed(),
            Self::Unread(item) => placed_of_entry(&item),
        })
    }
}

impl<I> QueryAnswer<I> {
    fn map<O>(self, read: impl FnMut(I) -> O) -> QueryAnswer<O> {
        let Self {
            items,
            last_evaluated_key,
            consumed_capacity,
        } = self;
        let items = items.into_iter().map(read).collect();
        QueryAnswer {
            items,
            last_evaluated_key,
            consumed_capacity,
        }
    }

    pub fn read_units(&self) -> f64 {
        match self.consumed_capacity {
            Some(consumed) => consumed.capacity_units,
            None => 0.0,
        }
    }
}

/// An item from its JSON. An attribute of an unknown type counts as missing.
fn item_of(value: Value) -> Item {
    let Value::Object(attributes) = value else {
        return Item::default();
    };
    let mut known: HashMap<String, AttributeValue> = HashMap::new();
    for (name, value) in attributes {
        if let Ok(value) = serde_json::from_value(value) {
            known.insert(name, value);
        }
    }
    Item::from(known)
}

#[derive(Debug)]
pub struct QueryReader<T>(Arc<Mutex<Option<Read<T>>>>);

pub(crate) type Read<T> = Result<QueryAnswer<StoredItem<T>>, Malformed>;

/// Reads the body of an answer.
///
/// # Errors
/// It is no JSON, or not all of it: another attempt may succeed.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Read<T>, serde_json::Error> {
    match serde_json::from_slice::<QueryAnswer<ItemJson<T>>>(body) {
        Ok(answer) => Ok(Ok(answer.map(|ItemJson(item)| StoredItem::Read(item)))),
        // A malformed item: the cost of reading the items one by one comes on top.
        Err(error) if error.is_data() => Ok(serde_json::from_slice::<QueryAnswer<Value>>(body)
            .map(|answer| answer.map(|item| StoredItem::Unread(item_of(item))))
            .map_err(|error| Malformed::new("answer", error.to_string()))),
        Err(error) => Err(error),
    }
}

impl<T> Default for QueryReader<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for QueryReader<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> QueryReader<T> {
    /// The answer, also when some of its items are malformed.
    pub fn take(&self) -> Result<QueryAnswer<StoredItem<T>>, StoreError> {
        let answer = self.0.lock().take();
        let answer =
            answer.ok_or_else(|| StoreError::unavailable(Store::Table, "it gave no answer"))?;
        Ok(answer?)
    }
}

impl<T: DeserializeOwned + Debug + Send + Sync + 'static> Intercept for QueryReader<T> {
    fn name(&self) -> &'static str {
        "QueryReader"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // The SDK reads the answers of failures.
        if context.response().status().is_success() {
            config
                .interceptor_state()
                .store_put(SharedResponseDeserializer::new(self.clone()));
        }
        Ok(())
    }
}

impl<T: DeserializeOwned + Debug + Send + Sync> DeserializeResponse for QueryReader<T> {
    fn deserialize_nonstreaming_with_config(
        &self,
        response: &HttpResponse,
        _: &ConfigBag,
    ) -> Result<Output, OrchestratorError<Error>> {
        // Only reached when the SDK tried again after an unreadable answer.
        if !response.status().is_success() {
            return Err(OrchestratorError::response(
                format!("status {}", response.status().as_u16()).into(),
            ));
        }
        let body = response.body().bytes().unwrap_or_default();
        let answer = read(body).map_err(|error| OrchestratorError::response(error.into()))?;
        *self.0.lock() = Some(answer);
        Ok(Output::erase(QueryOutput::builder().build()))
    }
}
