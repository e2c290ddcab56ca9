//! A quarantine in files.

use std::path::Path;

use super::Document;
use crate::error::{Store, StoreError};

/// Writes a file; a reader sees the whole of it or none.
pub(super) fn put(folder: &Path, document: &Document) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::Unavailable {
        store: Store::Quarantine,
        detail: format!("{}: {error}", folder.display()),
        source: Some(Box::new(error)),
    };
    let path = folder.join(&document.name);
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(StoreError::unavailable(Store::Quarantine, format!("{} is no file's path", path.display())));
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let partial = directory.join(format!(".{}.partial", name.to_string_lossy()));
    std::fs::write(&partial, &document.body).map_err(failed)?;
    std::fs::rename(&partial, &path).map_err(failed)
}
