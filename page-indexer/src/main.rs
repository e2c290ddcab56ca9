//! The Lambda function `page-indexer`.

use functions::invocation::{StreamEvent, deadline_at};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use page_indexer::{FUNCTION, PageIndexer, PageIndexerConfig};
use process::{log::start_log, parse_settings};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config: PageIndexerConfig = parse_settings();
    start_log("info", tracing_subscriber::fmt::layer().json())?;
    let index = deployed_index::connect(&config.page_index)?;
    let indexer = PageIndexer::new(index, config.quarantine.connect().await);
    let namespace = config.metrics.metrics_namespace;
    let handler = service_fn(|event: LambdaEvent<StreamEvent>| {
        let indexer = indexer.clone();
        let namespace = namespace.clone();
        async move {
            let handled = indexer
                .handle(&event.payload.0, deadline_at(event.context.deadline))
                .await;
            handled.metrics.print(&namespace, FUNCTION);
            Ok::<_, Error>(handled.response)
        }
    });
    lambda_runtime::run(handler).await
}
