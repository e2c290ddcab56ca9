//! Client configuration for AWS services and for engines that stand in for them.

use std::{error::Error, time::Duration};

pub use aws_config::SdkConfig;
use aws_config::{BehaviorVersion, Region, retry::RetryConfig, timeout::TimeoutConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_http_client::{Builder, tls};
use aws_smithy_runtime_api::client::{
    http::SharedHttpClient, orchestrator::HttpResponse, result::SdkError,
};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

#[derive(Debug, Clone, Copy)]
pub struct Calls {
    /// The longest that one attempt of one call may take.
    pub attempt_timeout: Duration,
    /// The longest that one call with its retries may take.
    pub call_timeout: Duration,
    /// How often one call is sent at most, including the first attempt.
    pub max_attempts: u32,
}

impl Calls {
    /// For a request that a person waits for, and for a Lambda.
    pub const PROMPT: Self = Self {
        attempt_timeout: Duration::from_secs(3),
        call_timeout: Duration::from_secs(8),
        max_attempts: 3,
    };

    /// For work that no reader waits for: a call may take long on a busy table.
    pub const PATIENT: Self = Self {
        attempt_timeout: Duration::from_secs(10),
        call_timeout: Duration::from_secs(60),
        max_attempts: 6,
    };
}

/// The SDK configuration of a client.
///
/// - With an endpoint: for a local engine, with credentials that this engine accepts. The endpoint
///   may name the access key, by which some engines separate accounts:
///   `http://KEY@127.0.0.1:8000`.
/// - Without an endpoint: from the environment, like AWS's own tools.
pub async fn sdk_config(
    endpoint_url: Option<&str>,
    http_client: SharedHttpClient,
    calls: Calls,
) -> SdkConfig {
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
        Some(endpoint_url) => {
            let (endpoint_url, access_key) = split_access_key(endpoint_url);
            let credentials = Credentials::new(access_key, "local", None, None, "local");
            shared
                .region(Region::new("local"))
                .credentials_provider(SharedCredentialsProvider::new(credentials))
                .endpoint_url(endpoint_url)
        }
        None => shared,
    };
    shared.load().await
}

/// An endpoint's URL without its access key, and the key. A key has letters and digits only.
fn split_access_key(endpoint_url: &str) -> (String, &str) {
    if let Some((scheme, rest)) = endpoint_url.split_once("://")
        && let Some((key, address)) = rest.split_once('@')
        && key.chars().all(|char| char.is_ascii_alphanumeric())
    {
        return (format!("{scheme}://{address}"), key);
    }
    (endpoint_url.to_owned(), "local")
}

pub type NewHttpClient = fn() -> SharedHttpClient;

/// Selects the HTTP client for an endpoint. AWS's own endpoints use TLS.
pub fn new_http_client(endpoint_url: Option<&str>) -> NewHttpClient {
    match endpoint_url {
        Some(url) if url.starts_with("http://") => || Builder::new().build_http(),
        _ => || {
            Builder::new()
                .tls_provider(tls::Provider::Rustls(
                    tls::rustls_provider::CryptoMode::Ring,
                ))
                .build_https()
        },
    }
}

/// The service's answer in one line. Without an answer: the innermost cause.
pub fn describe<E: ProvideErrorMetadata + Error + 'static>(
    error: &SdkError<E, HttpResponse>,
) -> String {
    if let SdkError::ServiceError(answer) = error {
        let code = answer.err().code().unwrap_or("an error without a code");
        return format!("{code}: {}", answer.err().message().unwrap_or("no message"));
    }
    format!("{error}: {}", cause(error))
}

/// The innermost cause of an error.
pub fn cause(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| (**error).source())
        .last()
        .unwrap_or(error)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_may_name_an_access_key() {
        let named = split_access_key("http://KEY7@127.0.0.1:8000/");
        assert_eq!(named, ("http://127.0.0.1:8000/".to_owned(), "KEY7"));
        for without in [
            "http://127.0.0.1:8000",
            "https://engine.example/a@b",
            "http://key:secret@127.0.0.1:8000",
            "",
        ] {
            assert_eq!(split_access_key(without), (without.to_owned(), "local"));
        }
    }
}
