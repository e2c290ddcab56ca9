//! Clients of tables and streams, on this machine or at AWS. Without an endpoint, they are AWS's of the region, or of the
//! environment.

use std::time::Duration;

use aws_sdk_dynamodb::config::Region;
use process::aws::{Calls, SdkConfig, new_http_client, sdk_config};

/// Limits of calls. No reader waits for them.
const CALLS: Calls =
    Calls { attempt_timeout: Duration::from_secs(10), call_timeout: Duration::from_secs(60), max_attempts: 6 };

async fn config(endpoint: Option<&str>, region: Option<&str>) -> SdkConfig {
    let config = sdk_config(endpoint, new_http_client(endpoint)(), CALLS).await;
    match region {
        Some(region) => config.into_builder().region(Region::new(region.to_owned())).build(),
        None => config,
    }
}

pub(crate) async fn dynamodb_client(endpoint: Option<&str>, region: Option<&str>) -> aws_sdk_dynamodb::Client {
    aws_sdk_dynamodb::Client::new(&config(endpoint, region).await)
}

pub async fn streams_client(endpoint: Option<&str>, region: Option<&str>) -> aws_sdk_dynamodbstreams::Client {
    aws_sdk_dynamodbstreams::Client::new(&config(endpoint, region).await)
}
