//! A lock that marks a file or a folder as used by this process.

use std::{
    fs::{File, Permissions, TryLockError},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

const PRIVATE: u32 = 0o600;

/// A locked file or folder. The operating system frees the lock with the process, however the
/// process ends.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl FileLock {
    /// Takes the lock of a file, which is created if it is missing. Only its owner may read it
    /// afterwards, because every user who may read it may lock it.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if another process, or another part of this one, holds the
    /// lock.
    pub(crate) fn take(path: &Path) -> Result<Self, TryLockError> {
        let mut options = File::options();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .mode(PRIVATE)
            .open(path)
            .map_err(TryLockError::Error)?;
        file.try_lock()?;
        // An earlier version may have made it. Some file systems have no modes.
        file.set_permissions(Permissions::from_mode(PRIVATE)).ok();
        Ok(Self(file))
    }

    /// Takes the lock of a file or folder that is there. Changes nothing in it.
    pub(crate) fn take_existing(path: &Path) -> Result<Self, TryLockError> {
        let file = File::open(path).map_err(TryLockError::Error)?;
        file.try_lock()?;
        Ok(Self(file))
    }
}

impl Drop for FileLock {
    /// Frees the lock explicitly. A program that this process is just starting holds a copy of the
    /// open file for a moment, so closing the file would not be enough.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "a lock stays until this process ends");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_lock_is_free_although_a_copy_of_the_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = FileLock::take(&path).unwrap();
        assert!(matches!(
            FileLock::take(&path),
            Err(TryLockError::WouldBlock)
        ));
        // As in a child process between `fork` and `exec`.
        let copy = lock.0.try_clone().unwrap();
        drop(lock);
        FileLock::take(&path).unwrap();
        drop(copy);
    }
}
