//! A client of streams, on this machine, or at AWS by the environment's region.

use std::time::Duration;

use aws_sdk_dynamodbstreams::Client;
use process::aws::{Calls, new_http_client, sdk_config};

/// Limits of calls. No reader waits for them.
const CALLS: Calls =
    Calls { attempt_timeout: Duration::from_secs(10), call_timeout: Duration::from_secs(60), max_attempts: 6 };

/// Without an endpoint, the client is AWS's.
pub async fn streams_client(endpoint: Option<&str>) -> Client {
    Client::new(&sdk_config(endpoint, new_http_client(endpoint)(), CALLS).await)
}
