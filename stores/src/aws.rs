//! How the services of AWS, and engines that stand in for them, are called.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_http_client::{Builder, tls};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

/// How long calls may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    /// The longest that one attempt of one call may take.
    pub(crate) attempt_timeout: Duration,
    /// The longest that one call with its retries may take.
    pub(crate) call_timeout: Duration,
    /// How often one call is sent, the first time included.
    pub(crate) max_attempts: u32,
}

/// The configuration of a client: with an endpoint, for a local engine and with credentials that it takes; without one,
/// from the environment, as AWS's own tools have it.
pub(crate) async fn sdk_config(endpoint_url: Option<&str>, http_client: SharedHttpClient, calls: Calls) -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(calls.attempt_timeout)
        .operation_timeout(calls.call_timeout)
        .build();
    let retries = RetryConfig::standard()
        .with_max_attempts(calls.max_attempts)
        .with_initial_backoff(Duration::from_millis(50))
        .with_max_backoff(Duration::from_secs(1));
    let shared = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http_client)
        .timeout_config(timeouts)
        .retry_config(retries);
    let shared = match endpoint_url {
        Some(endpoint_url) => shared
            .region(Region::new("local"))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
                "local", "local", None, None, "local",
            )))
            .endpoint_url(endpoint_url),
        None => shared,
    };
    shared.load().await
}

/// Makes HTTP clients, each with connections of its own.
pub(crate) type NewHttpClient = fn() -> SharedHttpClient;

/// How HTTP clients for an endpoint are made; AWS's own are reached by TLS.
pub(crate) fn new_http_client(endpoint_url: Option<&str>) -> NewHttpClient {
    match endpoint_url {
        Some(url) if url.starts_with("http://") => || Builder::new().build_http(),
        _ => {
            || Builder::new().tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring)).build_https()
        }
    }
}
