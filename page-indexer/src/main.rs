//! The Lambda function `page-indexer`.

use aws_lambda_events::dynamodb::Event;
use clap::Parser;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use page_indexer::{Config, PageIndexer};
use stores::{PageIndex, invocation::deadline_at};

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().json().with_env_filter(stores::config::log_filter("info")?).init();
    let config = Config::parse();
    let index = PageIndex::connect(&config.page_index.config())?;
    let indexer = PageIndexer::new(index, config.quarantine.quarantine);
    let handler = service_fn(|event: LambdaEvent<Event>| {
        let indexer = indexer.clone();
        async move { Ok::<_, Error>(indexer.handle(&event.payload, deadline_at(event.context.deadline)).await) }
    });
    lambda_runtime::run(handler).await
}
