//! The folder of a stack's data, and the lock that says who uses it.

use std::{
    fmt,
    fs::{self, File, TryLockError},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::file_lock::FileLock;

/// The prefix of temporary folders.
const TEMPORARY_PREFIX: &str = "pagemark-";
/// The engine's data file.
pub(crate) const DATA_FILE: &str = "dynamodb.sqlite";
/// Its lock marks the folder as used. The operating system frees it with the process, however the process ends. Its
/// content is a [`Holder`].
const LOCK_FILE: &str = "pagemark.lock";
/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The command whose stack other commands use.
const UP: &str = "up";
/// A stack that is just starting locks its folder within this time.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The process that uses a data folder, as the lock file names it. A process that ends in order erases it. So if nobody holds the lock, it
/// names a process that was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// The command, such as `up`.
    pub(crate) command: String,
    /// The process.
    pub(crate) process: u32,
    /// The version of `pagemark`.
    pub(crate) version: String,
    /// Where others reach its stack; `None` while the stack starts, and if it serves only its own process.
    pub(crate) entrance: Option<Entrance>,
}

/// Where other processes reach a running stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entrance {
    /// The endpoint of its engine.
    pub(crate) dynamodb_url: String,
    /// Whether it listens at the control socket of its folder.
    pub(crate) has_socket: bool,
}

impl Holder {
    /// This process.
    fn new(command: &str) -> Self {
        Self { command: command.to_owned(), process: std::process::id(), version: VERSION.to_owned(), entrance: None }
    }

    /// The process that holds a lock file. It may be just writing its name.
    fn read(lock_file: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(lock_file).ok()?).ok()
    }

    fn write(&self, lock: &FileLock) -> io::Result<()> {
        lock.write(&serde_json::to_vec(self)?)
    }

    /// Whether the process runs a stack for everybody. A command may run one for itself.
    pub(crate) fn is_stack(&self) -> bool {
        self.command == UP
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`pagemark {}` (process {})", self.command, self.process)
    }
}

/// A folder that is there, when a command wants to use it.
#[derive(Debug)]
pub(crate) enum Found<T> {
    /// It is free, and stays so while this value lives.
    Free(T),
    /// A process uses it; `None` if the lock file does not name the process.
    Used(Option<Holder>),
}

/// The folder of a stack's data. A temporary one is removed with this value.
///
/// **Invariant:** at most one process holds the value of a folder. So when a stack opens its folder, nothing of the
/// last stack still writes.
#[derive(Debug)]
pub(crate) struct DataDir {
    pub(crate) path: PathBuf,
    temporary: Option<TempDir>,
    lock: FileLock,
    holder: Holder,
}

impl DataDir {
    /// The given folder, or else a temporary one, in memory where a file system for that exists.
    pub(crate) fn open(given: Option<&Path>) -> anyhow::Result<Self> {
        let failed = |path: &Path| format!("the data folder {} cannot be used", path.display());
        if let Some(path) = given {
            fs::create_dir_all(path).with_context(|| failed(path))?;
            return Self::locked(path.to_owned(), None);
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
        Self::locked(temporary.path().to_owned(), Some(temporary))
    }

    fn locked(path: PathBuf, temporary: Option<TempDir>) -> anyhow::Result<Self> {
        match lock(&path, UP)? {
            Found::Free((lock, holder)) => Ok(Self { path, temporary, lock, holder }),
            Found::Used(holder) => {
                let who = holder.map(|holder| format!(", {holder}")).unwrap_or_default();
                let folder = path.display();
                bail!(
                    "the data folder {folder} is used by another stack or command{who}; stop that first, or wait for its end"
                )
            }
        }
    }

    /// The folder of a stack that ran before, for a command. Creates no folder.
    ///
    /// # Errors
    /// The path leads to no such folder, or this user may not use it: one line that says what to do.
    pub(crate) fn existing(path: &Path, command: &str) -> anyhow::Result<Found<Self>> {
        check_is_data_folder(path)?;
        Ok(match lock(path, command)? {
            Found::Free((lock, holder)) => {
                let found = Self { path: path.to_owned(), temporary: None, lock, holder };
                if !found.data_file().exists() {
                    bail!(
                        "{} holds no {DATA_FILE}; its comments are in the engine of `up --dynamodb-url`",
                        path.display()
                    );
                }
                Found::Free(found)
            }
            Found::Used(holder) => Found::Used(holder),
        })
    }

    /// Says where others reach the stack in this folder.
    pub(crate) fn announce(&mut self, entrance: Entrance) -> anyhow::Result<()> {
        self.holder.entrance = Some(entrance);
        self.holder.write(&self.lock).map_err(|error| unusable(&self.path.join(LOCK_FILE), error))
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// The engine's data file.
    pub(crate) fn data_file(&self) -> PathBuf {
        self.path.join(DATA_FILE)
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // If that fails, this process counts as killed, which is harmless.
        self.lock.write(&[]).ok();
    }
}

/// A folder that no stack uses while this value lives.
#[derive(Debug)]
pub(crate) struct Unused {
    /// The last process that used it, if that was killed.
    pub(crate) killed: Option<Holder>,
    /// Absent in a folder that was never locked.
    _lock: Option<FileLock>,
}

/// Keeps stacks away from a folder, and changes nothing in it. Several processes may look together.
///
/// # Errors
/// The path leads to no data folder, or this user may not read it: one line that says what to do.
pub(crate) fn lock_to_look(folder: &Path) -> anyhow::Result<Found<Unused>> {
    check_is_data_folder(folder)?;
    let path = folder.join(LOCK_FILE);
    match FileLock::share(&path) {
        Ok(lock) => Ok(Found::Free(Unused { killed: Holder::read(&path), _lock: Some(lock) })),
        Err(TryLockError::WouldBlock) => Ok(Found::Used(Holder::read(&path))),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::NotFound => {
            Ok(Found::Free(Unused { killed: None, _lock: None }))
        }
        Err(TryLockError::Error(error)) => Err(unusable(&path, error)),
    }
}

/// Refuses a path that is not a data folder. That of a stack on another engine has only a lock file.
fn check_is_data_folder(path: &Path) -> anyhow::Result<()> {
    let folder = path.display();
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("there is no data folder {folder}; name the one of `pagemark up --data-dir`")
        }
        found => found.map_err(|error| unusable(path, error))?,
    };
    let has = |name: &str| path.join(name).try_exists().map_err(|error| unusable(path, error));
    if !found.is_dir() || !(has(DATA_FILE)? || has(LOCK_FILE)?) {
        bail!("{folder} is no data folder: it holds no {DATA_FILE}; name the one of `pagemark up --data-dir`");
    }
    Ok(())
}

/// The error of a path that cannot be used.
fn unusable(path: &Path, error: io::Error) -> anyhow::Error {
    let is_denied = error.kind() == ErrorKind::PermissionDenied;
    let advice = if is_denied { "; run this as the user that owns the folder" } else { "" };
    anyhow::anyhow!("{} cannot be used: {error}{advice}", path.display())
}

/// Takes the lock of a folder for a command of this process.
fn lock(folder: &Path, command: &str) -> anyhow::Result<Found<(FileLock, Holder)>> {
    let path = folder.join(LOCK_FILE);
    let failed = |error| unusable(&path, error);
    match FileLock::take(&path) {
        Ok(lock) => {
            let holder = Holder::new(command);
            holder.write(&lock).map_err(failed)?;
            Ok(Found::Free((lock, holder)))
        }
        Err(TryLockError::WouldBlock) => Ok(Found::Used(Holder::read(&path))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Removes temporary folders of stacks that were killed: memory would fill up with them. A folder of a stack that runs
/// has a locked lock file.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
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
            fs::remove_dir_all(&path).ok();
        }
    }
}
