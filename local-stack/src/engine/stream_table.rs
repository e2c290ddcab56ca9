//! The engine's table of stream records, accessed by a second connection beside the engine's.
//!
//! The engine (`dynoxide`) keeps the stream records of all tables in one SQLite table without any index, and searches
//! for the greatest sequence number on every write. This module adds indexes that make this cheap. At the start it checks
//! that the engine's queries use them. Later it deletes old records, and gives their pages back to the file system.
//!
//! Without the last, the data file would keep the size it had with the largest backlog: in an import, duplicates are written
//! faster than their records are read. SQLite can give pages back by parts only in a file that was created for it, so
//! this module creates the file before the engine does.

use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use super::error::EngineError;

/// Number of records deleted under one hold of the file's write lock. The engine writes about as many in one large
/// batch, so a trim delays a writer no longer than another writer would.
pub(super) const TRIM_CHUNK_RECORDS: u64 = 500;

/// Number of free pages given back under one hold of the file's write lock.
const RELEASE_CHUNK_PAGES: u32 = 500;

/// Free pages that stay in the file, 4 MiB: the next records need them.
const FREE_PAGES_KEPT: u32 = 1_024;

/// How long to wait for the engine's writes. Its longest transaction, which fills a new index of a large table, takes
/// seconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// The engine adds this to a stored number when it shows it. So its numbers have 21 digits, like DynamoDB's.
const SEQUENCE_NUMBER_OFFSET: u128 = 100_000_000_000_000_000_000;

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

/// SQLite's name for a file whose free pages are given back by parts, as `PRAGMA auto_vacuum` reads it.
const INCREMENTAL: u32 = 2;

/// Creates the indexes of the engine's stream records.
pub const STREAM_INDEXES: &str = "
    CREATE INDEX IF NOT EXISTS pagemark_stream_by_table
        ON _stream_records (table_name, CAST(sequence_number AS INTEGER));
    CREATE INDEX IF NOT EXISTS pagemark_stream_by_shard
        ON _stream_records (table_name, shard_id, CAST(sequence_number AS INTEGER));";

/// The stored sequence number of a table's newest record; 0 without one.
pub(super) const NEWEST: &str =
    "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) FROM _stream_records WHERE table_name = ?1";

/// The engine's two hot queries, and the index that must serve each. The first finds the next record's number, on every
/// write. The second reads the records after a position, on every `GetRecords`.
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
    /// Opens the second connection to a file that the engine has opened, creates the indexes and checks that they are
    /// used.
    pub(super) fn open(data_file: &Path) -> Result<StreamTable, EngineError> {
        let connection = connect(data_file).map_err(|source| EngineError::Open(data_file.to_owned(), source.into()))?;
        check_columns(&connection)?;
        connection.execute_batch(STREAM_INDEXES)?;
        for (query, index) in ENGINE_QUERIES {
            let plan = query_plan(&connection, query)?;
            // The plan must search the index in the required order: no scan and no sort.
            if !plan.contains(&format!("INDEX {index} (")) || plan.contains("TEMP B-TREE") {
                return Err(EngineError::UnexpectedSchema(format!("{index} is not used: {plan}")));
            }
        }
        Ok(StreamTable { connection: Mutex::new(connection) })
    }

    /// Deletes the oldest records of a table up to a stored sequence number, at most [`TRIM_CHUNK_RECORDS`]. Never
    /// deletes the newest record, because the engine continues counting from it. Without that record, it could give
    /// numbers out again after the clock was set back. Returns the number of deleted records; fewer than a chunk means
    /// that the trim is complete.
    pub(super) fn trim_chunk(&self, table_name: &str, up_to: i64) -> Result<u64, EngineError> {
        let deleted = self
            .connection
            .lock()
            .prepare_cached(
                "DELETE FROM _stream_records WHERE id IN (
                    SELECT id FROM _stream_records
                    WHERE table_name = ?1
                        AND CAST(sequence_number AS INTEGER) <= ?2
                        AND CAST(sequence_number AS INTEGER) <
                            (SELECT MAX(CAST(sequence_number AS INTEGER)) FROM _stream_records WHERE table_name = ?1)
                    ORDER BY CAST(sequence_number AS INTEGER)
                    LIMIT ?3)",
            )?
            .execute(params![table_name, up_to, TRIM_CHUNK_RECORDS])?;
        Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
    }

    /// Gives some free pages back. Returns whether more are left to give back, and otherwise shortens the write-ahead log
    /// too. Does nothing while few pages are free, and in a file that was not made by [`create_file`].
    pub(super) fn release_chunk(&self) -> Result<bool, EngineError> {
        let connection = self.connection.lock();
        let free_pages = || connection.query_one("PRAGMA freelist_count", [], |row| row.get::<_, u32>(0));
        let mode: u32 = connection.query_one("PRAGMA auto_vacuum", [], |row| row.get(0))?;
        let surplus = free_pages()?.saturating_sub(FREE_PAGES_KEPT);
        if mode != INCREMENTAL || surplus == 0 {
            return Ok(false);
        }
        let chunk = surplus.min(RELEASE_CHUNK_PAGES);
        // The statement gives one page back for each row that is asked for.
        let mut release = connection.prepare(&format!("PRAGMA incremental_vacuum({chunk})"))?;
        let mut rows = release.raw_query();
        while rows.next()?.is_some() {}
        if free_pages()? > FREE_PAGES_KEPT {
            return Ok(true);
        }
        // The file gets shorter when the log is written back. While another program reads the file, that would wait with
        // the lock that writers need. Such a log is emptied another time.
        connection.busy_timeout(Duration::ZERO)?;
        let emptied = connection.query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection.busy_timeout(BUSY_TIMEOUT)?;
        emptied?;
        Ok(false)
    }

    /// The stored sequence number of a table's newest record; 0 without one.
    pub(super) fn newest(&self, table_name: &str) -> Result<i64, EngineError> {
        Ok(self.connection.lock().query_one(NEWEST, params![table_name], |row| row.get(0))?)
    }

    /// Number of records of a table after a stored sequence number.
    pub(super) fn count_after(&self, table_name: &str, after: i64) -> Result<u64, EngineError> {
        let count =
            "SELECT COUNT(*) FROM _stream_records WHERE table_name = ?1 AND CAST(sequence_number AS INTEGER) > ?2";
        let connection = self.connection.lock();
        Ok(connection.prepare_cached(count)?.query_one(params![table_name, after], |row| row.get(0))?)
    }
}

/// Creates a data file whose free pages can be given back by parts. A file with content stays as it is.
pub(super) fn create_file(data_file: &Path) -> Result<(), EngineError> {
    if std::fs::metadata(data_file).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let create = || {
        let connection = Connection::open(data_file)?;
        connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
        // This writes the setting: in an empty file there is nothing else to do.
        connection.execute_batch("VACUUM")
    };
    create().map_err(|source| EngineError::Open(data_file.to_owned(), source.into()))
}

/// Moves everything that the last engine left in the write-ahead log into the data file, and waits for the disk. After a
/// failed write, the system may still show commits of the log that the disk lacks. Later commits would follow them in the
/// log, and a power failure would take them all.
pub(super) fn empty_log(data_file: &Path) -> Result<(), EngineError> {
    let open_failed = |source| EngineError::Open(data_file.to_owned(), source);
    let empty = || {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        connect(data_file)?.query_one(checkpoint, [], |row| row.get::<_, bool>("busy"))
    };
    match empty() {
        Ok(false) => Ok(()),
        Ok(true) => Err(open_failed("another program reads it; end that first".into())),
        Err(error) => Err(open_failed(error.into())),
    }
}

/// Converts a sequence number from the form in `GetRecords` to its stored form.
pub(super) fn parse_sequence_number(shown: &str) -> Result<i64, EngineError> {
    let stored = shown
        .parse::<u128>()
        .ok()
        .and_then(|number| number.checked_sub(SEQUENCE_NUMBER_OFFSET))
        .and_then(|number| i64::try_from(number).ok());
    stored.ok_or_else(|| EngineError::SequenceNumber(shown.to_owned()))
}

/// Refuses a non-empty file that is not the engine's, before the engine creates its tables in it.
pub(super) fn refuse_foreign_file(data_file: &Path) -> Result<(), EngineError> {
    let open_failed = |source| EngineError::Open(data_file.to_owned(), source);
    match std::fs::metadata(data_file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(open_failed(error.into())),
        Ok(found) if found.is_dir() => return Err(EngineError::ForeignFile(data_file.to_owned())),
        Ok(_) => {}
    }
    match table_names(data_file) {
        Ok(names) if names.is_empty() || names.iter().any(|name| name == "_stream_records") => Ok(()),
        Ok(_) => Err(EngineError::ForeignFile(data_file.to_owned())),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Err(EngineError::ForeignFile(data_file.to_owned()))
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
    // Never creates the file. It cannot be read-only either, because reading after a crash must first recover the
    // write-ahead log.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(data_file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A trim lost in a power failure is repeated by the next one, so it need not wait for the disk.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

fn check_columns(connection: &Connection) -> Result<(), EngineError> {
    let found: Vec<String> = connection
        .prepare("SELECT name || ' ' || type FROM pragma_table_info('_stream_records') ORDER BY cid")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if found == COLUMNS {
        return Ok(());
    }
    Err(EngineError::UnexpectedSchema(format!("_stream_records has the columns {}", found.join(", "))))
}

pub(super) fn query_plan(connection: &Connection, query: &str) -> rusqlite::Result<String> {
    // Planning ignores the values, so the parameters stay unbound.
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}"))?;
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        steps.push(row.get::<_, String>("detail")?);
    }
    Ok(steps.join("; "))
}
