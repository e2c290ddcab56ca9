//! HTTP connections to servers on this machine, and small servers.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use anyhow::Context;
use http_body_util::{BodyExt, Empty, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Bytes, Incoming},
    client::conn::http1::{SendRequest, handshake},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn address_in(url: &str) -> anyhow::Result<SocketAddr> {
    let (_, address) = url.split_once("://").context("a URL has a scheme")?;
    address
        .trim_end_matches('/')
        .parse()
        .with_context(|| format!("{url} names no address"))
}

pub(crate) async fn connect<B>(address: SocketAddr) -> anyhow::Result<SendRequest<B>>
where
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (connection, driver) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(driver);
    Ok(connection)
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let request = Request::get(path)
        .header(header::HOST, address.to_string())
        .header(header::CONNECTION, "close")
        .body(Empty::new())?;
    let answer = async {
        let answer = connect(address).await?.send_request(request).await?;
        Ok((
            answer.status(),
            answer.into_body().collect().await?.to_bytes(),
        ))
    };
    tokio::time::timeout(ANSWER_WITHIN, answer)
        .await
        .with_context(|| format!("{path} is not answered"))?
}

pub(crate) struct HttpServer {
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl HttpServer {
    /// Answers requests on a free port. An error breaks the connection, so the caller sees it.
    pub(crate) async fn start<Answered>(
        answer: impl Fn(Request<Incoming>) -> Answered + Clone + Send + 'static,
    ) -> anyhow::Result<Self>
    where
        Answered: Future<Output = anyhow::Result<Response<Full<Bytes>>>> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service_fn(answer.clone());
                tokio::spawn(async move {
                    if stream.set_nodelay(true).is_ok() {
                        http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await
                            .ok();
                    }
                });
            }
        });
        Ok(Self { address, accepting })
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
