//! HTTP connections to servers on this machine.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
    header,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Time limit of an answer; a later one never comes.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The address in a URL such as `redis://127.0.0.1:6379/`.
pub(crate) fn address_in(url: &str) -> anyhow::Result<SocketAddr> {
    let (_, address) = url.split_once("://").context("a URL has a scheme")?;
    address.trim_end_matches('/').parse().with_context(|| format!("{url} names no address"))
}

/// Opens a connection. It ends with the caller. If it ends earlier, the next request fails.
pub(crate) async fn connect(address: SocketAddr) -> anyhow::Result<SendRequest<Empty<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (connection, driver) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(driver);
    Ok(connection)
}

/// Sends one request on a new connection. Returns status and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let request = Request::get(path).header(header::HOST, address.to_string()).header(header::CONNECTION, "close");
    let request = request.body(Empty::new())?;
    let answer = async {
        let answer = connect(address).await?.send_request(request).await?;
        Ok((answer.status(), answer.into_body().collect().await?.to_bytes()))
    };
    tokio::time::timeout(ANSWER_WITHIN, answer).await.with_context(|| format!("{path} is not answered"))?
}
