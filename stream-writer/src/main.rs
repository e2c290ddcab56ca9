//! The Lambda function `stream-writer`.

use aws_lambda_events::dynamodb::Event;
use clap::Parser;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use stores::{Table, invocation::deadline_at};
use stream_writer::{Config, StreamWriter};

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().json().with_env_filter(stores::config::log_filter("info")?).init();
    let config = Config::parse();
    let table = Table::connect(&config.table.config()).await;
    let writer = StreamWriter::new(table, config.quarantine.quarantine, config.write_concurrency);
    let handler = service_fn(|event: LambdaEvent<Event>| {
        let writer = writer.clone();
        async move { Ok::<_, Error>(writer.handle(&event.payload, deadline_at(event.context.deadline)).await) }
    });
    lambda_runtime::run(handler).await
}
