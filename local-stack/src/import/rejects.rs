//! A file of the lines that were not imported.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};

/// The lines that were not imported, each as a JSON object with `line`, `reason` and, where it could be read, `row`. An
/// import reads the corrected rows: `jq -c .row`.
#[derive(Debug, Clone)]
pub struct Rejects {
    file: Arc<Mutex<BufWriter<File>>>,
}

impl Rejects {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// The file system's.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Arc::new(Mutex::new(BufWriter::new(File::create(path)?))) })
    }

    /// Writes a line with its number and its text.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn write(&self, number: u64, reason: &str, text: &str) -> io::Result<()> {
        let row = match serde_json::from_str::<Value>(text) {
            Ok(row) => row,
            Err(_) if text.is_empty() => Value::Null,
            Err(_) => text.into(),
        };
        let line = json!({"line": number, "reason": reason, "row": row});
        writeln!(self.file.lock().unwrap_or_else(PoisonError::into_inner), "{line}")
    }

    /// Writes what is still in memory.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}
