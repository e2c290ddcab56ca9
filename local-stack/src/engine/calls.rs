//! What a call of the engine passes through, from this process or by the port.
//!
//! A write begins only while the second connection does not write (`write_lock`). After it, a value
//! changes, for readers of the stream to wait for. Its answer waits until it is on the disk
//! (`disk_sync`).
//!
//! For each `DescribeTable` the engine counts and measures the items of the table and of every
//! index. With three million items that takes a second or more, and the engine does nothing else
//! meanwhile. DynamoDB itself updates the counts "approximately every six hours" (API
//! `TableDescription`). So a slow answer is given again, until a table changes or a hundred times
//! its duration has passed.

use std::{
    collections::HashMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use dynoxide::Database;
use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::watch};

use super::{
    disk_sync::DiskSync,
    operations::{self, changes_tables, may_write},
    write_lock::WriteLock,
};
use crate::blocking::blocking_on;

/// Faster descriptions are not kept: their counts are always those of now.
const KEPT_FROM: Duration = Duration::from_millis(250);
/// How many times as long as it took a description is given again. So they take a hundredth of the
/// engine's time.
const KEPT_TIMES: u32 = 100;
const KEPT_MAX: Duration = Duration::from_secs(6 * 3600);

/// The status and the body.
type EngineAnswer = (u16, Vec<u8>);

pub(super) struct EngineCalls {
    pub(super) database: Database,
    /// The engine's threads.
    pub(super) runtime: Handle,
    /// Changes after each request that may have written something.
    pub(super) writes: watch::Sender<()>,
    pub(super) disk: DiskSync,
    pub(super) write_lock: WriteLock,
    /// Slow descriptions by request, and until when each is given again.
    pub(super) descriptions: Mutex<HashMap<Bytes, (EngineAnswer, Instant)>>,
}

impl EngineCalls {
    /// Carries an operation out on the engine's threads. A write that has begun is carried out even
    /// if its caller has gone. The caller holds nothing of the engine meanwhile, so that it can
    /// stop.
    pub(super) fn call(
        self: Arc<Self>,
        operation: String,
        body: Bytes,
    ) -> impl Future<Output = io::Result<EngineAnswer>> + use<> {
        let runtime = self.runtime.clone();
        let done = if may_write(&operation) {
            runtime.spawn(self.write(operation, body))
        } else {
            runtime.spawn_blocking(move || self.answer(&operation, &body))
        };
        async move { done.await.map_err(io::Error::other) }
    }

    async fn write(self: Arc<Self>, operation: String, body: Bytes) -> EngineAnswer {
        let writing = self.write_lock.request().await;
        let calls = Arc::clone(&self);
        let answer = blocking_on(&self.runtime, move || {
            let _writing = writing;
            calls.answer(&operation, &body)
        })
        .await;
        // The mappings need not wait for the disk.
        self.writes.send_replace(());
        // A refused write waits, too: it may be refused because an earlier one, which has no answer
        // yet, was made.
        self.disk.wait().await;
        answer
    }

    /// Deletes every expired item of every table with a TTL, and returns how many. A panic is an
    /// error too.
    pub(super) async fn sweep(&self) -> anyhow::Result<usize> {
        let database = self.database.clone();
        let sweeping = self.write_lock.sweep().await;
        let swept = self
            .runtime
            .spawn_blocking(move || {
                let _sweeping = sweeping;
                database.sweep_ttl()
            })
            .await;
        self.writes.send_replace(());
        Ok(swept??)
    }

    fn answer(&self, operation: &str, body: &Bytes) -> EngineAnswer {
        if operation == "DescribeTable" {
            return self.describe(body);
        }
        let answer = operations::answer(&self.database, operation, body);
        if changes_tables(operation) {
            self.descriptions.lock().clear();
        }
        answer
    }

    /// A kept description or a new one. Callers that ask meanwhile wait for it, and a change of a
    /// table forgets it.
    fn describe(&self, body: &Bytes) -> EngineAnswer {
        let mut descriptions = self.descriptions.lock();
        let began = Instant::now();
        if let Some((answer, _)) = descriptions.get(body).filter(|(_, until)| began < *until) {
            return answer.clone();
        }
        let answer = operations::answer(&self.database, "DescribeTable", body);
        if let Some(kept) = kept_for(&answer, began.elapsed()) {
            descriptions.insert(body.clone(), (answer.clone(), Instant::now() + kept));
        }
        answer
    }
}

/// How long a description is given again that took so long.
fn kept_for((status, _): &EngineAnswer, took: Duration) -> Option<Duration> {
    if *status == 200 && took >= KEPT_FROM {
        Some((took * KEPT_TIMES).min(KEPT_MAX))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(status: u16, ms: u64) -> Option<Duration> {
        kept_for(&(status, Vec::new()), Duration::from_millis(ms))
    }

    #[test]
    fn a_slow_description_is_given_again_for_a_hundred_times_as_long() {
        assert_eq!(kept(200, 5_000), Some(Duration::from_secs(500)));
        assert_eq!(kept(200, 3_600_000), Some(KEPT_MAX));
        assert_eq!(kept(200, 249), None);
        assert_eq!(kept(400, 5_000), None);
    }
}
