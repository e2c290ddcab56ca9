//! Measures the duration of requests while a store accepts requests but answers nothing.
//!
//! The API reaches its stores through relays, which stop forwarding. All callers send one request at the same moment,
//! because later requests may find the circuit breaker of the store open. The statuses must be those of a store that is
//! down: without the page index, page 1 is answered and page 2 is not; without the table, nothing is.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::ensure;
use futures_util::future::try_join_all;
use hyper::StatusCode;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::{ApiProcess, CALLERS, Served};
use crate::{
    http::{self, address_in},
    shop::Shop,
};

const CHUNK_BYTES: usize = 64 * 1024;

/// Duration of the longest requests.
pub(super) struct Longest {
    pub(super) page_1_without_index: Duration,
    pub(super) page_2_without_index: Duration,
    pub(super) without_table: Duration,
}

/// Requests pages while each store in turn is stalled.
pub(super) async fn measure(binary: &Path, shop: &Shop) -> anyhow::Result<Longest> {
    let engine = Relay::to(address_in(&shop.engine.endpoint_url())?).await?;
    let redis = Relay::to(address_in(&shop.redis_url())?).await?;
    let served = Served {
        table: shop.table.name(),
        dynamodb_url: format!("http://{}", engine.address),
        redis_url: Some(format!("redis://{}", redis.address)),
        sample_page: shop.all.json_path(2),
    };
    let api = ApiProcess::start(binary, &served).await?;
    let longest = async |page, expected| longest(api.address(), &shop.all.json_path(page), expected).await;
    redis.stall(true);
    let page_1_without_index = longest(1, StatusCode::OK).await?;
    let page_2_without_index = longest(2, StatusCode::SERVICE_UNAVAILABLE).await?;
    redis.stall(false);
    engine.stall(true);
    let without_table = longest(1, StatusCode::SERVICE_UNAVAILABLE).await?;
    engine.stall(false);
    Ok(Longest { page_1_without_index, page_2_without_index, without_table })
}

async fn longest(api: SocketAddr, path: &str, expected: StatusCode) -> anyhow::Result<Duration> {
    let caller = async || {
        let began = Instant::now();
        let (status, _) = http::get(api, path).await?;
        ensure!(status == expected, "{path} was answered {status} instead of {expected}");
        anyhow::Ok(began.elapsed())
    };
    let all = try_join_all((0..CALLERS).map(|_| caller())).await?;
    Ok(all.into_iter().max().unwrap_or_default())
}

/// Forwards data to a server and back until it is stalled. Dropping it ends it.
struct Relay {
    address: SocketAddr,
    stalled: watch::Sender<bool>,
    _connections: JoinSet<()>,
}

impl Relay {
    async fn to(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (stalled, is_stalled) = watch::channel(false);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let is_stalled = is_stalled.clone();
                open.spawn(async move {
                    // If the connection breaks, the API reports the error.
                    if let Ok(server) = TcpStream::connect(server).await {
                        let ((from_client, to_client), (from_server, to_server)) =
                            (client.into_split(), server.into_split());
                        tokio::join!(
                            pass_on(from_client, to_server, is_stalled.clone()),
                            pass_on(from_server, to_client, is_stalled)
                        );
                    }
                });
            }
        });
        Ok(Self { address, stalled, _connections: connections })
    }

    fn stall(&self, stalled: bool) {
        self.stalled.send_replace(stalled);
    }
}

/// Runs until either side ends.
async fn pass_on(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, stalled: watch::Receiver<bool>) {
    let (mut buffer, mut stalled) = (vec![0; CHUNK_BYTES], stalled);
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let chunk = buffer.get(..read).unwrap_or_default();
        if stalled.wait_for(|stalled| !stalled).await.is_err() || to.write_all(chunk).await.is_err() {
            return;
        }
    }
}
