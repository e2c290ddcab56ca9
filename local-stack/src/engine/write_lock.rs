//! Keeps two connections from writing to a data file at the same instant.
//!
//! SQLite before 3.51.3 can corrupt a file in write-ahead mode when two connections write or
//! checkpoint at the same instant (<https://sqlite.org/wal.html#walresetbug>). The engine links an
//! older SQLite. Its own connection serves requests and sweeps, one after another. The stack's
//! second connection (`stream_table`) trims, frees pages and checkpoints.
//!
//! | who | meanwhile waits |
//! | --- | --- |
//! | a request that may write | the second connection |
//! | a sweep for expired items, which lets requests through between its pages | the second connection |
//! | the second connection | requests that may write, and sweeps |
//!
//! The locked value is the lock file. So another process cannot open the data file for writing
//! while a sweep or the second connection is at work, even if the engine has stopped waiting for
//! it.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedRwLockReadGuard, RwLock};

use crate::file_lock::FileLock;

#[derive(Debug, Clone)]
pub(super) struct WriteLock {
    file: Arc<RwLock<FileLock>>,
    /// Held by what takes long. Waiting for it does not hold up requests, as a waiting writer of
    /// `file` would.
    upkeep: Arc<Mutex<()>>,
}

impl WriteLock {
    pub(super) fn new(file: FileLock) -> Self {
        Self {
            file: Arc::new(RwLock::new(file)),
            upkeep: Arc::default(),
        }
    }

    pub(super) async fn request(&self) -> OwnedRwLockReadGuard<FileLock> {
        Arc::clone(&self.file).read_owned().await
    }

    /// While the value lives, a sweep is under way.
    pub(super) async fn sweep(&self) -> impl Send + 'static {
        (
            Arc::clone(&self.upkeep).lock_owned().await,
            Arc::clone(&self.file),
        )
    }

    /// While the value lives, only the second connection may write.
    pub(super) async fn second_connection(&self) -> impl Send + 'static {
        let upkeep = Arc::clone(&self.upkeep).lock_owned().await;
        (Arc::clone(&self.file).write_owned().await, upkeep)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Whether a request, a sweep and the second connection may begin now.
    fn may_begin(lock: &WriteLock) -> [bool; 3] {
        let request = lock.request().now_or_never().is_some();
        let sweep = lock.sweep().now_or_never().is_some();
        let second = lock.second_connection().now_or_never().is_some();
        [request, sweep, second]
    }

    #[tokio::test]
    async fn the_second_connection_is_alone_and_requests_pass_a_sweep() {
        let folder = tempfile::tempdir().unwrap();
        let lock = WriteLock::new(FileLock::take(&folder.path().join("lock")).unwrap());
        assert_eq!(may_begin(&lock), [true, true, true]);
        let request = lock.request().await;
        assert_eq!(may_begin(&lock), [true, true, false], "during a request");
        drop(request);
        let sweep = lock.sweep().await;
        let waiting = lock.second_connection();
        tokio::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(
            may_begin(&lock),
            [true, false, false],
            "during a sweep, while the second connection waits"
        );
        drop(sweep);
        let second = waiting.await;
        assert_eq!(
            may_begin(&lock),
            [false, false, false],
            "while the second connection writes"
        );
        drop(second);
        assert_eq!(may_begin(&lock), [true, true, true]);
    }
}
