//! Client configuration for AWS services and for engines that stand in for them.

mod answer;

use std::{error::Error, time::Duration};

pub use aws_config::SdkConfig;
use aws_config::{
    BehaviorVersion, Region,
    environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider},
    meta::{credentials::CredentialsProviderChain, region::RegionProviderChain},
    profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider},
    retry::RetryConfig,
    stalled_stream_protection::StalledStreamProtectionConfig,
    timeout::TimeoutConfig,
};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_http_client::{Builder, tls};
use aws_smithy_runtime_api::client::{
    http::SharedHttpClient, orchestrator::HttpResponse, result::SdkError,
};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

pub use answer::with_json_answers;

/// The region, the key and the secret for engines that accept any.
const LOCAL: &str = "local";

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

/// Like [`sdk_config`], for DynamoDB and DynamoDB Streams.
pub async fn dynamodb_config(
    endpoint_url: Option<&str>,
    http_client: SharedHttpClient,
    calls: Calls,
) -> SdkConfig {
    let http_client = with_json_answers(http_client);
    let config = sdk_config(endpoint_url, http_client, calls).await;
    // Nothing of an answer arrives after its attempt.
    let unprotected = StalledStreamProtectionConfig::disabled();
    let mut config = config.into_builder();
    config.set_stalled_stream_protection(Some(unprotected));
    config.build()
}

/// The SDK configuration of a client. Region and credentials are those of the environment and of
/// profiles, like for AWS's own tools.
///
/// - With an endpoint and without them: for a local engine, which accepts any. The endpoint may name
///   the access key, by which some engines separate accounts: `http://KEY@127.0.0.1:8000`. Such a
///   client signs with this key, whatever the environment says.
/// - Without an endpoint: also those of the machine, container or function.
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
            let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
                .or_else(ProfileFileRegionProvider::new())
                .or_else(Region::new(LOCAL));
            let credentials = match access_key {
                Some(access_key) => SharedCredentialsProvider::new(local_credentials(access_key)),
                None => SharedCredentialsProvider::new(configured_credentials()),
            };
            shared
                .region(region)
                .credentials_provider(credentials)
                .endpoint_url(endpoint_url)
        }
        None => shared,
    };
    shared.load().await
}

fn local_credentials(access_key: &str) -> Credentials {
    Credentials::new(access_key, LOCAL, None, None, LOCAL)
}

/// Those of variables or of a profile. Where there are none, they are constants, unless
/// `AWS_PROFILE` names a profile: it may be misspelled.
fn configured_credentials() -> CredentialsProviderChain {
    let variables = EnvironmentVariableCredentialsProvider::new();
    let configured = CredentialsProviderChain::first_try("variables", variables)
        .or_else("profile", ProfileFileCredentialsProvider::builder().build());
    let names_profile = std::env::var_os("AWS_PROFILE").is_some_and(|name| !name.is_empty());
    if names_profile {
        configured
    } else {
        configured.or_else(LOCAL, local_credentials(LOCAL))
    }
}

/// Checks the URL of an endpoint.
///
/// # Errors
/// It is not understood, or has something that would be ignored.
pub fn parse_endpoint(url: &str) -> Result<String, String> {
    let (without_key, _) = split_access_key(url);
    let parsed = without_key.parse::<hyper::Uri>();
    let parsed = parsed.map_err(|error| format!("it is no URL: {error}"))?;
    if !matches!(parsed.scheme_str(), Some("http" | "https")) {
        return Err("it must begin with http:// or https://".to_owned());
    }
    if without_key.contains('@') {
        return Err("an access key has only letters and digits, and a secret is a variable: AWS_SECRET_ACCESS_KEY".to_owned());
    }
    if parsed.query().is_some() || without_key.contains('#') {
        return Err("it has parameters, which nothing reads".to_owned());
    }
    Ok(url.to_owned())
}

/// An endpoint's URL without its access key, and the key. A key has letters and digits only.
fn split_access_key(endpoint_url: &str) -> (String, Option<&str>) {
    if let Some((scheme, rest)) = endpoint_url.split_once("://")
        && let Some((key, address)) = rest.split_once('@')
        && key.chars().all(|char| char.is_ascii_alphanumeric())
    {
        return (format!("{scheme}://{address}"), Some(key));
    }
    (endpoint_url.to_owned(), None)
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

/// The service's answer in one line. Without an answer: the innermost cause, and what can be done.
pub fn describe<E: ProvideErrorMetadata + Error + 'static>(
    error: &SdkError<E, HttpResponse>,
) -> String {
    if let SdkError::ServiceError(answer) = error {
        let code = answer.err().code().unwrap_or("an error without a code");
        return format!("{code}: {}", answer.err().message().unwrap_or("no message"));
    }
    // Where credentials were looked for is a list with a line for each place.
    let cause = cause(error)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    if matches!(error, SdkError::TimeoutError(_)) {
        return format!("it is slow or does not answer: {cause}");
    }
    if cause.contains("UnknownIssuer") {
        return format!(
            "{cause}; if the authority is right, let SSL_CERT_FILE name a file with its certificate (PEM)"
        );
    }
    cause
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
        assert_eq!(named, ("http://127.0.0.1:8000/".to_owned(), Some("KEY7")));
        for without in [
            "http://127.0.0.1:8000",
            "https://engine.example/a@b",
            "http://key:secret@127.0.0.1:8000",
            "",
        ] {
            assert_eq!(split_access_key(without), (without.to_owned(), None));
        }
    }

    #[test]
    fn what_a_url_says_in_vain_is_refused() {
        for understood in ["http://127.0.0.1:8000", "https://KEY7@engine.example/a"] {
            assert_eq!(parse_endpoint(understood), Ok(understood.to_owned()));
        }
        for refused in [
            "",
            "127.0.0.1:8000",
            "ftp://engine.example",
            "http://key:secret@127.0.0.1:8000",
            "http://127.0.0.1:8000?region=eu-west-1",
            "http://127.0.0.1:8000#table",
        ] {
            assert!(parse_endpoint(refused).is_err(), "{refused}");
        }
    }
}
