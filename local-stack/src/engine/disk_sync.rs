//! When a write is on the disk.
//!
//! The engine commits each item separately, and SQLite would wait for the disk at each commit: 35
//! times for a comment with its duplicates (ADR 58). Here it does not wait at commits. Before a
//! write is answered, its call (`calls`) waits once, together with all other requests that wait
//! then. So an answered write survives a power failure, as it would with a wait at each commit.
//! SQLite's log has the order of the commits, so what survives is a state that the table had.
//!
//! If the disk does not confirm a write, the process ends. Linux reports such a failure once, and
//! does not say what the log lacks. The next start brings everything that is left to the disk
//! (`stream_table::prepare`).
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

use super::data_file::beside;
use crate::blocking::blocking;

/// Waits until the commits of a data file are on the disk.
#[derive(Debug)]
pub(super) struct DiskSync {
    /// SQLite's write-ahead log. When SQLite moves commits from it into the data file, it waits for
    /// the disk itself.
    path: PathBuf,
    /// Number of calls so far.
    calls: AtomicU64,
    state: Arc<Mutex<SyncState>>,
}

#[derive(Debug, Default)]
struct SyncState {
    /// Number of calls whose commits are on the disk.
    done: u64,
    /// The log, once it was needed. It stays the same file until the engine has closed the
    /// database. Linux reports a failed write to the files that were open then, so a file that is
    /// opened later would not know of it.
    log: Option<File>,
}

impl SyncState {
    fn sync(&mut self, path: &Path) -> io::Result<()> {
        let log = match self.log.take() {
            Some(log) => log,
            None => File::open(path)?,
        };
        self.log.insert(log).sync_data()
    }
}

impl DiskSync {
    /// For a data file that only this engine writes. From then on the engine does not wait for the
    /// disk at commits.
    pub(super) fn instead_of_each_commit(
        database: &Database,
        data_file: &Path,
    ) -> dynoxide::Result<Self> {
        // The engine's own way to `PRAGMA synchronous = NORMAL`. The other settings in it are
        // defaults.
        database.disable_bulk_loading()?;
        Ok(Self {
            path: beside(data_file, "-wal").into(),
            calls: AtomicU64::new(0),
            state: Arc::default(),
        })
    }

    /// Waits until everything committed before this call is on the disk. One wait serves all calls
    /// made before it begins. If the disk does not confirm it, this ends the process.
    pub(super) async fn wait(&self) {
        let this = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut state = self.state.clone().lock_owned().await;
        if state.done >= this {
            return;
        }
        let served = self.calls.load(Ordering::SeqCst);
        let path = self.path.clone();
        blocking(move || match state.sync(&path) {
            Ok(()) => state.done = served,
            Err(error) => end_process(&path, &error),
        })
        .await;
    }

    /// How many calls are over.
    #[cfg(test)]
    pub(super) async fn waited(&self) -> u64 {
        self.state.lock().await.done
    }
}

/// Ends the process. The database stays open: closing it would move commits into the data file that
/// the log may lack on the disk.
fn end_process(log: &Path, error: &io::Error) -> ! {
    let log = log.display();
    eprintln!(
        "pagemark: the disk did not confirm a write to {log} ({error}); check the disk, and start the stack again"
    );
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use std::{future::Future as _, task::Poll};

    use super::*;

    /// How many calls there were, and how many of them are over.
    async fn counts(disk: &DiskSync) -> (u64, u64) {
        (disk.calls.load(Ordering::SeqCst), disk.waited().await)
    }

    #[tokio::test]
    async fn one_wait_serves_those_asked_for_before_it_began_and_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let data_file = folder.path().join("data.db");
        // The log exists as long as the database is open.
        let database = Database::new(data_file.to_str().unwrap()).unwrap();
        let disk = DiskSync::instead_of_each_commit(&database, &data_file).unwrap();
        let busy = disk.state.lock().await;
        let mut waits: Vec<_> = (0..3).map(|_| Box::pin(disk.wait())).collect();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for wait in &mut waits {
            assert!(matches!(wait.as_mut().poll(&mut context), Poll::Pending));
        }
        drop(busy);
        futures_util::future::join_all(waits).await;
        assert_eq!(counts(&disk).await, (3, 3));
        disk.wait().await;
        assert_eq!(counts(&disk).await, (4, 4));
    }
}
