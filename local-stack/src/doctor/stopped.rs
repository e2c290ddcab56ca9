//! The checks of a folder whose stack is stopped. The caller keeps stacks away.

use std::{fs, path::Path};

use embedded_index::{EmbeddedIndex, SnapshotError};
use indicatif::{HumanBytes, HumanCount};
use model::{Timestamp, journal::JOURNAL_RETENTION_DAYS};
use page_index::PageIndex;
use process::now;
use rusqlite::ErrorCode;

use super::check::{Check, with_age};
use crate::{
    blocking::blocking,
    data_dir::{DATA_FILE, Holder},
    engine::{DataFile, SCHEMA_VERSION},
    index_keeper::INDEX_MAX_AGE,
    index_place::{PARTITIONS, SNAPSHOT},
    stack::TABLE,
};

/// A file of this size takes more than a second to read, so the reading is announced.
const LARGE_BYTES: u64 = 1 << 28;
/// What to do with a file that cannot be relied on.
const RESTORE: &str = "Check the disk, then restore the whole folder from a backup";
/// What follows from a snapshot that cannot be used.
const REBUILDS: &str = "Nothing to do: the next start fills the page index from the table, which takes longer";

/// Checks engine and page index.
pub(super) async fn checks(folder: &Path, killed: Option<&Holder>) -> Vec<Check> {
    let mut checks = vec![stack(killed)];
    let data_file = folder.join(DATA_FILE);
    if !data_file.exists() {
        let found =
            format!("there is no {DATA_FILE}: the stack of this folder uses another engine, or the file was removed");
        checks.push(Check::problem("database", found, "Without `up --dynamodb-url`, restore the folder from a backup"));
        return checks;
    }
    let (of_database, table_id) = blocking(move || database(&data_file)).await;
    checks.extend(of_database);
    if let Some(table_id) = table_id {
        checks.push(page_index(folder, table_id).await);
    }
    checks
}

/// Whether the last stack ended in order.
fn stack(killed: Option<&Holder>) -> Check {
    match killed {
        None => Check::ok("stack", "none runs here"),
        Some(holder) => Check::warning(
            "stack",
            format!("none runs here, and the last process, {holder}, was killed or lost its power"),
            "A start brings everything in order; the log of that process may say why it ended",
        ),
    }
}

/// Checks the engine's file. Returns also the id of the table, if it can be read.
fn database(data_file: &Path) -> (Vec<Check>, Option<String>) {
    let bytes = fs::metadata(data_file).map(|found| found.len()).unwrap_or_default();
    if bytes >= LARGE_BYTES {
        eprintln!("reading all of {} ({})", data_file.display(), HumanBytes(bytes));
    }
    let unreadable = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let found = format!("another program is reading {DATA_FILE}, perhaps a second `pagemark doctor`");
            Check::warning("database", found, "Run doctor again when that has ended")
        }
        _ => Check::problem("database", format!("{DATA_FILE} cannot be read: {error}"), RESTORE),
    };
    let file = match DataFile::of_stopped(data_file) {
        Ok(file) => file,
        Err(error) => return (vec![unreadable(error)], None),
    };
    let whole = match file.damage().map(|lines| (lines.len(), lines.into_iter().next())) {
        Ok((_, None)) => Check::ok("database", format!("{DATA_FILE}, {}, is whole", HumanBytes(bytes))),
        Ok((count, Some(first))) => {
            let more = if count > 1 { format!(", and {} more", count - 1) } else { String::new() };
            Check::problem("database", format!("{DATA_FILE} is damaged: {first}{more}"), RESTORE)
        }
        Err(error) => return (vec![unreadable(error)], None),
    };
    let mut checks = vec![whole];
    match contents(&file) {
        Ok((of_contents, table_id)) => {
            checks.extend(of_contents);
            (checks, table_id)
        }
        Err(error) => {
            checks.push(unreadable(error));
            (checks, None)
        }
    }
}

/// Checks what the engine's file holds. Returns also the id of the table.
fn contents(file: &DataFile) -> rusqlite::Result<(Vec<Check>, Option<String>)> {
    let schema = match file.schema_version()? {
        Some(version) if version == SCHEMA_VERSION => {
            Check::ok("schema", format!("version {version}, as this pagemark writes it"))
        }
        Some(version) if version > SCHEMA_VERSION => Check::problem(
            "schema",
            format!("version {version}, and this pagemark reads versions up to {SCHEMA_VERSION}"),
            "Use the newer pagemark that wrote the folder",
        ),
        older => Check::warning(
            "schema",
            older.map_or("no version".to_owned(), |version| format!("version {version}, from an older pagemark")),
            format!("Back the folder up: the next start changes it to version {SCHEMA_VERSION}"),
        ),
    };
    let Some(table_id) = file.table_id(TABLE)? else {
        let table =
            Check::warning("table", format!("there is no table {TABLE}"), "The next start creates an empty one");
        return Ok((vec![schema, table], None));
    };
    let records = HumanCount(file.backlog(TABLE)?.records);
    let stream = Check::ok("stream", format!("{records} records that the next start delivers, or delivers again"));
    Ok((vec![schema, Check::ok("table", format!("{TABLE}, id {table_id}")), stream], Some(table_id)))
}

/// Checks the snapshot of the page index against the table.
async fn page_index(folder: &Path, table_id: String) -> Check {
    const CHECK: &str = "page index";
    let path = folder.join(SNAPSHOT);
    let metadata = fs::metadata(&path);
    let (id, snapshot) = (table_id.clone(), path);
    let opened = blocking(move || EmbeddedIndex::open(&snapshot, &id, PARTITIONS, INDEX_MAX_AGE)).await;
    let index = match opened {
        Ok(index) => PageIndex::new(index),
        Err(SnapshotError::Absent(_)) => {
            return Check::ok(
                CHECK,
                format!("there is no {SNAPSHOT}; the next start fills the page index from the table"),
            );
        }
        Err(error) => return Check::warning(CHECK, error.to_string(), REBUILDS),
    };
    let watermark = match index.marks(&table_id).await {
        Ok(marks) => marks.into_iter().map(|(_, mark)| mark.watermark).min(),
        Err(error) => return Check::warning(CHECK, error.to_string(), REBUILDS),
    };
    let bytes = HumanBytes(metadata.map(|found| found.len()).unwrap_or_default());
    judged(CHECK, &format!("{SNAPSHOT}, {bytes}, is whole"), watermark, now())
}

/// Judges the age of a snapshot.
fn judged(check: &'static str, snapshot: &str, watermark: Option<Timestamp>, present: Timestamp) -> Check {
    let oldest = present.plus_ms(-JOURNAL_RETENTION_DAYS * 24 * 3_600_000);
    let Some(watermark) = watermark else {
        return Check::warning(check, format!("{snapshot}, but has no marker"), REBUILDS);
    };
    let found = format!("{snapshot}, and reconciled up to {}", with_age(watermark, present));
    match watermark {
        late if late > present => {
            Check::warning(check, found, "Correct the clock; otherwise the next start fills the page index anew")
        }
        early if early < oldest => Check::warning(check, format!("{found}, further back than the journal"), REBUILDS),
        _ => Check::ok(check, found),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::doctor::State;

    #[test]
    fn a_snapshot_that_the_next_start_cannot_continue_is_a_warning() {
        let present = Timestamp::parse("2026-01-31T06:00:00Z").unwrap();
        let hours = |hours: i64| Some(present.plus_ms(hours * 3_600_000));
        for (watermark, expected) in [
            (hours(-1), State::Ok),
            (hours(-13 * 24), State::Ok),
            (hours(-15 * 24), State::Warning),
            (hours(1), State::Warning),
            (None, State::Warning),
        ] {
            let check = judged("page index", "a snapshot", watermark, present);
            assert_eq!(check.state, expected, "{check}");
        }
    }

    /// What is said about a file of a schema version, with or without the table.
    fn states(version: &str, has_table: bool) -> Vec<(&'static str, State)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATA_FILE);
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(dynoxide::storage_backend::sql_builders::INIT_SCHEMA).unwrap();
        connection.execute("INSERT INTO _config (key, value) VALUES ('schema_version', ?1)", [version]).unwrap();
        if has_table {
            let row = "INSERT INTO _tables (table_name, key_schema, attribute_definitions, created_at, table_id)
                VALUES (?1, '', '', 0, 'id')";
            connection.execute(row, [TABLE]).unwrap();
        }
        drop(connection);
        let (checks, table_id) = database(&path);
        assert_eq!(table_id.is_some(), has_table, "{checks:?}");
        checks.into_iter().map(|check| (check.check, check.state)).filter(|(_, state)| *state != State::Ok).collect()
    }

    #[test]
    fn a_crashed_folder_that_another_doctor_reads_is_not_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATA_FILE);
        let crashed = Connection::open(&path).unwrap();
        crashed.pragma_update(None, "journal_mode", "WAL").unwrap();
        crashed.execute_batch(dynoxide::storage_backend::sql_builders::INIT_SCHEMA).unwrap();
        let copy = tempfile::tempdir().unwrap();
        for name in [DATA_FILE.to_owned(), format!("{DATA_FILE}-wal")] {
            fs::copy(folder.path().join(&name), copy.path().join(&name)).unwrap();
        }
        let path = copy.path().join(DATA_FILE);
        let first = DataFile::of_stopped(&path).unwrap();
        assert_eq!(first.damage().unwrap(), Vec::<String>::new());
        let (checks, _) = database(&path);
        let states: Vec<State> = checks.iter().map(|check| check.state).collect();
        assert_eq!(states, [State::Warning], "{checks:?}");
    }

    #[test]
    fn another_schema_and_a_missing_table_are_said() {
        assert_eq!(states(&SCHEMA_VERSION.to_string(), true), []);
        assert_eq!(states(&(SCHEMA_VERSION + 1).to_string(), true), [("schema", State::Problem)]);
        assert_eq!(states("9", true), [("schema", State::Warning)]);
        assert_eq!(states(&SCHEMA_VERSION.to_string(), false), [("table", State::Warning)]);
    }
}
