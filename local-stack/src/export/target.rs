//! Where an export goes.

use std::{
    fs::{self, File, Permissions},
    io::{self, BufWriter, Write},
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::{blocking::blocking, compression::Compression};

pub struct ExportTarget {
    pub(crate) name: String,
    compression: Compression,
    destination: Destination,
}

enum Destination {
    /// Replaced as a whole when everything is written.
    File(PathBuf),
    /// A pipe or a device, which cannot be replaced.
    Stream(File),
}

impl Destination {
    fn at(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stream(
                io::stdout().as_fd().try_clone_to_owned()?.into(),
            ));
        }
        match fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                Ok(Self::Stream(File::options().write(true).open(path)?))
            }
            // Through a link: the file is replaced, and not the link.
            _ => Ok(Self::File(
                path.canonicalize()
                    .or_else(|_| in_its_folder(path))
                    .unwrap_or_else(|_| path.to_owned()),
            )),
        }
    }
}

impl ExportTarget {
    /// The standard output for `-`, or else a file.
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        let name = if path == Path::new("-") {
            "the standard output".to_owned()
        } else {
            path.display().to_string()
        };
        let destination =
            Destination::at(path).with_context(|| format!("{name} cannot be written"))?;
        Ok(Self {
            name,
            compression: Compression::of_name(path),
            destination,
        })
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        match (&self.destination, &other.destination) {
            (Destination::File(one), Destination::File(other)) => one == other,
            _ => self.name == other.name,
        }
    }

    /// A file without a name, which ends with the process: beside the target, if that is a file.
    pub(super) fn stage(&self) -> anyhow::Result<File> {
        let Destination::File(path) = &self.destination else {
            return Ok(tempfile::tempfile()?);
        };
        let file = tempfile::tempfile_in(folder_of(path));
        file.with_context(|| format!("the folder {} cannot be used", folder_of(path).display()))
    }

    /// Writes the lines. A file gets them all at once, and keeps its permissions. A new
    /// one is for its owner alone.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        self.try_to_write(write)
            .await
            .with_context(|| format!("{} cannot be written", self.name))
    }

    async fn try_to_write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (to, replacing) = match &self.destination {
            Destination::Stream(stream) => (stream.try_clone()?, None),
            Destination::File(path) => {
                // It has authors' ids, and comments that readers do not see.
                let permissions = Permissions::from_mode(0o600);
                let file = tempfile::Builder::new()
                    .permissions(permissions)
                    .tempfile_in(folder_of(path))?;
                if let Ok(replaced) = fs::metadata(path) {
                    file.as_file().set_permissions(replaced.permissions())?;
                }
                (file.as_file().try_clone()?, Some((file, path)))
            }
        };
        let compression = self.compression;
        let written = blocking(move || {
            let to = BufWriter::with_capacity(256 * 1024, to);
            let (mut to, written) = compression.write(to, write)?;
            to.flush()?;
            io::Result::Ok(written)
        })
        .await?;
        if let Some((file, path)) = replacing {
            file.as_file().sync_all()?;
            file.persist(path)?;
        }
        Ok(written)
    }
}

/// A file that is not there yet, by the one name of its folder.
fn in_its_folder(path: &Path) -> io::Result<PathBuf> {
    Ok(folder_of(path)
        .canonicalize()?
        .join(path.file_name().unwrap_or_default()))
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
