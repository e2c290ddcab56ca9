//! Shows the calls of a table to an observer, such as the metrics of a service.

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{
            Intercept,
            context::{BeforeSerializationInterceptorContextRef, FinalizerInterceptorContextRef},
        },
        orchestrator::Metadata,
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use model::{FilterKey, Order};

/// Follows the calls of a table. Each method runs in the task that made the call.
pub trait Observer: Debug + Send + Sync {
    /// A call has ended, after its retries.
    fn call_ended(&self, call: &EndedCall<'_>);

    /// A Query for a page was answered. Its call has ended before.
    fn page_query_answered(&self, query: &AnsweredQuery<'_>);
}

#[derive(Debug, Clone, Copy)]
pub struct EndedCall<'call> {
    /// Its name in the API of DynamoDB, such as `Query`.
    pub operation: &'call str,
    pub took: Duration,
    /// Whether it succeeded. A write whose condition did not hold has failed.
    pub is_ok: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct AnsweredQuery<'query> {
    pub key: &'query FilterKey,
    pub order: Order,
    pub limit: usize,
    /// The `cd` after which it began.
    pub start: Option<&'query str>,
    pub items: usize,
    pub read_units: f64,
}

/// Measures each call, from before its first attempt to after its last.
#[derive(Debug)]
pub(crate) struct CallTimer(pub(crate) Arc<dyn Observer>);

/// When a call began. It is kept in the configuration of the call.
#[derive(Debug)]
struct Began(Instant);

impl Storable for Began {
    type Storer = StoreReplace<Self>;
}

impl Intercept for CallTimer {
    fn name(&self) -> &'static str {
        "CallTimer"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        config.interceptor_state().store_put(Began(Instant::now()));
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(metadata) = config.load::<Metadata>()
            && let Some(Began(began)) = config.load::<Began>()
        {
            self.0.call_ended(&EndedCall {
                operation: metadata.name(),
                took: began.elapsed(),
                is_ok: matches!(context.output_or_error(), Some(Ok(_))),
            });
        }
        Ok(())
    }
}
