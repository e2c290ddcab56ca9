//! HTTP requests, each on a new connection, like `ab` without `-k`.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1::handshake, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Time limit of an answer; a later one never comes.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The address in a URL such as `redis://127.0.0.1:6379/`.
pub(crate) fn address_in(url: &str) -> anyhow::Result<SocketAddr> {
    let (_, address) = url.split_once("://").context("a URL has a scheme")?;
    address.trim_end_matches('/').parse().with_context(|| format!("{url} names no address"))
}

/// Sends one request. Returns status and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    tokio::time::timeout(ANSWER_WITHIN, ask(address, path)).await.with_context(|| format!("{path} is not answered"))?
}

async fn ask(address: SocketAddr, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut connection, driver) = handshake(TokioIo::new(stream)).await?;
    // It ends with the answer. If it ends earlier, the request fails.
    tokio::spawn(driver);
    let request = Request::get(path).header(header::HOST, address.to_string()).header(header::CONNECTION, "close");
    let answer = connection.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let status = answer.status();
    Ok((status, answer.into_body().collect().await?.to_bytes()))
}
