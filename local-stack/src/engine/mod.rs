//! The embedded DynamoDB engine: `dynoxide` on a data file, for AWS clients in this process and by
//! a port, if one is wanted.
//!
//! # What differs from DynamoDB, and what is done about it
//!
//! docs/engines.md compares this engine with another one and with AWS's documentation.
//!
//! | difference | here |
//! | --- | --- |
//! | a write with a stream on costs time in proportion to all stream records ever written | [`Engine::start`] makes two indexes by a second connection |
//! | stream records are kept for ever | [`Engine::trim_stream`] |
//! | it waits for the disk at each item's commit | a wait for each request (`calls`, `disk_sync`) |
//! | it counts all items of a table and its indexes for each `DescribeTable` | slow answers are given again (`calls`) |
//! | its file never shrinks | [`Engine::release_free_pages`] |
//! | expired items are removed only on request | a sweep in the background, and [`Engine::sweep_expired_items`] |
//! | the id of a stream's shard is too short for AWS's clients | the shard is shown under another one (`shards`) |
//! | it verifies no signature, so any process and any web page may use it | no port unless it is asked for, which refuses what a page can send (`port`) |
//! | its calls block, and wait for the lock of its only connection | they run on the engine's own threads (`calls`) |
//!
//! Callers handle what that page lists. They ask for few records at a time: `GetRecords` ignores
//! the limit of 1 MB. They give each `Scan` a `Limit`: without one it loads the whole table into
//! memory.
//!
//! # Invariants
//!
//! - Sequence numbers of a table always grow, also after everything was trimmed, after a restart,
//!   and when the clock was set back. For that, the newest record of a table is never trimmed,
//!   because the engine continues counting from it
//!   (`sequence_numbers_grow_after_a_trim_and_a_restart`).
//! - One data file has one engine: a second one, also in another process, is refused.
//! - No two connections write or checkpoint at the same instant, and no other process opens the
//!   file for writing while the engine runs (`write_lock`).

use std::fs::TryLockError;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use dynoxide::Database;
use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};

mod calls;
pub mod client;
mod data_file;
mod disk_sync;
pub mod operations;
mod port;
mod shards;
mod stream_table;
#[cfg(test)]
mod tests;
mod write_lock;

use crate::{
    blocking::{blocking, blocking_on},
    file_lock::FileLock,
};
use calls::EngineCalls;
pub(crate) use data_file::DataFile;
use disk_sync::DiskSync;
pub(crate) use port::EnginePort;
pub use stream_table::STREAM_INDEXES;
use stream_table::StreamTable;
pub(crate) use stream_table::parse_sequence_number;
use write_lock::WriteLock;

/// Threads for calls, sweeps and the second connection. All but one wait for the engine's lock
/// under load; more would only wait too.
const THREADS_MAX: usize = 8;

const NO_THREADS: &str = "cannot start the engine's threads";

/// The shortest time between two sweeps for expired items.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// A sweep reads every item of every table with a TTL. So the pause after a long sweep is this many
/// times as long as the sweep, and sweeping takes at most 0.05 % of the engine's time. (DynamoDB
/// itself may take days.)
const SWEEP_REST_FACTOR: u32 = 2_000;

/// How long requests under way may take to finish after a stop. Otherwise a client that has sent
/// half a request would block the stop for ever.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long the threads may take to end after that. A sweep cannot be interrupted; it is left
/// behind.
const THREADS_GRACE: Duration = Duration::from_secs(1);

/// Pause between two chunks of a trim or of free pages. SQLite has no queue for its write lock. A
/// waiting writer looks again after 1, 2, 5 and 10 ms, so it gets in only through a gap of that
/// size.
const TRIM_PAUSE: Duration = Duration::from_millis(10);

/// A running engine. Dropping it stops it; [`Engine::stop`] does so without blocking the caller's
/// thread.
#[derive(derive_more::Debug)]
#[debug("Engine {{ address: {address:?}, .. }}")]
pub struct Engine {
    address: Option<SocketAddr>,
    calls: Arc<EngineCalls>,
    stream_table: Arc<StreamTable>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread ends.
    running: watch::Receiver<()>,
    /// The last field: another engine may open the file only after the connections above are
    /// closed.
    write_lock: WriteLock,
}

impl Engine {
    /// Opens (or creates) `data_file`. Serves it at `listen`, where every process may use it; port 0
    /// takes a free port, see [`Engine::address`]. `None` opens no port.
    ///
    /// Only the engine may use the file, its `.lock` file, and the files that SQLite puts next to
    /// it (`-wal`, `-shm`). Its folder must exist.
    ///
    /// # Errors
    /// One clear line for each case: the port is taken, or another engine uses the file. The file
    /// may also be broken, or may not be a data file of this engine.
    pub async fn start(data_file: &Path, listen: Option<SocketAddr>) -> anyhow::Result<Engine> {
        let data_file = data_file.to_owned();
        blocking(move || Self::open(&data_file, listen)).await
    }

    fn open(data_file: &Path, listen: Option<SocketAddr>) -> anyhow::Result<Engine> {
        // Work on the data file runs on these threads, so that a stop waits for it
        // ([`THREADS_GRACE`]).
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(THREADS_MAX)
            .thread_name("engine-worker")
            .enable_all()
            .build()
            .context(NO_THREADS)?;
        // The port and the lock come first: a second stack must fail before it touches the first
        // one's file.
        let listener = match listen {
            Some(listen) => Some(bind(&runtime, listen)?),
            None => None,
        };
        let address = match &listener {
            Some(listener) => Some(listener.local_addr()?),
            None => None,
        };
        let write_lock = WriteLock::new(lock(data_file)?);
        data_file::refuse_damaged(data_file)?;
        stream_table::prepare(data_file)?;
        let path = data_file.to_str().with_context(|| {
            format!(
                "{} is not a path in UTF-8, which the engine needs",
                data_file.display()
            )
        })?;
        let cannot_open = format!("cannot open {path}");
        let database = Database::new(path).with_context(|| cannot_open.clone())?;
        let disk = DiskSync::instead_of_each_commit(&database, data_file)
            .with_context(|| cannot_open.clone())?;
        let stream_table = StreamTable::open(data_file).context(cannot_open)?;

        let calls = Arc::new(EngineCalls {
            database,
            runtime: runtime.handle().clone(),
            writes: watch::Sender::default(),
            disk,
            write_lock: write_lock.clone(),
            descriptions: Default::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&calls);
        let (runs, running) = watch::channel(());
        let thread = std::thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || {
                let _runs = runs;
                runtime.block_on(serve(listener, served, stopped));
                runtime.shutdown_timeout(THREADS_GRACE);
            })
            .context(NO_THREADS)?;
        Ok(Engine {
            address,
            calls,
            stream_table: Arc::new(stream_table),
            stop: Some(stop),
            thread: Some(thread),
            running,
            write_lock,
        })
    }

    /// An HTTP client for AWS clients in this process, without a network. After the engine has
    /// stopped, their calls fail.
    pub fn http_client(&self) -> SharedHttpClient {
        let calls = Arc::downgrade(&self.calls);
        client::http_client(move |operation, body| {
            let called = calls.upgrade().map(|calls| calls.call(operation, body));
            async move {
                match called {
                    Some(called) => called.await,
                    None => Err(io::Error::new(
                        io::ErrorKind::NotConnected,
                        "the engine has stopped",
                    )),
                }
            }
        })
    }

    /// For requests of other processes that arrive elsewhere than at the port.
    pub(crate) fn port(&self) -> EnginePort {
        EnginePort(Arc::downgrade(&self.calls))
    }

    /// The address that the engine listens at, with the port that was chosen.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The endpoint for AWS clients, such as `http://127.0.0.1:8000`, if it has a port. Any region and any
    /// credentials will do. A request with an `Origin`, or with a `Host` that is neither
    /// `localhost` nor an address, is refused.
    pub fn endpoint_url(&self) -> Option<String> {
        self.address.map(|address| format!("http://{address}"))
    }

    /// A value that changes after each request that may have written something, before its answer
    /// is sent, and after each sweep. So readers of a stream need not poll. When a client goes away
    /// before the answer, the value may change before the write is done.
    pub fn writes(&self) -> watch::Receiver<()> {
        self.calls.writes.subscribe()
    }

    /// Waits until everything that a reader may have seen before this call is on the disk. Answered
    /// writes are.
    pub(crate) async fn sync(&self) {
        self.calls.disk.wait().await;
    }

    /// Wakes those who wait for [`Engine::writes`], although nothing was written.
    pub(crate) fn wake_readers(&self) {
        self.calls.writes.send_replace(());
    }

    /// Deletes the stream records of a table up to and including `up_to_sequence_number` (as
    /// `GetRecords` shows it), but never the table's newest record. Returns how many were deleted.
    ///
    /// It deletes in chunks with pauses between them, so writers wait for a few milliseconds at
    /// most. A reader whose position is in the trimmed range continues with the first remaining
    /// record.
    ///
    /// # Errors
    /// The text is not a sequence number of this engine, or the file cannot be written.
    pub async fn trim_stream(
        &self,
        table_name: &str,
        up_to_sequence_number: &str,
    ) -> anyhow::Result<u64> {
        let up_to = parse_sequence_number(up_to_sequence_number)?;
        let mut deleted_total = 0;
        // This loop ends: records up to a fixed number are finite, and new ones get greater
        // numbers.
        loop {
            let table_name = table_name.to_owned();
            let deleted = self
                .alone(move |records| records.trim_chunk(&table_name, up_to))
                .await?;
            deleted_total += deleted;
            if deleted < stream_table::TRIM_CHUNK_RECORDS {
                return Ok(deleted_total);
            }
            tokio::time::sleep(TRIM_PAUSE).await;
        }
    }

    /// Gives the pages of trimmed records back to the file system, but for 4 MiB that the next
    /// records need. Call it when little is written: a page that is needed again right away is
    /// moved in vain.
    ///
    /// It works in chunks, like a trim. It does nothing in a file that an older version of this
    /// stack created.
    pub async fn release_free_pages(&self) -> anyhow::Result<()> {
        // This loop ends: each chunk makes the file shorter.
        while self.alone(StreamTable::release_chunk).await? {
            tokio::time::sleep(TRIM_PAUSE).await;
        }
        Ok(())
    }

    /// Lets the second connection write, and nothing else meanwhile.
    async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StreamTable) -> rusqlite::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let alone = self.write_lock.second_connection().await;
        self.look(move |stream_table| {
            let _alone = alone;
            work(stream_table)
        })
        .await
    }

    /// Lets the second connection read.
    async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StreamTable) -> rusqlite::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let stream_table = Arc::clone(&self.stream_table);
        let done = blocking_on(&self.calls.runtime, move || work(&stream_table)).await;
        done.map_err(|error| anyhow!("the engine's stream records cannot be reached: {error}"))
    }

    /// The newest stream record of a table, by its stored number ([`parse_sequence_number`]); 0
    /// without one.
    pub(crate) async fn newest_stream_record(&self, table_name: &str) -> anyhow::Result<i64> {
        let table_name = table_name.to_owned();
        self.look(move |records| records.newest(&table_name)).await
    }

    /// The number of stream records of a table after a sequence number, or of all its stream
    /// records. The cost is in proportion to the answer, so trim.
    ///
    /// # Errors
    /// The text is not a sequence number of this engine, or the file cannot be read.
    pub async fn pending_stream_records(
        &self,
        table_name: &str,
        after_sequence_number: Option<&str>,
    ) -> anyhow::Result<u64> {
        let after = after_sequence_number
            .map(parse_sequence_number)
            .transpose()?
            .unwrap_or(0);
        let table_name = table_name.to_owned();
        self.look(move |records| records.count_after(&table_name, after))
            .await
    }

    /// Deletes every expired item of every table with a TTL now, and returns how many. The engine
    /// also does so in the background from time to time; this is for callers that cannot wait.
    pub async fn sweep_expired_items(&self) -> anyhow::Result<usize> {
        self.calls
            .sweep()
            .await
            .context("expired items cannot be deleted")
    }

    /// Waits until the engine no longer runs.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mut running = self.running.clone();
        async move { while running.changed().await.is_ok() {} }
    }

    /// Stops: no more connections are taken, requests under way may finish for two seconds, the
    /// file is closed.
    pub async fn stop(self) {
        blocking(move || drop(self)).await;
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The end of the sender stops the thread.
        drop(self.stop.take());
        // Waiting keeps the promise that the file is free again; bounded by the two grace periods.
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the engine's thread panicked");
        }
    }
}

/// Takes the lock that marks the data file as used.
fn lock(data_file: &Path) -> anyhow::Result<FileLock> {
    let path = data_file.with_added_extension("lock");
    FileLock::take(&path).map_err(|error| match error {
        TryLockError::WouldBlock => {
            anyhow!("{} is in use by another running stack", data_file.display())
        }
        TryLockError::Error(error) => {
            anyhow!(error).context(format!("cannot write {}", path.display()))
        }
    })
}

fn bind(runtime: &Runtime, listen: SocketAddr) -> anyhow::Result<TcpListener> {
    match runtime.block_on(TcpListener::bind(listen)) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            bail!(
                "{listen} is in use; stop what listens there, or choose another address with --dynamodb-listen"
            )
        }
        bound => bound.with_context(|| format!("cannot listen at {listen}")),
    }
}

async fn serve(
    listener: Option<TcpListener>,
    calls: Arc<EngineCalls>,
    stopped: oneshot::Receiver<()>,
) {
    let stopped = stopped.map(drop).shared();
    let until_stopped = stopped.clone();
    let server = async {
        match listener {
            Some(listener) => port::serve(listener, Arc::clone(&calls), until_stopped).await,
            None => until_stopped.await,
        }
    };
    let stop = async {
        stopped.await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    tokio::select! {
        () = server => {}
        () = stop => tracing::debug!("requests still under way were cut off"),
        () = sweep_from_time_to_time(&calls) => {}
    }
}

async fn sweep_from_time_to_time(calls: &EngineCalls) {
    let mut rest = SWEEP_INTERVAL;
    loop {
        tokio::time::sleep(rest).await;
        let begun = Instant::now();
        match calls.sweep().await {
            Ok(deleted) => tracing::debug!(deleted, "swept expired items"),
            Err(error) => {
                tracing::warn!(%error, "the sweep for expired items failed; it will be tried again")
            }
        }
        rest = SWEEP_INTERVAL.max(begun.elapsed().saturating_mul(SWEEP_REST_FACTOR));
    }
}
