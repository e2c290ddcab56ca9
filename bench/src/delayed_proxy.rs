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

/// Bytes per read.
const CHUNK_BYTES: usize = 64 * 1024;
/// Maximum number of chunks in transit.
const CHUNKS_MAX: usize = 64;
/// Interval between two looks whether a stall has ended.
const STALL_POLL: Duration = Duration::from_millis(1);

/// Forwards data to a server and back. After a drop it accepts no more connections; existing ones end with their
/// clients.
pub(crate) struct DelayedProxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_closed: AtomicBool,
    is_stalled: AtomicBool,
}

impl State {
    /// Waits while the proxy is stalled and open.
    fn wait(&self) {
        while self.is_stalled.load(Ordering::Relaxed) && !self.is_closed.load(Ordering::Relaxed) {
            thread::sleep(STALL_POLL);
        }
    }
}

impl DelayedProxy {
    /// Forwards to a server. The way to the server takes the whole round trip.
    pub(crate) fn to(server: SocketAddr, round_trip: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let proxy = Self { address: listener.local_addr()?, state: Arc::default() };
        let state = proxy.state.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if state.is_closed.load(Ordering::Relaxed) {
                    return;
                }
                let state = state.clone();
                // If the connection breaks, the caller sees the error.
                thread::spawn(move || drop(join(&client, server, round_trip, &state)));
            }
        });
        Ok(proxy)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops forwarding in both directions, or continues. Connections are accepted meanwhile.
    pub(crate) fn stall(&self, is_stalled: bool) {
        self.state.is_stalled.store(is_stalled, Ordering::Relaxed);
    }
}

impl Drop for DelayedProxy {
    fn drop(&mut self) {
        self.state.is_closed.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        TcpStream::connect(self.address).ok();
    }
}

fn join(client: &TcpStream, server: SocketAddr, round_trip: Duration, state: &Arc<State>) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut to_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let (sender, in_transit) = mpsc::sync_channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let stall = state.clone();
    // Each chunk gets the same delay, however many there are.
    thread::spawn(move || {
        for (due, chunk) in in_transit {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            stall.wait();
            if to_server.write_all(&chunk).is_err() {
                break;
            }
        }
        to_server.shutdown(Shutdown::Both).ok();
    });
    let stall = state.clone();
    thread::spawn(move || {
        for_each_chunk(&server, |chunk| {
            stall.wait();
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
