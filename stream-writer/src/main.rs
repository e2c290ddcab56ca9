//! The Lambda function `stream-writer`.

use functions::invocation::{StreamEvent, deadline_at};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use process::{log::start_log, parse_settings};
use stream_writer::{FUNCTION, StreamWriter, StreamWriterConfig};
use table::Table;

/// Maximum number of batches written in parallel.
const WRITE_CONCURRENCY: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config: StreamWriterConfig = parse_settings();
    start_log("info", tracing_subscriber::fmt::layer().json())?;
    let table = Table::connect(&config.table.config()).await;
    let writer = StreamWriter::new(table, config.quarantine.connect().await, WRITE_CONCURRENCY);
    let namespace = config.metrics.metrics_namespace;
    let handler = service_fn(|event: LambdaEvent<StreamEvent>| {
        let writer = writer.clone();
        let namespace = namespace.clone();
        async move {
            let handled = writer
                .handle(&event.payload.0, deadline_at(event.context.deadline))
                .await;
            handled.metrics.print(&namespace, FUNCTION);
            Ok::<_, Error>(handled.response)
        }
    });
    lambda_runtime::run(handler).await
}
