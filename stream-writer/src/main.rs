//! The Lambda function `stream-writer`.

use functions::invocation::{StreamEvent, deadline_at};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use process::{log::log_layer, parse_settings, telemetry::Telemetry};
use stream_writer::{Config, FUNCTION, StreamWriter};
use table::Table;
use tracing::Instrument;

/// Maximum number of batches written in parallel.
const WRITE_CONCURRENCY: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config: Config = parse_settings();
    let log = log_layer("info", tracing_subscriber::fmt::layer().json())?;
    let telemetry = Telemetry::start(FUNCTION, &config.traces, log)?;
    let table = Table::connect(&config.table.config()).await;
    let writer = StreamWriter::new(table, config.quarantine.connect().await, WRITE_CONCURRENCY);
    let namespace = config.metrics.metrics_namespace;
    let handler = service_fn(|event: LambdaEvent<StreamEvent>| {
        let (writer, namespace, telemetry) = (writer.clone(), namespace.clone(), telemetry.clone());
        async move {
            let span = tracing::debug_span!("invocation", records = event.payload.0.records.len());
            let handling = writer.handle(&event.payload.0, deadline_at(event.context.deadline));
            let handled = handling.instrument(span).await;
            handled.metrics.print(&namespace, FUNCTION);
            telemetry.flush().await;
            Ok::<_, Error>(handled.response)
        }
    });
    lambda_runtime::run(handler).await
}
