//! The Lambda function `page-indexer`.

use functions::invocation::{StreamEvent, deadline_at};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use page_indexer::{Config, FUNCTION, PageIndexer};
use process::{
    log::{log_filter, log_rules},
    parse_settings,
};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let log = tracing_subscriber::fmt().json().with_env_filter(log_filter("info")?).finish();
    log.with(log_rules()).init();
    let config: Config = parse_settings();
    let index = redis_index::connect(&config.page_index.config())?;
    let indexer = PageIndexer::new(index, config.quarantine.connect().await);
    let namespace = config.metrics.metrics_namespace;
    let handler = service_fn(|event: LambdaEvent<StreamEvent>| {
        let (indexer, namespace) = (indexer.clone(), namespace.clone());
        async move {
            let handled = indexer.handle(&event.payload.0, deadline_at(event.context.deadline)).await;
            handled.metrics.print(&namespace, FUNCTION);
            Ok::<_, Error>(handled.response)
        }
    });
    lambda_runtime::run(handler).await
}
