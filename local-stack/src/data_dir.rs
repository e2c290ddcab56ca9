//! The folder of a stack's data.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::file_lock::FileLock;

/// The prefix of temporary folders.
const TEMPORARY_PREFIX: &str = "pagemark-";
/// The engine's data file.
const DATA_FILE: &str = "dynamodb.sqlite";
/// Its lock marks the folder as used. The operating system frees it with the process, however the process ends.
const LOCK_FILE: &str = "pagemark.lock";
/// A stack that is just starting locks its folder within this time.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The folder of a stack's data. A temporary one is removed with this value.
///
/// **Invariant:** at most one process holds the value of a folder. So when a stack opens its folder, nothing of the
/// last stack still writes.
#[derive(Debug)]
pub(crate) struct DataDir {
    pub(crate) path: PathBuf,
    temporary: Option<TempDir>,
    _lock: FileLock,
}

impl DataDir {
    /// The given folder, or else a temporary one, in memory where a file system for that exists.
    pub(crate) fn open(given: Option<&Path>) -> anyhow::Result<Self> {
        let failed = |path: &Path| format!("the data folder {} cannot be used", path.display());
        if let Some(path) = given {
            std::fs::create_dir_all(path).with_context(|| failed(path))?;
            return Ok(Self { path: path.to_owned(), temporary: None, _lock: lock(path)? });
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY_PREFIX);
        let in_memory = Path::new("/dev/shm");
        let temporary = match builder.tempdir_in(in_memory) {
            Ok(temporary) => {
                remove_abandoned(in_memory);
                temporary
            }
            Err(_) => builder.tempdir().with_context(|| failed(&std::env::temp_dir()))?,
        };
        let (path, lock) = (temporary.path().to_owned(), lock(temporary.path())?);
        Ok(Self { path, temporary: Some(temporary), _lock: lock })
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// The engine's data file.
    pub(crate) fn data_file(&self) -> PathBuf {
        self.path.join(DATA_FILE)
    }
}

/// Takes the lock of a folder.
fn lock(folder: &Path) -> anyhow::Result<FileLock> {
    let path = folder.join(LOCK_FILE);
    match FileLock::take(&path) {
        Ok(lock) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            bail!("the data folder {} is used by another stack; stop that one first", folder.display())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("the lock file {} cannot be used", path.display()))
        }
    }
}

/// Removes temporary folders of stacks that were killed: memory would fill up with them. A folder of a stack that runs
/// has a locked lock file.
fn remove_abandoned(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        let old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > ABANDONED_AFTER));
        let Ok(lock) = File::open(path.join(LOCK_FILE)) else { continue };
        if ours && old && lock.try_lock().is_ok() {
            tracing::info!(path = %path.display(), "removing what a killed stack left behind");
            // Another stack may be removing it too.
            std::fs::remove_dir_all(&path).ok();
        }
    }
}
