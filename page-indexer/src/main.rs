//! The Lambda function `page-indexer`.

use functions::invocation::{StreamEvent, deadline_at};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use page_indexer::{Config, FUNCTION, PageIndexer};
use process::{log::log_layer, parse_settings, telemetry::Telemetry};
use tracing::Instrument;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config: Config = parse_settings();
    let log = log_layer("info", tracing_subscriber::fmt::layer().json())?;
    let telemetry = Telemetry::start(FUNCTION, &config.traces, log)?;
    let index = redis_index::connect(&config.page_index.config())?;
    let indexer = PageIndexer::new(index, config.quarantine.connect().await);
    let namespace = config.metrics.metrics_namespace;
    let handler = service_fn(|event: LambdaEvent<StreamEvent>| {
        let (indexer, namespace, telemetry) = (indexer.clone(), namespace.clone(), telemetry.clone());
        async move {
            let span = tracing::debug_span!("invocation", records = event.payload.0.records.len());
            let handling = indexer.handle(&event.payload.0, deadline_at(event.context.deadline));
            let handled = handling.instrument(span).await;
            handled.metrics.print(&namespace, FUNCTION);
            telemetry.flush().await;
            Ok::<_, Error>(handled.response)
        }
    });
    lambda_runtime::run(handler).await
}
