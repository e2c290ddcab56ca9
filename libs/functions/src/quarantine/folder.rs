//! A quarantine in files.

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    path::Path,
    time::SystemTime,
};

use process::{Remedy, Store, StoreError};

use super::{Document, RETENTION};

/// The result of a call about a file; `None` when the file is not there.
fn if_there<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>, StoreError> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some).map_err(failed(path)),
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |error| {
        let detail = format!("{}: {error}", path.display());
        StoreError::of(
            Remedy::TryAgain,
            Store::Quarantine,
            detail,
            Some(Box::new(error)),
        )
    }
}

/// The names of the files below the folder, except files that are still being written.
pub(super) fn list(
    folder: &Path,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(below) = folders.pop() {
        // The folder does not exist before the first batch.
        let Some(entries) = if_there(&below, std::fs::read_dir(&below))? else {
            continue;
        };
        for entry in entries {
            let path = entry.map_err(failed(&below))?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_partial = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if !is_partial && let Ok(name) = path.strip_prefix(folder) {
                names.push(name.to_string_lossy().into_owned());
            }
        }
    }
    names.retain(|name| after.is_none_or(|after| name.as_str() > after));
    names.sort_unstable();
    names.truncate(limit);
    Ok(names)
}

pub(super) fn get(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let path = folder.join(name);
    if_there(&path, std::fs::read(&path))
}

pub(super) fn remove(folder: &Path, name: &str) -> Result<(), StoreError> {
    let path = folder.join(name);
    if_there(&path, std::fs::remove_file(&path)).map(drop)
}

/// Removes files written before `oldest`. A batch holds comment texts, which must not stay for
/// ever.
fn expire(folder: &Path, oldest: SystemTime) -> Result<(), StoreError> {
    for name in list(folder, None, usize::MAX)? {
        let path = folder.join(&name);
        // Another process may have just removed it.
        let written = if_there(
            &path,
            std::fs::metadata(&path).and_then(|metadata| metadata.modified()),
        )?;
        if written.is_some_and(|written| written < oldest) {
            remove(folder, &name)?;
        }
    }
    Ok(())
}

/// Writes a file atomically: a reader sees all of it or nothing. When this returns, the file
/// survives a power failure: its records then count as processed. Removes expired files.
pub(super) fn put(folder: &Path, document: &Document) -> Result<(), StoreError> {
    if let Some(oldest) = SystemTime::now().checked_sub(RETENTION) {
        expire(folder, oldest)?;
    }
    let path = folder.join(&document.name);
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(StoreError::unavailable(
            Store::Quarantine,
            format!("{} is no file's path", path.display()),
        ));
    };
    let partial = directory.join(format!(".{}.partial", name.to_string_lossy()));
    let parent_of_new = folder
        .parent()
        .filter(|above| !folder.exists() && !above.as_os_str().is_empty());
    std::fs::create_dir_all(directory).map_err(failed(folder))?;
    write_whole(&document.body, &partial, &path).map_err(failed(folder))?;
    // The names of the file, and of the folders that may be new.
    let within = directory
        .ancestors()
        .take_while(|above| above.starts_with(folder));
    for named_in in within.chain(parent_of_new) {
        sync_folder(named_in).map_err(failed(folder))?;
    }
    Ok(())
}

/// Writes a file under another name, and renames it when it is on the disk.
fn write_whole(body: &str, partial: &Path, path: &Path) -> io::Result<()> {
    let mut file = File::create(partial)?;
    file.write_all(body.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(partial, path)
}

/// Waits until the names in a folder are on the disk.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn batch(name: &str) -> Document {
        Document {
            name: name.to_owned(),
            body: "{}".to_owned(),
        }
    }

    fn set_age(path: &Path, age: Duration) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn a_batch_expires_and_a_younger_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["day/expired", "day/young"] {
            put(folder.path(), &batch(name)).unwrap();
        }
        let minute = Duration::from_secs(60);
        set_age(&folder.path().join("day/expired"), RETENTION + minute);
        set_age(&folder.path().join("day/young"), RETENTION - minute);
        put(folder.path(), &batch("day/new")).unwrap();
        assert_eq!(
            list(folder.path(), None, 10).unwrap(),
            ["day/new", "day/young"]
        );
    }

    #[test]
    fn a_batch_that_the_disk_does_not_confirm_is_not_in_quarantine() {
        let folder = tempfile::tempdir().unwrap();
        // A file that takes everything and keeps nothing.
        std::fs::create_dir(folder.path().join("day")).unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.path().join("day/.batch.partial")).unwrap();
        let refused = put(folder.path(), &batch("day/batch")).unwrap_err();
        assert!(refused.is_unavailable());
        assert_eq!(list(folder.path(), None, 10).unwrap(), Vec::<String>::new());
    }
}
