//! A road with a delay: what a network adds to each call, which loopback does not.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::Instant,
};

/// What is read at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks on the road.
const CHUNKS_MAX: usize = 64;

/// Leads to a server, and holds back what is sent there. It ends when it is dropped.
pub(super) struct Road {
    address: SocketAddr,
    _listener: JoinSet<()>,
}

impl Road {
    /// A road to a server on this machine. The whole round trip is waited for on the way there, so that one timer, whose
    /// resolution is a millisecond, makes it.
    pub(super) async fn to(server: SocketAddr, round_trip: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // What breaks a connection is the caller's error.
                connections.spawn(async move { drop(join(client, server, round_trip).await) });
            }
        });
        Ok(Self { address, _listener: accepting })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The address in a URL such as `redis://127.0.0.1:6379/`.
pub(super) fn address_in(url: &str) -> anyhow::Result<SocketAddr> {
    let (_, address) = url.split_once("://").context("a URL has a scheme")?;
    address.trim_end_matches('/').parse().with_context(|| format!("{url} names no address"))
}

async fn join(client: TcpStream, server: SocketAddr, round_trip: Duration) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::try_join!(pass(from_client, to_server, round_trip), pass(from_server, to_client, Duration::ZERO))?;
    Ok(())
}

/// Passes on what comes, each chunk as much later.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
) -> std::io::Result<()> {
    let (sender, mut on_the_road) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let send = async move {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut buffer).await?;
            let chunk = buffer.get(..read).unwrap_or_default().to_vec();
            if read == 0 || sender.send((Instant::now() + delay, chunk)).await.is_err() {
                return Ok(());
            }
        }
    };
    let arrive = async move {
        while let Some((due, chunk)) = on_the_road.recv().await {
            // The timer takes a millisecond even when it is late already.
            if due > Instant::now() {
                tokio::time::sleep_until(due).await;
            }
            to.write_all(&chunk).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(send, arrive)?;
    Ok(())
}
