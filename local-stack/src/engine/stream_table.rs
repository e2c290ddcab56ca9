//! The engine's table of stream records, reached by a connection of our own beside the engine's.
//!
//! The engine (`dynoxide`) keeps the stream records of all tables in one SQLite table without any index, and looks for
//! the greatest sequence number on every write. This module adds the indexes that make that cheap, checks at start-up
//! that they serve the engine's own queries, and deletes old records.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use super::error::EngineError;

/// The version of the engine that everything here was checked against; `Cargo.toml` pins it.
pub(super) const ENGINE_VERSION: &str = "3.2.0";

/// Records deleted under one hold of the file's write lock: about as many as the engine writes in one large batch, so
/// that a trim holds up a writer no longer than another writer would.
pub(super) const TRIM_CHUNK_RECORDS: u64 = 500;

/// How long to wait for the engine's writes. Its longest transaction, filling a new index of a large table, takes seconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// The engine shows a stored number plus this, so that its numbers have 21 digits as DynamoDB's have.
const SEQUENCE_NUMBER_OFFSET: u128 = 100_000_000_000_000_000_000;

/// The columns of `_stream_records`, in their order.
const COLUMNS: [&str; 11] = [
    "id INTEGER",
    "table_name TEXT",
    "event_name TEXT",
    "keys_json TEXT",
    "new_image TEXT",
    "old_image TEXT",
    "sequence_number TEXT",
    "shard_id TEXT",
    "created_at INTEGER",
    "user_identity TEXT",
    "event_id TEXT",
];

const CREATE_INDEXES: &str = "
    CREATE INDEX IF NOT EXISTS pagemark_stream_by_table
        ON _stream_records (table_name, CAST(sequence_number AS INTEGER));
    CREATE INDEX IF NOT EXISTS pagemark_stream_by_shard
        ON _stream_records (table_name, shard_id, CAST(sequence_number AS INTEGER));";

/// The engine's own two hot queries, and the index that must serve each: the number of the next record, with every
/// write; the records after a position, with every `GetRecords`.
pub(super) const ENGINE_QUERIES: [(&str, &str); 2] = [
    (
        "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = ?1",
        "pagemark_stream_by_table",
    ),
    (
        "SELECT event_name, keys_json, new_image, old_image, sequence_number, created_at, user_identity, event_id
         FROM _stream_records
         WHERE table_name = ?1 AND shard_id = ?2 AND CAST(sequence_number AS INTEGER) > ?3
         ORDER BY CAST(sequence_number AS INTEGER) ASC LIMIT ?4",
        "pagemark_stream_by_shard",
    ),
];

/// The second connection to the data file.
pub(super) struct StreamTable {
    connection: Mutex<Connection>,
}

impl StreamTable {
    /// Opens the second connection to a file that the engine has opened, makes the indexes and checks that they are used.
    pub(super) fn open(data_file: &Path) -> Result<StreamTable, EngineError> {
        let connection = connect(data_file)
            .map_err(|source| EngineError::Open { path: data_file.to_owned(), source: source.into() })?;
        check_columns(&connection)?;
        connection.execute_batch(CREATE_INDEXES).map_err(EngineError::StreamRecords)?;
        for (query, index) in ENGINE_QUERIES {
            let plan = query_plan(&connection, query).map_err(EngineError::StreamRecords)?;
            // A search by the index in the order wanted: neither a scan nor a sort.
            if !plan.contains(&format!("INDEX {index} (")) || plan.contains("TEMP B-TREE") {
                return Err(EngineError::UnexpectedSchema { difference: format!("{index} is not used: {plan}") });
            }
        }
        Ok(StreamTable { connection: Mutex::new(connection) })
    }

    /// Deletes the oldest records of a table up to a stored sequence number, at most [`TRIM_CHUNK_RECORDS`] and never the
    /// newest record: the engine counts on from that one, and without it could give numbers out again when the clock was
    /// set back. Returns how many; fewer than a chunk means that it is done.
    pub(super) fn trim_chunk(&self, table_name: &str, up_to: i64) -> Result<u64, EngineError> {
        let deleted = self
            .connection()
            .prepare_cached(
                "DELETE FROM _stream_records WHERE id IN (
                    SELECT id FROM _stream_records
                    WHERE table_name = ?1
                        AND CAST(sequence_number AS INTEGER) <= ?2
                        AND CAST(sequence_number AS INTEGER) <
                            (SELECT MAX(CAST(sequence_number AS INTEGER)) FROM _stream_records WHERE table_name = ?1)
                    ORDER BY CAST(sequence_number AS INTEGER)
                    LIMIT ?3)",
            )
            .and_then(|mut statement| statement.execute(params![table_name, up_to, TRIM_CHUNK_RECORDS]))
            .map_err(EngineError::StreamRecords)?;
        Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
    }

    /// How many records of a table come after a stored sequence number.
    pub(super) fn count_after(&self, table_name: &str, after: i64) -> Result<u64, EngineError> {
        self.connection()
            .prepare_cached(
                "SELECT COUNT(*) FROM _stream_records WHERE table_name = ?1 AND CAST(sequence_number AS INTEGER) > ?2",
            )
            .and_then(|mut statement| statement.query_one(params![table_name, after], |row| row.get(0)))
            .map_err(EngineError::StreamRecords)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // Every statement is a transaction of its own, so a panic elsewhere leaves nothing half-done in here.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stored form of a sequence number as `GetRecords` shows it.
pub(super) fn parse_sequence_number(shown: &str) -> Result<i64, EngineError> {
    let stored = shown
        .parse::<u128>()
        .ok()
        .and_then(|number| number.checked_sub(SEQUENCE_NUMBER_OFFSET))
        .and_then(|number| i64::try_from(number).ok());
    stored.ok_or_else(|| EngineError::SequenceNumber { value: shown.to_owned() })
}

/// Refuses a file that is not empty and not the engine's, before the engine creates its tables in it.
pub(super) fn refuse_foreign_file(data_file: &Path) -> Result<(), EngineError> {
    let open_failed = |source| EngineError::Open { path: data_file.to_owned(), source };
    match std::fs::metadata(data_file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(open_failed(error.into())),
        Ok(found) if found.is_dir() => return Err(EngineError::ForeignFile { path: data_file.to_owned() }),
        Ok(_) => {}
    }
    match table_names(data_file) {
        Ok(names) if names.is_empty() || names.iter().any(|name| name == "_stream_records") => Ok(()),
        Ok(_) => Err(EngineError::ForeignFile { path: data_file.to_owned() }),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Err(EngineError::ForeignFile { path: data_file.to_owned() })
        }
        Err(error) => Err(open_failed(error.into())),
    }
}

fn table_names(data_file: &Path) -> rusqlite::Result<Vec<String>> {
    connect(data_file)?
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?
        .query_map([], |row| row.get(0))?
        .collect()
}

fn connect(data_file: &Path) -> rusqlite::Result<Connection> {
    // Never creates the file. Not read-only either: after a crash, reading needs to recover the write-ahead log first.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(data_file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A trim lost with the machine's power is done again by the next one; it need not wait for the disk.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

fn check_columns(connection: &Connection) -> Result<(), EngineError> {
    let found: Vec<String> = connection
        .prepare("SELECT name || ' ' || type FROM pragma_table_info('_stream_records') ORDER BY cid")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(EngineError::StreamRecords)?;
    if found == COLUMNS {
        return Ok(());
    }
    Err(EngineError::UnexpectedSchema { difference: format!("_stream_records has the columns {}", found.join(", ")) })
}

pub(super) fn query_plan(connection: &Connection, query: &str) -> rusqlite::Result<String> {
    // Planning does not look at the values, so the parameters stay unbound.
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}"))?;
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        steps.push(row.get::<_, String>("detail")?);
    }
    Ok(steps.join("; "))
}
