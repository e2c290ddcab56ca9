//! A file of the rows that were not imported.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use serde_json::{Value, json};

/// The rows that were not imported. Each is a JSON object with `file`, `line`, `reason` and `row`, which is null where the
/// row could not be read. An import reads the corrected rows: `jq -c .row`.
#[derive(Debug, Clone)]
pub struct Rejects {
    /// The name of the file that is imported.
    of: String,
    file: Arc<File>,
}

impl Rejects {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// The file system's.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { of: String::new(), file: Arc::new(File::create(path)?) })
    }

    /// The same for the rows of one file.
    #[must_use]
    pub fn of_file(&self, name: &str) -> Self {
        Self { of: name.to_owned(), file: Arc::clone(&self.file) }
    }

    pub(super) fn write(&self, number: u64, reason: &str, text: &str) -> io::Result<()> {
        let row = match serde_json::from_str::<Value>(text) {
            Ok(row) => row,
            Err(_) if text.is_empty() => Value::Null,
            Err(_) => text.into(),
        };
        let line = json!({"file": self.of, "line": number, "reason": reason, "row": row});
        self.file.as_ref().write_all(format!("{line}\n").as_bytes())
    }
}
