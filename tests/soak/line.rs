//! A line to a server, which can be slow or cut.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

use crate::fixture::proxy::proxy;

/// The bytes that pass at once.
const BUFFER_BYTES: usize = 64 * 1024;

#[derive(Clone, Default)]
struct State {
    delay_ms: Arc<AtomicU64>,
    cuts: watch::Sender<u64>,
}

#[derive(Clone)]
pub(super) struct Line {
    pub(super) url: String,
    state: State,
}

impl Line {
    pub(super) async fn to(server_url: &str) -> Self {
        let state = State::default();
        let of_connections = state.clone();
        let url = proxy(server_url, move |client, server| {
            serve(client, server, of_connections.clone())
        })
        .await;
        Self { url, state }
    }

    /// From now on, everything takes so much longer.
    pub(super) fn delay(&self, delay: Duration) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap();
        self.state.delay_ms.store(delay_ms, Ordering::Relaxed);
    }

    /// Ends all connections.
    pub(super) fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn serve(client: TcpStream, server: TcpStream, state: State) {
    let mut cuts = state.cuts.subscribe();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let both = async {
        tokio::join!(
            pass(from_client, to_server, &state),
            pass(from_server, to_client, &state)
        )
    };
    tokio::select! {
        _ = cuts.changed() => {}
        _ = both => {}
    }
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, state: &State) {
    let mut buffer = vec![0; BUFFER_BYTES];
    // An end is as good as an error: the other side has gone.
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let delay_ms = state.delay_ms.load(Ordering::Relaxed);
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
}
