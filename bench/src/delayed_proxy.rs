//! Connections to a server on this machine, with a delay that a network adds and loopback does not, or stalled.
//!
//! Threads forward the data, because a thread sleeps with a precision of some tens of microseconds, and an asynchronous
//! timer only of a millisecond.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

const CHUNK_BYTES: usize = 64 * 1024;
const CHUNKS_MAX: usize = 64;
/// Interval between two looks whether a stall has ended.
const STALL_POLL: Duration = Duration::from_millis(1);

/// Forwards data to a server and back, until the program ends. A drop ends a stall.
pub(crate) struct DelayedProxy {
    address: SocketAddr,
    is_stalled: Arc<AtomicBool>,
}

impl DelayedProxy {
    /// Forwards to a server. The way to the server takes the whole round trip.
    pub(crate) fn to(server: SocketAddr, round_trip: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let proxy = Self { address: listener.local_addr()?, is_stalled: Arc::default() };
        let is_stalled = proxy.is_stalled.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let is_stalled = is_stalled.clone();
                // If the connection breaks, the caller sees the error.
                thread::spawn(move || drop(join(&client, server, round_trip, &is_stalled)));
            }
        });
        Ok(proxy)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops forwarding in both directions, or continues. Connections are accepted meanwhile.
    pub(crate) fn stall(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Ordering::Relaxed);
    }
}

impl Drop for DelayedProxy {
    fn drop(&mut self) {
        self.stall(false);
    }
}

fn wait_while(is_stalled: &AtomicBool) {
    while is_stalled.load(Ordering::Relaxed) {
        thread::sleep(STALL_POLL);
    }
}

fn join(
    client: &TcpStream,
    server: SocketAddr,
    round_trip: Duration,
    is_stalled: &Arc<AtomicBool>,
) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut to_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let (sender, in_transit) = mpsc::sync_channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let stall = is_stalled.clone();
    // Each chunk gets the same delay, however many there are.
    thread::spawn(move || {
        for (due, chunk) in in_transit {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            wait_while(&stall);
            if to_server.write_all(&chunk).is_err() {
                break;
            }
        }
        to_server.shutdown(Shutdown::Both).ok();
    });
    let stall = is_stalled.clone();
    thread::spawn(move || {
        for_each_chunk(&server, |chunk| {
            wait_while(&stall);
            to_client.write_all(chunk).is_ok()
        });
        to_client.shutdown(Shutdown::Both).ok();
    });
    for_each_chunk(client, |chunk| sender.send((Instant::now() + round_trip, chunk.to_vec())).is_ok());
    Ok(())
}

/// Reads until the connection ends, or until `take` returns false.
fn for_each_chunk(mut from: &TcpStream, mut take: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !take(buffer.get(..read).unwrap_or_default()) {
            return;
        }
    }
}
