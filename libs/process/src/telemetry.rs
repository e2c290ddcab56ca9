//! Starts the log of a process and, if a setting names a collector, sends it traces (OpenTelemetry, by OTLP over HTTP).
//!
//! A trace has the spans of our crates and those of the AWS SDK, one for each call. Log events are no part of it, so a
//! trace holds no text of a comment.
//!
//! **Invariant:** a collector that is down, slow or silent fails nothing. Spans wait in a queue with a bound, and are
//! dropped when it is full.

use std::{str::FromStr, time::Duration};

use clap::Args;
use opentelemetry::{
    Context, SpanId, TraceFlags, TraceId, Value,
    trace::{SpanContext, TraceContextExt, TraceState, TracerProvider},
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource, runtime,
    trace::{BatchConfigBuilder, SdkTracerProvider, span_processor_with_async_runtime::BatchSpanProcessor},
};
use tracing::{Metadata, Span, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, Registry, filter::filter_fn, layer::SubscriberExt, util::SubscriberInitExt};

use crate::log;

const EXPORT_WITHIN: Duration = Duration::from_secs(1);

/// The longest that an invocation waits until its spans are sent. A collector beside the function takes milliseconds.
const FLUSH_WITHIN: Duration = Duration::from_millis(250);

/// The longest that the end of a process waits for that.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Where traces go.
#[derive(Debug, Clone, Args)]
pub struct TracesArgs {
    /// The collector of traces (OTLP over HTTP), such as `http://127.0.0.1:4318`. Without it, there are no traces.
    #[arg(long, env = "PAGEMARK_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<OtlpEndpoint>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint(String);

impl FromStr for OtlpEndpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let authority = text.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        if !authority.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err("a collector is http://HOST:PORT; one beside this process encrypts and signs what leaves it");
        }
        Ok(Self(format!("{}/v1/traces", text.trim_end_matches('/'))))
    }
}

#[derive(Debug, Clone)]
pub struct Telemetry(Option<SdkTracerProvider>);

impl Telemetry {
    /// Starts the log, and traces under the name of a service. Call this inside a Tokio runtime, which sends the spans.
    ///
    /// # Errors
    /// The process has a log already, or the client of the collector cannot be made.
    pub fn start(
        service: &'static str,
        traces: &TracesArgs,
        log: impl Layer<Registry> + Send + Sync,
    ) -> Result<Self, String> {
        let provider = traces.otlp_endpoint.as_ref().map(|endpoint| provider(service, endpoint)).transpose()?;
        let spans = provider.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("pagemark"))
                .with_location(false)
                .with_threads(false)
                .with_tracked_inactivity(false)
                .with_filter(filter_fn(is_traced).with_max_level_hint(LevelFilter::DEBUG))
        });
        tracing_subscriber::registry().with(log).with(spans).try_init().map_err(|error| error.to_string())?;
        Ok(Self(provider))
    }

    /// Sends the spans that have ended, and waits a moment for that. Lambda may freeze the process afterwards.
    pub async fn flush(&self) {
        self.run(FLUSH_WITHIN, |provider| drop(provider.force_flush())).await;
    }

    pub async fn end(&self) {
        self.run(END_WITHIN, |provider| drop(provider.shutdown())).await;
    }

    async fn run(&self, within: Duration, work: fn(SdkTracerProvider)) {
        if let Some(provider) = self.0.clone() {
            // The SDK blocks its thread until the runtime has sent the spans. Its own log says what went wrong.
            tokio::time::timeout(within, tokio::task::spawn_blocking(move || work(provider))).await.ok();
        }
    }
}

fn provider(service: &'static str, OtlpEndpoint(url): &OtlpEndpoint) -> Result<SdkTracerProvider, String> {
    let exporter = SpanExporter::builder().with_http().with_endpoint(url).with_timeout(EXPORT_WITHIN).build();
    let exporter = exporter.map_err(|error| format!("PAGEMARK_OTLP_ENDPOINT {url}: {error}"))?;
    let bounds = BatchConfigBuilder::default().with_max_export_timeout(EXPORT_WITHIN).build();
    let processor = BatchSpanProcessor::builder(exporter, runtime::Tokio).with_batch_config(bounds).build();
    let resource = Resource::builder().with_service_name(service).build();
    Ok(SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource).build())
}

/// Whether traces have a span. Of other crates, they have only the calls of the AWS SDK.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && (log::is_ours(metadata) || metadata.target().starts_with("aws_sdk_"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteSpan<'header> {
    /// 32 hex digits.
    pub trace_id: &'header str,
    /// 16 hex digits.
    pub span_id: &'header str,
    /// Whether the caller records it. If it does not, neither do we.
    pub is_sampled: bool,
}

/// Makes a new span part of the caller's trace, if there is one. Returns the id of the span's trace; `None` without
/// traces.
pub fn join_trace(span: &Span, caller: Option<RemoteSpan<'_>>) -> Option<String> {
    if let Some(RemoteSpan { trace_id, span_id, is_sampled }) = caller
        && let (Ok(trace_id), Ok(span_id)) = (TraceId::from_hex(trace_id), SpanId::from_hex(span_id))
    {
        let flags = TraceFlags::default().with_sampled(is_sampled);
        let caller = SpanContext::new(trace_id, span_id, flags, true, TraceState::NONE);
        // Without traces, there is nothing to join.
        span.set_parent(Context::new().with_remote_span_context(caller)).ok();
    }
    let context = span.context();
    let own = context.span().span_context().clone();
    own.is_valid().then(|| own.trace_id().to_string())
}

/// Adds an attribute to a span of a trace. The log does not have it.
pub fn describe(span: &Span, name: &'static str, value: impl Into<Value>) {
    span.set_attribute(name, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_url_without_tls() {
        for good in ["http://127.0.0.1:4318", "http://127.0.0.1:4318/", "http://collector:4318"] {
            let OtlpEndpoint(url) = good.parse().unwrap();
            assert_eq!(url, format!("{}/v1/traces", good.trim_end_matches('/')));
        }
        for wrong in ["", "http://", "http:///", "https://collector:4318", "127.0.0.1:4318", "http://a b"] {
            assert!(wrong.parse::<OtlpEndpoint>().is_err(), "{wrong}");
        }
    }
}
