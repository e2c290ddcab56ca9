//! The rows that a command has imported so far. They show whether a row repeats an earlier one. In a
//! dry run, they are what an import would have stored.

use rusqlite::{Connection, OptionalExtension, params};

/// Rows by what they are stored under. They are in a temporary file of SQLite, of which at most
/// 16 MiB are in memory. It is removed when the process ends, however it ends.
pub struct EarlierRows {
    database: Connection,
    /// The names of the files, each of which rows name by its place.
    files: Vec<String>,
}

/// Some 200,000 rows. More are partly on disk.
const MEMORY_KIB: i32 = 16 << 10;

/// The last row of a key that was imported.
#[derive(Debug)]
pub(super) struct EarlierRow {
    /// Where it is: its line, and its file if that is another one.
    pub(super) place: String,
    /// In a dry run, what an import would have stored, as a line of an export. `None` where it
    /// would have left what the table has.
    pub(super) stored: Option<String>,
}

impl EarlierRows {
    pub fn new() -> rusqlite::Result<Self> {
        // SQLite's name for a temporary file.
        let database = Connection::open("")?;
        database.pragma_update(None, "journal_mode", "OFF")?;
        database.pragma_update(None, "cache_size", -MEMORY_KIB)?;
        database.execute_batch(
            "CREATE TABLE rows (kind TEXT, key TEXT, file INTEGER, line INTEGER, stored TEXT, \
             PRIMARY KEY (kind, key)) WITHOUT ROWID; BEGIN",
        )?;
        Ok(Self {
            database,
            files: Vec::new(),
        })
    }

    /// The rows that follow are of this file.
    pub(super) fn begin_file(&mut self, name: &str) {
        self.files.push(name.to_owned());
    }

    /// The earlier row of this kind that is stored under this key.
    pub(super) fn find(&self, kind: &str, key: &str) -> rusqlite::Result<Option<EarlierRow>> {
        let mut query = self
            .database
            .prepare_cached("SELECT file, line, stored FROM rows WHERE kind = ? AND key = ?")?;
        query
            .query_row(params![kind, key], |row| {
                Ok(EarlierRow {
                    place: self.place(row.get(0)?, row.get(1)?),
                    stored: row.get(2)?,
                })
            })
            .optional()
    }

    fn place(&self, file: usize, line: u64) -> String {
        match self.files.get(file) {
            Some(name) if file + 1 < self.files.len() => format!("line {line} of {name}"),
            _ => format!("line {line}"),
        }
    }

    pub(super) fn add(
        &self,
        kind: &str,
        key: &str,
        line: u64,
        stored: Option<&str>,
    ) -> rusqlite::Result<()> {
        let file = self.files.len().saturating_sub(1);
        // What an earlier row would have stored counts until another one changes it.
        let mut insert = self.database.prepare_cached(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET \
             file = excluded.file, line = excluded.line, stored = coalesce(excluded.stored, stored)",
        )?;
        insert.execute(params![kind, key, file, line, stored])?;
        Ok(())
    }
}
