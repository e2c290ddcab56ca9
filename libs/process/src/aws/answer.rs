//! Reads the answers of DynamoDB and of engines that stand in for it, and refuses what is none.
//!
//! The SDK takes an answer without a body for an empty one: an item that is absent, a list without
//! entries. A proxy that loses bodies would so hide comments from readers, and from an export. But
//! the service answers each call with a JSON object: an absent item is `{}`. So an answer without
//! one is a failed attempt, like a lost connection.
//!
//! A body is read here, within the time limit of the attempt. It would otherwise be under another
//! limit, the SDK's protection against stalled streams.

use std::fmt;

use aws_smithy_runtime_api::{
    client::{
        http::{
            HttpClient, HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector,
            http_client_fn,
        },
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use aws_smithy_types::{body::SdkBody, byte_stream::ByteStream};
use thiserror::Error;

/// The number of characters of a strange answer that an error names.
const NAMED_CHARACTERS: usize = 120;

/// What answered is no DynamoDB, or a proxy has lost its answer.
#[derive(Debug, Error)]
enum NoAnswer {
    #[error("{url} answered with status {status} and without a body")]
    Empty { url: String, status: StatusCode },
    #[error("{url} answered with status {status} and no JSON: {begins:?}")]
    NotJson {
        url: String,
        status: StatusCode,
        begins: String,
    },
}

/// An HTTP client for DynamoDB and DynamoDB Streams, whose answers have a JSON object each.
pub fn with_json_answers(http_client: SharedHttpClient) -> SharedHttpClient {
    http_client_fn(move |settings, components| {
        SharedHttpConnector::new(JsonConnector(
            http_client.http_connector(settings, components),
        ))
    })
}

struct JsonConnector(SharedHttpConnector);

impl fmt::Debug for JsonConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonConnector")
    }
}

impl HttpConnector for JsonConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let url = request.uri().to_owned();
        let answered = self.0.call(request);
        HttpConnectorFuture::new(async move { read(url, answered.await?).await })
    }
}

/// Reads the body of an answer, which must begin like a JSON object.
async fn read(url: String, mut answer: HttpResponse) -> Result<HttpResponse, ConnectorError> {
    let body = ByteStream::new(answer.take_body()).collect().await;
    let body = body
        .map_err(|error| ConnectorError::io(error.into()))?
        .into_bytes();
    let status = answer.status();
    match body.trim_ascii_start().first() {
        Some(b'{') => {}
        None => return Err(ConnectorError::io(NoAnswer::Empty { url, status }.into())),
        Some(_) => {
            let text = String::from_utf8_lossy(&body);
            let begins = text.trim().chars().take(NAMED_CHARACTERS).collect();
            let problem = NoAnswer::NotJson {
                url,
                status,
                begins,
            };
            return Err(ConnectorError::io(problem.into()));
        }
    }
    *answer.body_mut() = SdkBody::from(body);
    Ok(answer)
}
