//! The engine's port, for AWS clients of other processes, and what answers requests that arrive by
//! the control socket instead. It keeps web pages out.
//!
//! The engine verifies no signature, so any page in a browser on this machine could read and write
//! the table. The port refuses every request that a page can send:
//!
//! - A request with an `Origin` header. Browsers send it with every preflight and every POST, and
//!   without a preflight a page cannot name an operation.
//! - A request whose `Host` is a name other than `localhost`. With DNS rebinding, a page's name
//!   resolves to this machine, and its browser treats the engine as the page's origin. But the page
//!   cannot change `Host`, and addresses cannot be rebound.
//!
//! SDKs and command lines send neither.

use std::{
    convert::Infallible,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::FutureExt;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HOST, HeaderValue, ORIGIN},
    http::uri::Authority,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::{
    calls::EngineCalls,
    client::{TARGET, operation},
};

/// Pause after a connection that could not be accepted, for example because the process has too
/// many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longer requests are refused. DynamoDB takes up to 16 MB.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Serves until `stopped` completes. Then it accepts no more connections, and returns when the
/// requests under way have been answered.
pub(super) async fn serve(
    listener: TcpListener,
    calls: Arc<EngineCalls>,
    stopped: impl Future<Output = ()> + Clone + Send + 'static,
) {
    let mut connections = JoinSet::new();
    let mut stop = pin!(stopped.clone());
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, calls.clone(), stopped.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "the engine cannot take a connection; it tries again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve_connection(
    stream: TcpStream,
    calls: Arc<EngineCalls>,
    stopped: impl Future<Output = ()>,
) {
    // If the connection is lost already, that shows below.
    stream.set_nodelay(true).ok();
    let service =
        service_fn(|request| answer(request, Arc::clone(&calls)).map(Ok::<_, Infallible>));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the engine broke off");
    }
}

/// Answers requests that have arrived elsewhere. Does not keep the engine from stopping.
#[derive(Clone, derive_more::Debug)]
#[debug("EnginePort")]
pub(crate) struct EnginePort(pub(super) Weak<EngineCalls>);

impl EnginePort {
    pub(crate) fn is_for(request: &Request<Incoming>) -> bool {
        request.headers().contains_key(TARGET)
    }

    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match self.0.upgrade() {
            Some(calls) => answer(request, calls).await,
            None => error_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "The engine has stopped.",
            ),
        }
    }
}

async fn answer(request: Request<Incoming>, calls: Arc<EngineCalls>) -> Response<Full<Bytes>> {
    if let Some(reason) = refusal(request.headers()) {
        return error_response(StatusCode::FORBIDDEN, "AccessDeniedException", reason);
    }
    let target = request
        .headers()
        .get(TARGET)
        .and_then(|target| target.to_str().ok());
    let Some(operation) = target.map(|target| operation(target).to_owned()) else {
        let message = "The header X-Amz-Target must name an operation.";
        return error_response(
            StatusCode::BAD_REQUEST,
            "UnknownOperationException",
            message,
        );
    };
    let body = match Limited::new(request.into_body(), REQUEST_BYTES_MAX)
        .collect()
        .await
    {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = "A request to this engine has at most 16 MiB.";
            return error_response(
                StatusCode::PAYLOAD_TOO_LARGE,
                "SerializationException",
                message,
            );
        }
        // The client has gone.
        Err(error) => {
            return error_response(
                StatusCode::BAD_REQUEST,
                "SerializationException",
                &error.to_string(),
            );
        }
    };
    match calls.call(operation, body).await {
        Ok((status, body)) => response(StatusCode::from_u16(status).unwrap_or_default(), body),
        Err(error) => {
            tracing::error!(%error, "the engine did not answer a request");
            error_response(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalServerError",
                "The engine did not answer.",
            )
        }
    }
}

/// The reason to refuse a request, if any.
fn refusal(headers: &HeaderMap) -> Option<&'static str> {
    if headers.contains_key(ORIGIN) {
        return Some("Web pages may not use this engine: the request has the header Origin.");
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_expected(host) => None,
        _ => Some("The header Host must be localhost or an IP address, such as 127.0.0.1."),
    }
}

/// Whether a `Host` is `localhost` or an address, with any port: ports may be forwarded.
fn is_expected(host: &HeaderValue) -> bool {
    let Ok(authority) = Authority::try_from(host.as_bytes()) else {
        return false;
    };
    let name = authority.host();
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

/// An error in the shape of DynamoDB's errors.
fn error_response(status: StatusCode, kind: &str, message: &str) -> Response<Full<Bytes>> {
    let body = json!({ "__type": format!("com.amazon.coral.service#{kind}"), "message": message });
    response(status, body.to_string())
}

fn response(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-amz-json-1.0"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(host: &str) -> bool {
        is_expected(&HeaderValue::from_str(host).unwrap())
    }

    #[test]
    fn a_host_is_expected_when_it_cannot_be_rebound() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8000",
            "localhost:9",
            "LocalHost",
            "[::1]:8000",
            "[::1]",
            "192.0.2.7:80",
        ] {
            assert!(expected(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a b",
            "127.1",
        ] {
            assert!(!expected(host), "{host}");
        }
    }
}
