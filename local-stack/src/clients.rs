//! A client of streams.

use std::time::Duration;

use aws_sdk_dynamodbstreams::Client;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use process::aws::{Calls, sdk_config};

/// Limits of calls. No reader waits for them.
const CALLS: Calls =
    Calls { attempt_timeout: Duration::from_secs(10), call_timeout: Duration::from_secs(60), max_attempts: 6 };

pub async fn streams_client(endpoint: &str, http_client: SharedHttpClient) -> Client {
    Client::new(&sdk_config(Some(endpoint), http_client, CALLS).await)
}
