//! Connections with a delay. They add to each call what a network adds and loopback does not.
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

/// Forwards data to a server and delays it. After a drop it accepts no more connections; existing ones end with their
/// clients.
pub(super) struct Road {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl Road {
    /// Delayed connections to a server on this machine. The way to the server takes the whole round trip.
    pub(super) fn to(server: SocketAddr, round_trip: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let closed = Arc::new(AtomicBool::new(false));
        let is_closed = closed.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_closed.load(Ordering::Relaxed) {
                    return;
                }
                // If the connection breaks, the caller sees the error.
                thread::spawn(move || drop(join(&client, server, round_trip)));
            }
        });
        Ok(Self { address, closed })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Road {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        TcpStream::connect(self.address).ok();
    }
}

fn join(client: &TcpStream, server: SocketAddr, round_trip: Duration) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let (mut from_server, mut to_client) = (server, client.try_clone()?);
    let (sender, on_the_road) = mpsc::sync_channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    // Each chunk gets the same delay, however many there are.
    thread::spawn(move || {
        for (due, chunk) in on_the_road {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to_server.write_all(&chunk).is_err() {
                break;
            }
        }
        to_server.shutdown(Shutdown::Both).ok();
    });
    thread::spawn(move || {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(read @ 1..) = from_server.read(&mut buffer) {
            if to_client.write_all(buffer.get(..read).unwrap_or_default()).is_err() {
                break;
            }
        }
        to_client.shutdown(Shutdown::Both).ok();
    });
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from_client.read(&mut buffer) {
        let chunk = buffer.get(..read).unwrap_or_default().to_vec();
        if sender.send((Instant::now() + round_trip, chunk)).is_err() {
            break;
        }
    }
    Ok(())
}
