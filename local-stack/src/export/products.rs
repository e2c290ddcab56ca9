//! The export of products' records: the lines that an import reads, ordered by product.
//!
//! Each shard is read strongly consistent, after all comments. The lines are put into order in memory: a few hundred bytes
//! a product.

use std::{collections::BTreeMap, fs, io, os::unix::fs::PermissionsExt, path::Path};

use model::{ProductId, product::RECORD_SHARDS};
use table::{InvalidEntry, Table};
use tempfile::Builder;

use super::ExportError;
use crate::{compression::Compression, import::to_product_line};

/// The outcome of an export of records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportedProducts {
    /// Number of records written.
    pub records: usize,
    /// The items that are no records, and are left out.
    pub problems: Vec<String>,
}

/// Exports the records of these products, or of all if there are none, to a file. An existing file is replaced as a whole
/// when everything is read.
///
/// # Errors
/// The table's; the file cannot be written.
pub async fn export_products(
    table: &Table,
    products: &[ProductId],
    path: &Path,
    compression: Compression,
) -> Result<ExportedProducts, ExportError> {
    let (mut lines, mut problems) = (BTreeMap::new(), Vec::new());
    for shard in 0..RECORD_SHARDS {
        let mut from = None;
        loop {
            let part = table.records_part(shard, from).await?;
            for record in part.records {
                match record {
                    Ok(record) if products.is_empty() || products.contains(&record.product) => {
                        let line = to_product_line(record.clone()).map_err(ExportError::Line)?;
                        lines.insert(record.product, line);
                    }
                    Ok(_) => {}
                    Err(InvalidEntry { problem, .. }) => problems.push(problem.to_string()),
                }
            }
            from = part.next;
            if from.is_none() {
                break;
            }
        }
    }
    let written = write(path, compression, lines.values());
    written.map_err(|error| ExportError::Target(path.display().to_string(), error))?;
    Ok(ExportedProducts { records: lines.len(), problems })
}

fn write<'line>(path: &Path, compression: Compression, lines: impl Iterator<Item = &'line String>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As of a new file: the process's mask takes away from these.
    let permissions = fs::Permissions::from_mode(0o666);
    let file = Builder::new().permissions(permissions).tempfile_in(folder)?;
    let to = io::BufWriter::new(file);
    let (to, ()) = compression.write(to, |to| {
        for line in lines {
            to.write_all(line.as_bytes())?;
            to.write_all(b"\n")?;
        }
        Ok(())
    })?;
    let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
    if let Ok(replaced) = fs::metadata(path) {
        file.as_file().set_permissions(replaced.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
