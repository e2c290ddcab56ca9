//! The answer to a page's query, read from its JSON at once.
//!
//! The SDK makes maps of its own attribute values of an answer, which have to be turned into `serde_dynamo`'s before a
//! comment can be read from them. Reading a page that way costs more than all else that the API does for it
//! (docs/benchmarks.md), so for this one query the SDK's reader is replaced. Signing, time-outs, retries and errors stay
//! the SDK's.

use std::sync::{Arc, Mutex, PoisonError};

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
use model::{Malformed, item::CommentItem};
use serde::Deserialize;
use serde_dynamo::Item;

use super::item_json::ItemJson;
use crate::error::{Store, StoreError};

/// What is read of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PageAnswer {
    #[serde(default)]
    pub(super) items: Vec<ItemJson<CommentItem>>,
    /// Where a further query goes on.
    pub(super) last_evaluated_key: Option<Item>,
}

/// Reads the answer to one query in the SDK's stead, and keeps it.
#[derive(Debug, Clone, Default)]
pub(super) struct PageReader(Arc<Mutex<Option<Result<PageAnswer, Malformed>>>>);

impl PageReader {
    /// The answer.
    ///
    /// # Errors
    /// An item is malformed, or there was no answer.
    pub(super) fn take(&self) -> Result<PageAnswer, StoreError> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let answer = answer.ok_or_else(|| StoreError::unavailable(Store::Table, "it gave no answer"))?;
        Ok(answer?)
    }
}

impl Intercept for PageReader {
    fn name(&self) -> &'static str {
        "PageReader"
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

impl DeserializeResponse for PageReader {
    fn deserialize_nonstreaming_with_config(
        &self,
        response: &HttpResponse,
        _: &ConfigBag,
    ) -> Result<Output, OrchestratorError<Error>> {
        // Only after an answer that could not be read, when the SDK tried again.
        if !response.status().is_success() {
            return Err(OrchestratorError::response(format!("status {}", response.status().as_u16()).into()));
        }
        let answer = match serde_json::from_slice(response.body().bytes().unwrap_or_default()) {
            Ok(answer) => Ok(answer),
            Err(error) if error.is_data() => Err(Malformed::new("item", error.to_string())),
            // No JSON, or not all of it: another try may bring it.
            Err(error) => return Err(OrchestratorError::response(error.into())),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        Ok(Output::erase(QueryOutput::builder().build()))
    }
}
