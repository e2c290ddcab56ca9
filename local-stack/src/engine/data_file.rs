//! A look into an engine's data file, which changes neither the file nor its folder.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
};

use anyhow::bail;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig, params};

use super::stream_table::NEWEST;

/// What a URI writes otherwise than a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

/// The largest file that is checked at a start: about 24,000 comments, a few seconds.
const CHECKED_AT_START_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct DataFile {
    connection: Connection,
}

impl DataFile {
    /// Opens the file of an engine that is stopped. The caller keeps engines away while this value
    /// lives.
    pub(crate) fn of_stopped(data_file: &Path) -> rusqlite::Result<Self> {
        let log = fs::metadata(beside(data_file, "-wal"));
        if log.is_ok_and(|found| found.len() > 0) {
            Self::with_log(data_file)
        } else {
            Self::without_log(data_file)
        }
    }

    /// Everything is in the file. SQLite makes no file beside one that it is told not to expect
    /// changes of.
    fn without_log(data_file: &Path) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let path = std::path::absolute(data_file).unwrap_or_else(|_| data_file.to_owned());
        let connection = Connection::open_with_flags(
            format!(
                "file://{}?immutable=1",
                percent_encode(path.as_os_str().as_bytes(), ENCODED)
            ),
            flags,
        )?;
        Ok(Self { connection })
    }

    /// The engine was killed: its last changes are only in the write-ahead log. With an exclusive
    /// lock, SQLite keeps the index of the log in memory instead of a file. At the end it must
    /// leave the log as it is.
    fn with_log(data_file: &Path) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(data_file, flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(Self { connection })
    }

    /// The first fault that SQLite's `quick_check` finds, in one line. It reads the whole file. It
    /// does not notice a change inside a value.
    fn damage(&self) -> rusqlite::Result<Option<String>> {
        let found: String = self
            .connection
            .query_one("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok(found
            .lines()
            .last()
            .filter(|line| *line != "ok")
            .map(str::to_owned))
    }

    /// The newest stream record of a table, by its stored number; 0 without one.
    pub(crate) fn newest_stream_record(&self, table: &str) -> rusqlite::Result<i64> {
        self.connection
            .query_one(NEWEST, params![table], |row| row.get(0))
    }
}

/// Refuses a file in which SQLite finds damage, and leaves it as it is. The start words other
/// errors itself.
pub(super) fn refuse_damaged(data_file: &Path) -> anyhow::Result<()> {
    if fs::metadata(data_file).is_ok_and(|found| found.len() > CHECKED_AT_START_MAX) {
        tracing::info!(
            "the data file is too large for SQLite's `quick_check` at each start; check a copy of it"
        );
        return Ok(());
    }
    // SQLite reads along its trees. In the order of the file, a cold disk is many times faster.
    File::open(data_file)
        .and_then(|mut file| io::copy(&mut file, &mut io::sink()))
        .ok();
    use ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, NotADatabase, PermissionDenied, ReadOnly,
    };
    let damage = match DataFile::of_stopped(data_file).and_then(|file| file.damage()) {
        Ok(found) => found,
        Err(error) => match error.sqlite_error_code() {
            Some(
                CannotOpen | DatabaseBusy | DatabaseLocked | NotADatabase | PermissionDenied
                | ReadOnly,
            ) => None,
            _ => Some(error.to_string()),
        },
    };
    if let Some(first) = damage {
        bail!(
            "{} is damaged: {first}. It was left as it is: check the disk, then restore the folder from a backup",
            data_file.display()
        );
    }
    Ok(())
}

/// The name of a file that SQLite keeps next to a data file.
pub(super) fn beside(data_file: &Path, suffix: &str) -> OsString {
    let mut name = data_file.as_os_str().to_owned();
    name.push(suffix);
    name
}
