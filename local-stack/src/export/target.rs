//! Where an export goes, and the folder beside it.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, BufWriter, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;
use tempfile::Builder;

use super::{ExportError, staging::Staging};
use crate::compression::Compression;

/// The size of one write.
const WRITE_BYTES: usize = 256 * 1024;

/// The folder beside a file has the file's name and this.
const PARTIAL: &str = ".partial";
/// In that folder: the comments that were read.
const STAGING_FILE: &str = "comments.sqlite";
/// In that folder: the lines, until all are written.
const LINES_FILE: &str = "lines";

/// Creates a folder that only this user can read, unless it exists.
fn create_dir(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// Where an export goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    place: Place,
    compression: Compression,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Replaced as a whole when everything is written.
    File(PathBuf),
    /// A pipe or a device, which cannot be replaced.
    Stream(PathBuf),
    Stdout,
}

impl Target {
    /// The standard output.
    pub fn stdout(compression: Compression) -> Self {
        Self { place: Place::Stdout, compression }
    }

    /// A file; an existing one is replaced. A pipe or a device is written to.
    ///
    /// # Errors
    /// The file system's.
    pub fn at(path: &Path, compression: Compression) -> io::Result<Self> {
        let place = match fs::metadata(path) {
            // Through a link: the file is replaced, and not the link.
            Ok(found) if found.is_file() => Place::File(path.canonicalize()?),
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) => Place::Stream(path.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Place::File(path.to_owned()),
            Err(error) => return Err(error),
        };
        Ok(Self { place, compression })
    }

    /// The folder beside a file. It keeps what was read until the export is complete.
    pub(super) fn partial(&self) -> PathBuf {
        match &self.place {
            Place::File(path) | Place::Stream(path) => {
                let mut name = path.clone().into_os_string();
                name.push(PARTIAL);
                name.into()
            }
            Place::Stdout => PathBuf::new(),
        }
    }

    /// Opens the comments that were read. For anything but a file there are none yet, and they end with the process.
    pub(super) fn open_staging(&self) -> Result<Staging, ExportError> {
        let Place::File(path) = &self.place else { return Ok(Staging::temporary()?) };
        let folder = self.partial();
        create_dir(&folder).map_err(|source| ExportError::Folder { folder: folder.clone(), source })?;
        Staging::open(&folder.join(STAGING_FILE)).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ExportError::InUse(path.clone()),
            Some(ErrorCode::NotADatabase) => ExportError::Foreign(folder),
            _ => error.into(),
        })
    }

    /// Writes the lines. A file gets them all at once, and keeps its permissions. Returns how many there were.
    pub(super) fn write(&self, staging: &Staging) -> Result<u64, ExportError> {
        let failed = |error| ExportError::Target(self.name(), error);
        match &self.place {
            Place::Stdout => self.write_to(io::stdout().lock(), staging).map_err(failed),
            Place::Stream(path) => {
                let stream = File::options().write(true).open(path).map_err(failed)?;
                self.write_to(stream, staging).map_err(failed)
            }
            Place::File(path) => self.write_file(path, &self.partial().join(LINES_FILE), staging).map_err(failed),
        }
    }

    /// Removes the folder beside a file.
    pub(super) fn remove_partial(&self) -> io::Result<()> {
        match self.place {
            Place::File(_) => fs::remove_dir_all(self.partial()),
            Place::Stream(_) | Place::Stdout => Ok(()),
        }
    }

    /// Writes lines that are in memory. A file gets them all at once, and keeps its permissions.
    pub(super) fn write_lines<'line>(&self, lines: impl Iterator<Item = &'line String>) -> io::Result<()> {
        let write = |to: &mut dyn Write| {
            for line in lines {
                to.write_all(line.as_bytes())?;
                to.write_all(b"\n")?;
            }
            Ok(())
        };
        let path = match &self.place {
            Place::Stdout => return self.compressed(io::stdout().lock(), write),
            Place::Stream(path) => return self.compressed(File::options().write(true).open(path)?, write),
            Place::File(path) => path,
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As of a new file: the process's mask takes away from these.
        let permissions = fs::Permissions::from_mode(0o666);
        let file = Builder::new().permissions(permissions).tempfile_in(folder)?;
        self.compressed(file.as_file(), write)?;
        if let Ok(replaced) = fs::metadata(path) {
            file.as_file().set_permissions(replaced.permissions())?;
        }
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }

    fn compressed(&self, to: impl Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let to = BufWriter::with_capacity(WRITE_BYTES, to);
        let (mut to, ()) = self.compression.write(to, |to| write(to))?;
        to.flush()
    }

    fn write_file(&self, path: &Path, lines: &Path, staging: &Staging) -> io::Result<u64> {
        let file = File::create(lines)?;
        let count = self.write_to(&file, staging)?;
        if let Ok(replaced) = fs::metadata(path) {
            file.set_permissions(replaced.permissions())?;
        }
        file.sync_all()?;
        fs::rename(lines, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(count)
    }

    fn write_to(&self, to: impl Write, staging: &Staging) -> io::Result<u64> {
        let to = BufWriter::with_capacity(WRITE_BYTES, to);
        let (mut to, count) = self.compression.write(to, |lines| staging.write_lines(lines))?;
        to.flush()?;
        Ok(count)
    }

    /// Whether the same export resumes after one that ended early.
    pub fn is_resumable(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// Its name, for a person.
    pub fn name(&self) -> String {
        match &self.place {
            Place::File(path) | Place::Stream(path) => path.display().to_string(),
            Place::Stdout => "the standard output".to_owned(),
        }
    }
}
