//! HTTP requests, each on a new connection, like `ab` without `-k`.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1::handshake, header};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};

use crate::statistics::Latencies;

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

/// Sends `requests` requests with `clients` clients in parallel. Each client sends the next one as soon as it has an
/// answer, which must be 200. Returns the duration.
pub(crate) async fn load(
    address: SocketAddr,
    path: &str,
    requests: u32,
    clients: usize,
    latencies: &mut Latencies,
) -> anyhow::Result<Duration> {
    let (path, asked): (Arc<str>, _) = (path.into(), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for _ in 0..clients {
        let (path, asked) = (path.clone(), asked.clone());
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while asked.fetch_add(1, Ordering::Relaxed) < requests {
                let began = Instant::now();
                let (status, body) = get(address, &path).await?;
                ensure!(status == StatusCode::OK && !body.is_empty(), "{path} was answered {status}");
                latencies.push(began.elapsed());
            }
            Ok(latencies)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done??);
    }
    let took = began.elapsed();
    all.into_iter().for_each(|latency| latencies.record(latency));
    Ok(took)
}
