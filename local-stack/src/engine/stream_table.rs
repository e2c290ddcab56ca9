//! The engine's table of stream records, accessed by a second connection beside the engine's.
//!
//! The engine (`dynoxide`) keeps the stream records of all tables in one SQLite table without any
//! index, and searches for the greatest sequence number on every write. This module adds indexes
//! that make this cheap. The version of the engine is pinned, so a test checks that its queries use
//! them (`the_indexes_serve_the_engines_own_queries`). Later this module deletes old records, and
//! gives their pages back to the file system.
//!
//! Without the last, the data file would keep the size it had with the largest backlog: in an
//! import, duplicates are written faster than their records are read. SQLite can give pages back by
//! parts only in a file that was created for it, so this module creates the file before the engine
//! does.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

/// Number of records deleted under one hold of the file's write lock. The engine writes about as
/// many in one large batch, so a trim delays a writer no longer than another writer would.
pub(super) const TRIM_CHUNK_RECORDS: u64 = 500;

/// Number of free pages given back under one hold of the file's write lock.
const RELEASE_CHUNK_PAGES: u32 = 500;

/// Free pages that stay in the file, 4 MiB: the next records need them.
const FREE_PAGES_KEPT: u32 = 1_024;

/// How long to wait for the engine's writes. Its longest transaction, which fills a new index of a
/// large table, takes seconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// The engine adds this to a stored number when it shows it. So its numbers have 21 digits, like
/// DynamoDB's.
const SEQUENCE_NUMBER_OFFSET: u128 = 100_000_000_000_000_000_000;

/// SQLite's name for a file whose free pages are given back by parts, as `PRAGMA auto_vacuum` reads
/// it.
const INCREMENTAL: u32 = 2;

/// Creates the indexes of the engine's stream records.
pub const STREAM_INDEXES: &str = "
    CREATE INDEX IF NOT EXISTS pagemark_stream_by_table
        ON _stream_records (table_name, CAST(sequence_number AS INTEGER));
    CREATE INDEX IF NOT EXISTS pagemark_stream_by_shard
        ON _stream_records (table_name, shard_id, CAST(sequence_number AS INTEGER));";

/// The stored sequence number of a table's newest record; 0 without one.
pub(super) const NEWEST: &str = "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) FROM _stream_records WHERE table_name = ?1";

/// The second connection to the data file.
pub(super) struct StreamTable {
    connection: Mutex<Connection>,
}

impl StreamTable {
    /// Opens the second connection to a file that the engine has opened, and creates the indexes.
    pub(super) fn open(data_file: &Path) -> rusqlite::Result<StreamTable> {
        let connection = connect(data_file)?;
        connection.execute_batch(STREAM_INDEXES)?;
        Ok(StreamTable {
            connection: Mutex::new(connection),
        })
    }

    /// Deletes the oldest records of a table up to a stored sequence number, at most
    /// [`TRIM_CHUNK_RECORDS`]. Never deletes the newest record, because the engine continues
    /// counting from it. Without that record, it could give numbers out again after the clock was
    /// set back. Returns the number of deleted records; fewer than a chunk means that the trim is
    /// complete.
    pub(super) fn trim_chunk(&self, table_name: &str, up_to: i64) -> rusqlite::Result<u64> {
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

    /// Gives some free pages back. Returns whether more are left to give back, and otherwise
    /// shortens the write-ahead log too. Does nothing while few pages are free, and in a file that
    /// was not made by [`prepare`].
    pub(super) fn release_chunk(&self) -> rusqlite::Result<bool> {
        let connection = self.connection.lock();
        let mode: u32 = connection.query_one("PRAGMA auto_vacuum", [], |row| row.get(0))?;
        let surplus = free_pages(&connection)?.saturating_sub(FREE_PAGES_KEPT);
        if mode != INCREMENTAL || surplus == 0 {
            return Ok(false);
        }
        let chunk = surplus.min(RELEASE_CHUNK_PAGES);
        // The statement gives one page back for each row that is asked for.
        let mut release = connection.prepare(&format!("PRAGMA incremental_vacuum({chunk})"))?;
        let mut rows = release.raw_query();
        while rows.next()?.is_some() {}
        if free_pages(&connection)? > FREE_PAGES_KEPT {
            return Ok(true);
        }
        // The file gets shorter when the log is written back. While another program reads the file,
        // that would wait with the lock that writers need. Such a log is emptied another time.
        connection.busy_timeout(Duration::ZERO)?;
        let emptied = connection.query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection.busy_timeout(BUSY_TIMEOUT)?;
        emptied?;
        Ok(false)
    }

    /// The stored sequence number of a table's newest record; 0 without one.
    pub(super) fn newest(&self, table_name: &str) -> rusqlite::Result<i64> {
        self.connection
            .lock()
            .query_one(NEWEST, params![table_name], |row| row.get(0))
    }

    /// Number of records of a table after a stored sequence number.
    pub(super) fn count_after(&self, table_name: &str, after: i64) -> rusqlite::Result<u64> {
        let count = "SELECT COUNT(*) FROM _stream_records WHERE table_name = ?1 AND CAST(sequence_number AS INTEGER) > ?2";
        let connection = self.connection.lock();
        connection
            .prepare_cached(count)?
            .query_one(params![table_name, after], |row| row.get(0))
    }
}

fn free_pages(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_one("PRAGMA freelist_count", [], |row| row.get(0))
}

/// What a data file is for the engine.
enum Prepared {
    Ready,
    /// It is no data file of the engine.
    Foreign,
    /// Another program reads it.
    Busy,
}

/// Prepares a data file, before the engine creates its tables in it:
///
/// - It creates a missing file, whose free pages can be given back by parts.
/// - It refuses a file that is not the engine's.
/// - It moves everything that the last engine left in the write-ahead log into the file, and waits
///   for the disk. After a failed write, the system may still show commits of the log that the disk
///   lacks. Later commits would follow them in the log, and a power failure would take them all.
pub(super) fn prepare(data_file: &Path) -> anyhow::Result<()> {
    let file = data_file.display();
    let prepared = match try_to_prepare(data_file) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Prepared::Foreign
        }
        prepared => prepared.with_context(|| format!("cannot open {file}"))?,
    };
    match prepared {
        Prepared::Ready => Ok(()),
        Prepared::Foreign => {
            bail!("{file} is not a data file of this engine; it was left untouched")
        }
        Prepared::Busy => {
            bail!("cannot open {file}: another program reads it; end that first")
        }
    }
}

fn try_to_prepare(data_file: &Path) -> rusqlite::Result<Prepared> {
    if data_file.is_dir() {
        return Ok(Prepared::Foreign);
    }
    if !std::fs::metadata(data_file).is_ok_and(|found| found.len() > 0) {
        create(data_file)?;
    }
    let connection = connect(data_file)?;
    let is_empty_or_the_engines =
        "SELECT COUNT(*) = 0 OR COUNT(*) FILTER (WHERE name = '_stream_records') > 0
                                   FROM sqlite_master WHERE type = 'table'";
    if !connection.query_one(is_empty_or_the_engines, [], |row| row.get(0))? {
        return Ok(Prepared::Foreign);
    }
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy = connection.query_one(checkpoint, [], |row| row.get("busy"))?;
    if is_busy {
        Ok(Prepared::Busy)
    } else {
        Ok(Prepared::Ready)
    }
}

fn create(data_file: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(data_file)?;
    connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
    // This writes the setting: in an empty file there is nothing else to do.
    connection.execute_batch("VACUUM")
}

/// The stored form of a sequence number that `GetRecords` shows. Later records have greater ones.
pub(crate) fn parse_sequence_number(shown: &str) -> anyhow::Result<i64> {
    let stored = shown
        .parse::<u128>()
        .ok()
        .and_then(|number| number.checked_sub(SEQUENCE_NUMBER_OFFSET))
        .and_then(|number| i64::try_from(number).ok());
    stored.with_context(|| format!("{shown:?} is not a sequence number of this engine"))
}

fn connect(data_file: &Path) -> rusqlite::Result<Connection> {
    // Never creates the file. It cannot be read-only either, because reading after a crash must
    // first recover the write-ahead log.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(data_file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A trim lost in a power failure is repeated by the next one, so it need not wait for the disk.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}
