//! Logging in to ElastiCache by IAM: each connection gets a token instead of a password.
//!
//! The token is a signed request that is never sent. The server checks the signature (AWS:
//! "Authenticating with IAM"). A token is accepted for 15 minutes, and a connection lasts 12 hours.
//! So every new connection signs a new token, and a connection that the server has ended is
//! replaced like any lost connection. Signing needs no network.

use std::{
    error::Error,
    io, iter,
    sync::Arc,
    time::{Duration, SystemTime},
};

use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials, SharedCredentialsProvider},
};
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign},
    sign::v4,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use process::aws;
use redis::{ErrorKind, RedisResult};
use tokio::sync::OnceCell;

const EXPIRES_IN: Duration = Duration::from_secs(900);

const SERVICE: &str = "elasticache";

/// Everything in a query but the unreserved characters (RFC 3986, 2.3), as signatures require.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const CALLS: aws::Calls = aws::Calls {
    attempt_timeout: Duration::from_secs(1),
    call_timeout: Duration::from_secs(1),
    max_attempts: 1,
};

/// How to log in by IAM. Clones share the source of credentials.
#[derive(Debug, Clone)]
pub struct IamLogin {
    /// The name of the replication group, which is part of what is signed.
    cluster: String,
    signer: Arc<OnceCell<Signer>>,
}

#[derive(Debug, Clone)]
struct Signer {
    region: String,
    credentials: SharedCredentialsProvider,
}

impl IamLogin {
    /// Logs in to this replication group with the process's own credentials and region, like the
    /// AWS SDK.
    pub fn of_process(cluster: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            signer: Arc::default(),
        }
    }

    pub fn with_credentials(
        cluster: impl Into<String>,
        region: impl Into<String>,
        credentials: SharedCredentialsProvider,
    ) -> Self {
        let signer = Signer {
            region: region.into(),
            credentials,
        };
        Self {
            cluster: cluster.into(),
            signer: Arc::new(OnceCell::new_with(Some(signer))),
        }
    }

    pub(crate) async fn token(&self, user: &str) -> RedisResult<String> {
        let signer = self.signer.get_or_try_init(Signer::of_process).await?;
        let credentials = signer.credentials.provide_credentials().await;
        // The next connection asks for credentials again, so this counts as a server that does not
        // answer.
        let credentials = credentials
            .map_err(|error| io::Error::other(format!("no credentials: {}", aws::cause(&error))))?;
        let token = presign(
            &self.cluster,
            user,
            &signer.region,
            credentials,
            SystemTime::now(),
        );
        token.map_err(|error| {
            (
                ErrorKind::InvalidClientConfig,
                "no token",
                aws::cause(&*error),
            )
                .into()
        })
    }
}

impl Signer {
    async fn of_process() -> RedisResult<Self> {
        let config = aws::sdk_config(None, aws::new_http_client(None)(), CALLS).await;
        let (Some(region), Some(credentials)) = (config.region(), config.credentials_provider())
        else {
            return Err((
                ErrorKind::InvalidClientConfig,
                "PAGEMARK_REDIS_IAM needs AWS_REGION and credentials",
            )
                .into());
        };
        Ok(Self {
            region: region.to_string(),
            credentials,
        })
    }
}

fn presign(
    cluster: &str,
    user: &str,
    region: &str,
    credentials: Credentials,
    at: SystemTime,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    let identity = credentials.into();
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(EXPIRES_IN);
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE);
    let params = params.time(at).settings(settings).build()?.into();
    let encode = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    let mut token = format!("{cluster}/?Action=connect&User={}", encode(user));
    let url = format!("http://{token}");
    let request = SignableRequest::new("GET", url, iter::empty(), SignableBody::Bytes(&[]))?;
    let (signed, _) = sign(request, &params)?.into_parts();
    for (name, value) in signed.params() {
        for part in ["&", name, "=", &encode(value)] {
            token.push_str(part);
        }
    }
    Ok(token)
}
