//! When a write is on the disk.
//!
//! The engine commits each item separately, and SQLite would wait for the disk at each commit: 35 times for a comment with
//! its duplicates (ADR 58). Instead, SQLite does not wait at commits, and the engine's proxy waits once before it answers a request,
//! together with all other requests that wait then. So an answered write survives a power failure, as it would with a wait
//! at each commit. SQLite's log is written in the order of the commits, so what survives is a state that the table had.
//!
//! Sources: <https://sqlite.org/pragma.html#pragma_synchronous>, <https://sqlite.org/wal.html>.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use dynoxide::Database;
use tokio::sync::Mutex;

use crate::blocking::blocking;

/// Waits until the commits of a data file are on the disk.
#[derive(Debug, Clone)]
pub(super) struct DiskSync(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// SQLite's write-ahead log. When SQLite moves commits from it into the data file, it waits for the disk itself.
    path: PathBuf,
    /// Number of calls so far.
    calls: AtomicU64,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of calls whose commits are on the disk.
    done: u64,
    /// The log, once it was needed. It stays the same file until the engine has closed the database. Linux reports a failed
    /// write to the files that were open then, so a file that is opened later would not know of it.
    log: Option<File>,
    /// Why the disk did not confirm an earlier write. What the log lacks since then is not known, so no later write is
    /// confirmed either.
    failure: Option<String>,
}

impl State {
    fn sync(&mut self, path: &Path) -> io::Result<()> {
        let log = match self.log.take() {
            Some(log) => log,
            None => File::open(path)?,
        };
        self.log.insert(log).sync_data()
    }
}

impl DiskSync {
    /// For a data file that only this engine writes. From then on the engine does not wait for the disk at commits.
    pub(super) fn instead_of_each_commit(database: &Database, data_file: &Path) -> dynoxide::Result<Self> {
        // The engine's own way to `PRAGMA synchronous = NORMAL`. The other settings in it are defaults.
        database.disable_bulk_loading()?;
        let mut path = data_file.as_os_str().to_owned();
        path.push("-wal");
        Ok(Self(Arc::new(Shared { path: path.into(), calls: AtomicU64::new(0), state: Arc::default() })))
    }

    /// Waits until everything committed before this call is on the disk. One wait serves all calls made before it begins.
    ///
    /// # Errors
    /// The file system's, now or at an earlier call. Then it is not known whether the commits would survive a power failure.
    pub(super) async fn wait(&self) -> io::Result<()> {
        let shared = &self.0;
        let this = shared.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut state = shared.state.clone().lock_owned().await;
        if let Some(failure) = &state.failure {
            return Err(io::Error::other(failure.clone()));
        }
        if state.done >= this {
            return Ok(());
        }
        let served = shared.calls.load(Ordering::SeqCst);
        let path = shared.path.clone();
        // The thread records the outcome, because its caller may be dropped: Linux reports a failure once.
        blocking(move || {
            let synced = state.sync(&path);
            match &synced {
                Ok(()) => state.done = served,
                Err(error) => {
                    let failure = format!("the disk did not confirm a write; start the stack again: {error}");
                    state.failure = Some(failure);
                }
            }
            synced
        })
        .await
    }

    /// How many calls are over.
    #[cfg(test)]
    pub(super) async fn waited(&self) -> u64 {
        self.0.state.lock().await.done
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future as _, task::Poll};

    use super::*;

    /// The log exists as long as the database is open.
    fn disk_sync(folder: &tempfile::TempDir, data_file: &str) -> (Database, DiskSync) {
        let database = Database::new(folder.path().join("data.db").to_str().unwrap()).unwrap();
        let disk = DiskSync::instead_of_each_commit(&database, &folder.path().join(data_file)).unwrap();
        (database, disk)
    }

    /// How many calls there were, and how many of them are over.
    async fn counts(disk: &DiskSync) -> (u64, u64) {
        (disk.0.calls.load(Ordering::SeqCst), disk.waited().await)
    }

    #[tokio::test]
    async fn one_wait_serves_those_asked_for_before_it_began_and_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let (_database, disk) = disk_sync(&folder, "data.db");
        let busy = disk.0.state.lock().await;
        let mut waits: Vec<_> = (0..3).map(|_| Box::pin(disk.wait())).collect();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for wait in &mut waits {
            assert!(matches!(wait.as_mut().poll(&mut context), Poll::Pending));
        }
        drop(busy);
        for wait in futures_util::future::join_all(waits).await {
            wait.unwrap();
        }
        assert_eq!(counts(&disk).await, (3, 3));
        disk.wait().await.unwrap();
        assert_eq!(counts(&disk).await, (4, 4));
    }

    #[tokio::test]
    async fn a_failure_is_remembered_although_its_caller_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (_database, disk) = disk_sync(&folder, "other.db");
        let mut wait = Box::pin(disk.wait());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        // It has asked a thread to open the missing log.
        assert!(wait.as_mut().poll(&mut context).is_pending());
        drop(wait);
        disk.wait().await.unwrap_err();
        assert!(disk.0.state.lock().await.failure.is_some());
    }

    #[tokio::test]
    async fn after_a_write_that_the_disk_does_not_confirm_no_other_is_confirmed() {
        let folder = tempfile::tempdir().unwrap();
        let (_database, disk) = disk_sync(&folder, "other.db");
        disk.wait().await.unwrap_err();
        // The log exists now, but what was written before is unknown.
        std::fs::write(folder.path().join("other.db-wal"), "").unwrap();
        disk.wait().await.unwrap_err();
        assert_eq!(counts(&disk).await, (2, 0));
    }
}
