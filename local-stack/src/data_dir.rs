//! The folder of a stack's data, and the lock that says who uses it.

use std::{
    fs::{self, DirBuilder, Permissions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use derive_more::Display;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{
    cursor_key::CURSOR_KEY,
    file_lock::FileLock,
    index_host::{REDIS_RECORD, SNAPSHOT},
};

const TEMPORARY_PREFIX: &str = "pagemark-";
pub(crate) const DATA_FILE: &str = "dynamodb.sqlite";
/// Its content is a [`Holder`]. What is locked is the folder: nobody can remove it without the
/// files in it.
const LOCK_FILE: &str = "pagemark.lock";
/// Marks a temporary folder. Other folders are never removed.
const TEMPORARY_MARKER: &str = "pagemark.temporary";
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
const UP: &str = "up";
/// A stack that is just starting locks its folder within this time.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The process that uses a data folder, as the lock file names it. A process that ends in order
/// erases its name. So a name in an unlocked folder is that of a killed process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Display)]
#[display("`pagemark {command}` (process {process})")]
pub(crate) struct Holder {
    /// Such as `up`.
    pub(crate) command: String,
    pub(crate) process: u32,
    pub(crate) version: String,
    /// Where others reach its stack; `None` while the stack starts, and if it serves only its own
    /// process.
    pub(crate) entrance: Option<Entrance>,
}

/// Where other processes reach the table of a running stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entrance {
    /// The URL of another engine. The embedded one answers at the control socket.
    pub(crate) other_engine: Option<String>,
}

impl Holder {
    fn new(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            process: std::process::id(),
            version: VERSION.to_owned(),
            entrance: None,
        }
    }

    fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(LOCK_FILE)).ok()?).ok()
    }

    fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(LOCK_FILE);
        fs::write(&path, serde_json::to_vec(self)?).map_err(|error| unusable(&path, error))
    }
}

/// A folder that is there, when a process wants to use it.
#[derive(Debug)]
pub(crate) enum Occupancy {
    /// The folder is free, and stays so while this value lives.
    Free(DataDir),
    /// A process uses it; `None` if the lock file does not name the process.
    Used(Option<Holder>),
}

/// The folder of a stack's data. A temporary one is removed with this value.
///
/// **Invariant:** at most one process holds the value of a folder. So when a stack opens its
/// folder, nothing of the last stack still writes.
#[derive(Debug)]
pub(crate) struct DataDir {
    pub(crate) path: PathBuf,
    temporary: Option<TempDir>,
    holder: Holder,
    _lock: FileLock,
}

impl DataDir {
    /// The given folder, or else a temporary one.
    pub(crate) fn open(given: Option<&Path>) -> anyhow::Result<Self> {
        match given {
            Some(path) => Self::open_given(path),
            None => Self::open_temporary(),
        }
    }

    fn open_given(path: &Path) -> anyhow::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| cannot_be_used(path))?;
        check_is_usable(path)?;
        let kept = Self::locked(path.to_owned(), None)?;
        // It may be what a killed stack left behind. A user who names a folder wants to keep it.
        fs::remove_file(path.join(TEMPORARY_MARKER)).ok();
        Ok(kept)
    }

    /// A temporary folder, in memory where a file system for that exists.
    fn open_temporary() -> anyhow::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY_PREFIX);
        let in_memory = Path::new("/dev/shm");
        let temporary = match builder.tempdir_in(in_memory) {
            Ok(temporary) => {
                remove_abandoned(in_memory);
                temporary
            }
            Err(_) => builder
                .tempdir()
                .with_context(|| cannot_be_used(&std::env::temp_dir()))?,
        };
        let path = temporary.path().to_owned();
        let locked = Self::locked(path.clone(), Some(temporary))?;
        fs::write(path.join(TEMPORARY_MARKER), []).with_context(|| cannot_be_used(&path))?;
        Ok(locked)
    }

    /// Refuses a folder of version 0.2.0 whose pages were counted from the newest comment.
    pub(crate) fn refuse_other_numbers(&self) -> anyhow::Result<()> {
        let record = self.path.join("page-numbers");
        let is_other = fs::read_to_string(&record).is_ok_and(|text| text.trim() == "newest-first");
        ensure!(
            !is_other,
            "the pages of {} are numbered newest-first. This version counts from the oldest comment, so every known address \
             would show other comments. Remove {} to accept that, or export the site and import it elsewhere",
            self.path.display(),
            record.display()
        );
        Ok(())
    }

    /// Refuses a folder that has lost its database. An empty one would take its place, and the next
    /// snapshot would replace that of its page index.
    pub(crate) fn refuse_lost_database(&self) -> anyhow::Result<()> {
        let is_there = fs::metadata(self.data_file()).is_ok_and(|found| found.len() > 0);
        if is_there {
            return Ok(());
        }
        let of_earlier_stack = [SNAPSHOT, REDIS_RECORD, CURSOR_KEY, "dynamodb.sqlite-wal"];
        let remaining = of_earlier_stack
            .into_iter()
            .find(|name| self.path.join(name).exists());
        if let Some(remaining) = remaining {
            bail!(
                "{} has {remaining} of an earlier stack, but its {DATA_FILE} is missing or empty: restore the folder from a backup. \
                 `up --new` starts an empty site there; the comments of `up --dynamodb-url` are in that engine",
                self.path.display()
            );
        }
        Ok(())
    }

    fn locked(path: PathBuf, temporary: Option<TempDir>) -> anyhow::Result<Self> {
        match lock(&path, UP)? {
            Occupancy::Free(mut locked) => {
                // For what the stack makes from now on. Commands also make files elsewhere, so they
                // keep their user's umask.
                rustix::process::umask(Mode::RWXG | Mode::RWXO);
                make_private(&path);
                locked.temporary = temporary;
                Ok(locked)
            }
            Occupancy::Used(holder) => {
                let who = holder
                    .map(|holder| format!(", {holder}"))
                    .unwrap_or_default();
                let folder = path.display();
                bail!(
                    "the data folder {folder} is used by another stack or command{who}; stop that first, or wait for its end"
                )
            }
        }
    }

    /// The folder of a stack that ran before, for a command. Creates no folder.
    pub(crate) fn existing(path: &Path, command: &str) -> anyhow::Result<Occupancy> {
        check_is_data_folder(path)?;
        check_is_usable(path)?;
        let found = lock(path, command)?;
        if let Occupancy::Free(free) = &found {
            if !free.data_file().exists() {
                bail!(
                    "{} holds no {DATA_FILE}; its comments are in the engine of `up --dynamodb-url`",
                    path.display()
                );
            }
            make_private(path);
        }
        Ok(found)
    }

    /// Says where others reach the stack in this folder.
    pub(crate) fn announce(&mut self, entrance: Entrance) -> anyhow::Result<()> {
        self.holder.entrance = Some(entrance);
        self.holder.write(&self.path)
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    pub(crate) fn data_file(&self) -> PathBuf {
        self.path.join(DATA_FILE)
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // A command may have saved the page index.
        make_private(&self.path);
        // If that fails, this process counts as killed, which is harmless.
        fs::write(self.path.join(LOCK_FILE), []).ok();
    }
}

/// Refuses a path that is not a data folder. That of a stack on another engine has only a lock
/// file.
fn check_is_data_folder(path: &Path) -> anyhow::Result<()> {
    let folder = path.display();
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("there is no data folder {folder}; name the one of `pagemark up --data-dir`")
        }
        found => found.map_err(|error| unusable(path, error))?,
    };
    if !found.is_dir() || !(has(path, DATA_FILE)? || has(path, LOCK_FILE)?) {
        bail!(
            "{folder} is no data folder: it holds no {DATA_FILE}; name the one of `pagemark up --data-dir`"
        );
    }
    Ok(())
}

fn has(folder: &Path, name: &str) -> anyhow::Result<bool> {
    let exists = folder.join(name).try_exists();
    exists.map_err(|error| unusable(folder, error))
}

/// Refuses a folder in which this process would do harm.
fn check_is_usable(folder: &Path) -> anyhow::Result<()> {
    let data_file = folder.join(DATA_FILE);
    // SQLite would keep its log where the file is, but the lock would be here.
    if data_file.is_symlink() {
        bail!(
            "{} is a symbolic link; name the folder of the file itself (--data-dir)",
            data_file.display()
        );
    }
    check_owner(folder, rustix::process::geteuid().as_raw())
}

/// Refuses a user who does not own the data: files that this user makes would lock the owner out.
fn check_owner(folder: &Path, user: u32) -> anyhow::Result<()> {
    let mut owner = [DATA_FILE, LOCK_FILE]
        .into_iter()
        .find_map(|name| owner_of(&folder.join(name)));
    // An empty folder of another user is fine if this user may write there. Root may write
    // everywhere.
    if owner.is_none() && user == 0 {
        owner = owner_of(folder);
    }
    if let Some(owner) = owner
        && owner != user
    {
        bail!(
            "{} belongs to user {owner}, and this is user {user}; run this as user {owner}",
            folder.display()
        );
    }
    Ok(())
}

fn owner_of(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|found| found.uid())
}

/// Keeps other users from the data, also in a folder that they may enter.
fn make_private(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_data = [DATA_FILE, SNAPSHOT, LOCK_FILE, CURSOR_KEY, REDIS_RECORD]
            .iter()
            .any(|data| name.to_string_lossy().starts_with(data));
        if is_data && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            // Some file systems have no modes.
            fs::set_permissions(entry.path(), Permissions::from_mode(0o600)).ok();
        }
    }
}

fn cannot_be_used(folder: &Path) -> String {
    format!("the data folder {} cannot be used", folder.display())
}

fn unusable(path: &Path, error: io::Error) -> anyhow::Error {
    let is_denied = error.kind() == ErrorKind::PermissionDenied;
    let advice = if is_denied {
        "; run this as the user that owns the folder"
    } else {
        ""
    };
    anyhow::anyhow!("{} cannot be used: {error}{advice}", path.display())
}

fn lock(folder: &Path, command: &str) -> anyhow::Result<Occupancy> {
    match FileLock::take_existing(folder) {
        Ok(lock) => {
            let holder = Holder::new(command);
            holder.write(folder)?;
            Ok(Occupancy::Free(DataDir {
                path: folder.to_owned(),
                temporary: None,
                holder,
                _lock: lock,
            }))
        }
        Err(TryLockError::WouldBlock) => Ok(Occupancy::Used(Holder::read(folder))),
        Err(TryLockError::Error(error)) => Err(unusable(folder, error)),
    }
}

/// Removes temporary folders of stacks that were killed: memory would fill up with them. A folder
/// of a stack that runs is locked; version 0.2.0 locks the file in it. A person's own folder has no
/// marker.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = entry
            .file_name()
            .to_string_lossy()
            .starts_with(TEMPORARY_PREFIX)
            && path.join(TEMPORARY_MARKER).exists()
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        let old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > ABANDONED_AFTER));
        if ours && old && is_free(&path) && is_free(&path.join(LOCK_FILE)) {
            tracing::info!(path = %path.display(), "removing what a killed stack left behind");
            // Another stack may be removing it too.
            fs::remove_dir_all(&path).ok();
        }
    }
}

fn is_free(locked: &Path) -> bool {
    FileLock::take_existing(locked).is_ok()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, time::SystemTime};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_whose_pages_have_other_numbers_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(Some(folder.path())).unwrap();
        for (record, is_refused) in [("stable\n", false), ("newest-first\n", true)] {
            fs::write(folder.path().join("page-numbers"), record).unwrap();
            let refused = data_dir
                .refuse_other_numbers()
                .map_err(|error| error.to_string());
            assert_eq!(
                refused.is_err_and(|line| !line.contains('\n') && line.contains("export")),
                is_refused
            );
        }
    }

    #[test]
    fn only_a_folder_that_this_program_marked_as_temporary_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path();
        let folders = [
            "pagemark-abandoned",
            "pagemark-mine",
            "pagemark-used",
            "pagemark-0.2.0-used",
            "other-abandoned",
        ];
        for name in folders {
            fs::create_dir(parent.join(name)).unwrap();
            fs::write(parent.join(name).join(LOCK_FILE), "").unwrap();
            if name != "pagemark-mine" {
                fs::write(parent.join(name).join(TEMPORARY_MARKER), "").unwrap();
            }
            let long_ago = SystemTime::now() - 2 * ABANDONED_AFTER;
            File::open(parent.join(name))
                .unwrap()
                .set_modified(long_ago)
                .unwrap();
        }
        let used = [
            parent.join("pagemark-used"),
            parent.join("pagemark-0.2.0-used").join(LOCK_FILE),
        ];
        let used = used.map(|locked| FileLock::take_existing(&locked).unwrap());
        remove_abandoned(parent);
        assert_eq!(
            folders.map(|name| parent.join(name).exists()),
            [false, true, true, true, true]
        );
        drop(used);
    }

    #[test]
    fn a_temporary_folder_that_a_person_names_is_kept_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join(TEMPORARY_MARKER);
        fs::write(&marker, "").unwrap();
        DataDir::open(Some(folder.path())).unwrap();
        assert!(!marker.exists());
        let temporary = DataDir::open(None).unwrap();
        assert!(temporary.is_temporary() && temporary.path.join(TEMPORARY_MARKER).exists());
    }

    #[test]
    fn a_new_folder_and_its_lock_are_private() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("data");
        drop(DataDir::open(Some(&folder)).unwrap());
        let lock = folder.join(LOCK_FILE);
        assert_eq!((mode(&folder), mode(&lock)), (0o700, 0o600));
        // As an earlier version made them, in a folder that others may enter.
        let files = [
            LOCK_FILE,
            DATA_FILE,
            "dynamodb.sqlite-wal",
            SNAPSHOT,
            CURSOR_KEY,
            REDIS_RECORD,
        ];
        let files = files.map(|name| folder.join(name));
        for file in &files {
            fs::write(file, "").unwrap();
            fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        drop(DataDir::open(Some(&folder)).unwrap());
        assert_eq!(files.map(|file| mode(&file)), [0o600; 6]);
        let made = folder.join("made");
        fs::write(&made, "").unwrap();
        assert_eq!(mode(&made), 0o600);
    }

    #[test]
    fn only_the_owner_of_the_data_may_use_it() {
        let folder = tempfile::tempdir().unwrap();
        let owner = fs::metadata(folder.path()).unwrap().uid();
        let root = 0;
        let other = owner + 1;
        check_owner(folder.path(), owner).unwrap();
        // An empty folder that others may write to.
        check_owner(folder.path(), other).unwrap();
        assert_eq!(check_owner(folder.path(), root).is_ok(), owner == root);
        for file in [LOCK_FILE, DATA_FILE] {
            fs::write(folder.path().join(file), "").unwrap();
            check_owner(folder.path(), owner).unwrap();
            let error = check_owner(folder.path(), other).unwrap_err().to_string();
            assert!(
                error.ends_with(&format!("run this as user {owner}")),
                "{error}"
            );
        }
    }
}
