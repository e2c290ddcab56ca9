//! The answer to a query of comments, read from its JSON at once.
//!
//! The SDK makes maps of its own attribute values of an answer, which have to be turned into `serde_dynamo`'s before a
//! comment can be read from them. Reading a page that way costs more than all else that the API does for it
//! (docs/benchmarks-notes.md), so for such queries the SDK's reader is replaced. Signing, time-outs, retries and errors stay
//! the SDK's.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
};

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
use model::{Cd, Malformed, item::attribute};
use serde::{Deserialize, de::DeserializeOwned};
use serde_dynamo::Item;
use serde_json::Value;

use super::item_json::ItemJson;
use crate::error::{Store, StoreError};

/// What is read of an answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", bound = "T: DeserializeOwned")]
pub struct QueryAnswer<T> {
    /// The items, in the order asked for.
    #[serde(default = "Vec::new")]
    pub items: Vec<ItemJson<T>>,
    /// What cannot be read, and is not among the items.
    #[serde(skip, default = "Vec::new")]
    pub malformed: Vec<MalformedItem>,
    /// How many items were read for them.
    #[serde(default)]
    pub scanned_count: u64,
    /// Where a further query goes on.
    pub last_evaluated_key: Option<Item>,
    /// What the query took, when it asked for that.
    pub consumed_capacity: Option<Consumed>,
}

/// An item that is not as it must be; a person has to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedItem {
    /// Its place among all that were read, from 0.
    pub place: usize,
    /// Its table key `pk`, as far as it has one.
    pub pk: String,
    /// Its place in the order, as far as it has one.
    pub cd: Option<Cd>,
    /// What is wrong with it.
    pub problem: Malformed,
}

/// An answer whose items have not been looked into.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UnreadAnswer {
    #[serde(default)]
    items: Vec<Value>,
    #[serde(default)]
    scanned_count: u64,
    last_evaluated_key: Option<Item>,
    consumed_capacity: Option<Consumed>,
}

impl UnreadAnswer {
    /// Reads each item by itself, and leaves out those that are malformed.
    fn read<T: DeserializeOwned>(self) -> QueryAnswer<T> {
        let (mut items, mut malformed) = (Vec::with_capacity(self.items.len()), Vec::new());
        for (place, item) in self.items.into_iter().enumerate() {
            let text = |name: &str| item.get(name)?.get("S")?.as_str();
            let pk = text(attribute::PK).unwrap_or_default().to_owned();
            let cd = text(attribute::CD).and_then(|cd| Cd::parse(cd).ok());
            match serde_json::from_value(item) {
                Ok(item) => items.push(item),
                Err(error) => {
                    let problem = Malformed::new("item", error.to_string());
                    malformed.push(MalformedItem { place, pk, cd, problem });
                }
            }
        }
        let Self { scanned_count, last_evaluated_key, consumed_capacity, .. } = self;
        QueryAnswer { items, malformed, scanned_count, last_evaluated_key, consumed_capacity }
    }
}

/// What a query took.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Consumed {
    /// In read units.
    pub capacity_units: f64,
}

/// Reads the answer to one query in the SDK's stead, and keeps it.
#[derive(Debug)]
pub struct QueryReader<T>(Arc<Mutex<Option<Read<T>>>>);

/// An answer as it could be read.
type Read<T> = Result<QueryAnswer<T>, Malformed>;

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
    /// The answer.
    ///
    /// # Errors
    /// An item is malformed, or there was no answer.
    pub fn take(&self) -> Result<QueryAnswer<T>, StoreError> {
        let mut answer = self.take_readable()?;
        match answer.malformed.pop() {
            Some(malformed) => Err(malformed.problem.into()),
            None => Ok(answer),
        }
    }

    /// The answer, also when some of its items are malformed.
    ///
    /// # Errors
    /// The answer as a whole cannot be read, or there was none.
    pub(super) fn take_readable(&self) -> Result<QueryAnswer<T>, StoreError> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let answer = answer.ok_or_else(|| StoreError::unavailable(Store::Table, "it gave no answer"))?;
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
        // What a failure means is the SDK's to read.
        if context.response().status().is_success() {
            config.interceptor_state().store_put(SharedResponseDeserializer::new(self.clone()));
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
        // Only after an answer that could not be read, when the SDK tried again.
        if !response.status().is_success() {
            return Err(OrchestratorError::response(format!("status {}", response.status().as_u16()).into()));
        }
        let body = response.body().bytes().unwrap_or_default();
        let answer = match serde_json::from_slice(body) {
            Ok(answer) => Ok(answer),
            // An item that is malformed: what reading them one by one costs is then paid as well.
            Err(error) if error.is_data() => serde_json::from_slice(body)
                .map(UnreadAnswer::read)
                .map_err(|error| Malformed::new("answer", error.to_string())),
            // No JSON, or not all of it: another try may bring it.
            Err(error) => return Err(OrchestratorError::response(error.into())),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        Ok(Output::erase(QueryOutput::builder().build()))
    }
}
