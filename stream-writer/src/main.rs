//! The Lambda function `stream-writer`.

use functions::invocation::{StreamEvent, deadline_at};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use process::{
    log::{log_filter, log_rules},
    parse_settings,
};
use stream_writer::{Config, FUNCTION, StreamWriter};
use table::Table;
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let log = tracing_subscriber::fmt().json().with_env_filter(log_filter("info")?).finish();
    log.with(log_rules()).init();
    let config: Config = parse_settings();
    let table = Table::connect(&config.table.config()).await;
    let writer = StreamWriter::new(table, config.quarantine.connect().await, config.fan_out, config.write_concurrency);
    let namespace = config.metrics.metrics_namespace;
    let handler = service_fn(|event: LambdaEvent<StreamEvent>| {
        let (writer, namespace) = (writer.clone(), namespace.clone());
        async move {
            let handled = writer.handle(&event.payload.0, deadline_at(event.context.deadline)).await;
            handled.metrics.print(&namespace, FUNCTION);
            Ok::<_, Error>(handled.response)
        }
    });
    lambda_runtime::run(handler).await
}
