//! Client configuration for AWS services and for engines that stand in for them.

use std::{error::Error, time::Duration};

pub use aws_config::SdkConfig;
use aws_config::{BehaviorVersion, Region, retry::RetryConfig, timeout::TimeoutConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_http_client::{Builder, tls};
use aws_smithy_runtime_api::client::{http::SharedHttpClient, orchestrator::HttpResponse, result::SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

/// Time and attempt limits of calls.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    /// The longest that one attempt of one call may take.
    pub attempt_timeout: Duration,
    /// The longest that one call with its retries may take.
    pub call_timeout: Duration,
    /// How often one call is sent at most, including the first attempt.
    pub max_attempts: u32,
}

/// The SDK configuration of a client.
///
/// - With an endpoint: for a local engine, with credentials that this engine accepts.
/// - Without an endpoint: from the environment, like AWS's own tools.
pub async fn sdk_config(endpoint_url: Option<&str>, http_client: SharedHttpClient, calls: Calls) -> SdkConfig {
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

/// Creates HTTP clients, each with separate connections.
pub type NewHttpClient = fn() -> SharedHttpClient;

/// Selects the HTTP client for an endpoint. AWS's own endpoints use TLS.
pub fn new_http_client(endpoint_url: Option<&str>) -> NewHttpClient {
    match endpoint_url {
        Some(url) if url.starts_with("http://") => || Builder::new().build_http(),
        _ => {
            || Builder::new().tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring)).build_https()
        }
    }
}

/// The service's answer in one line. Without an answer: the innermost cause.
pub fn describe<E: ProvideErrorMetadata + Error + 'static>(error: &SdkError<E, HttpResponse>) -> String {
    if let SdkError::ServiceError(answer) = error {
        let code = answer.err().code().unwrap_or("an error without a code");
        return format!("{code}: {}", answer.err().message().unwrap_or("no message"));
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    format!("{error}: {innermost}")
}
