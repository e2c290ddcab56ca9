//! The AWS SDK without a network: its requests become calls of a function.

use std::{io, sync::Arc};

use aws_smithy_runtime_api::{
    client::{
        http::{
            HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector,
            http_client_fn,
        },
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use aws_smithy_types::body::SdkBody;
use hyper::body::Bytes;

/// The header that names the operation, such as `DynamoDB_20120810.PutItem`.
pub(crate) const TARGET: &str = "x-amz-target";

/// An HTTP client for clients of DynamoDB and DynamoDB Streams. Each attempt of an operation, such
/// as `Query`, is one call of `serve` with the JSON of the request, which returns the status and
/// the JSON of the answer. An error is what a lost connection is elsewhere.
pub fn http_client<Serve, Answered>(serve: Serve) -> SharedHttpClient
where
    Serve: Fn(String, Bytes) -> Answered + Send + Sync + 'static,
    Answered: Future<Output = io::Result<(u16, Vec<u8>)>> + Send + 'static,
{
    let connector = SharedHttpConnector::new(Connector(Arc::new(serve)));
    http_client_fn(move |_, _| connector.clone())
}

/// The operation that a target names.
pub(super) fn operation(target: &str) -> &str {
    match target.split_once('.') {
        Some((_, operation)) => operation,
        None => target,
    }
}

#[derive(derive_more::Debug)]
#[debug("Connector")]
struct Connector<Serve>(Arc<Serve>);

impl<Serve, Answered> HttpConnector for Connector<Serve>
where
    Serve: Fn(String, Bytes) -> Answered + Send + Sync + 'static,
    Answered: Future<Output = io::Result<(u16, Vec<u8>)>> + Send + 'static,
{
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let operation = operation(request.headers().get(TARGET).unwrap_or_default()).to_owned();
        let body = Bytes::copy_from_slice(request.body().bytes().unwrap_or_default());
        let serve = Arc::clone(&self.0);
        HttpConnectorFuture::new(async move {
            let (status, body) = serve(operation, body)
                .await
                .map_err(|error| ConnectorError::io(error.into()))?;
            let status = StatusCode::try_from(status)
                .map_err(|error| ConnectorError::other(error.into(), None))?;
            Ok(HttpResponse::new(status, SdkBody::from(body)))
        })
    }
}
