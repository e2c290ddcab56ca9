//! The checks of `pagemark doctor`. They change nothing in the folder.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use anyhow::Context;
use embedded_index::{EmbeddedIndex, SnapshotError};
use indicatif::HumanBytes;
use repair_job::{Command, JobSettings, RunArgs, Status};
use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
use serde::Serialize;
use tokio::time::timeout;

use crate::{
    blocking::blocking,
    control::{SOCKET, request},
    cursor_key::CURSOR_KEY,
    data_dir::{DATA_FILE, Found, Holder, VERSION, lock_to_look},
    engine::DataFile,
    index_place::{PARTITIONS, REDIS_RECORD, SNAPSHOT},
    room::room,
    stack::TABLE,
};

const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Room that a stack needs for its write-ahead log.
const ROOM_NEEDED: u64 = 64 << 20;
const RESTORE: &str = "Check the disk, then restore the whole folder from a backup";
const AS_OWNER: &str = "Run this as the user that owns the folder";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Ok,
    Warning,
    Problem,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Check {
    pub(crate) check: &'static str,
    pub(crate) state: State,
    pub(crate) found: String,
    pub(crate) advice: Option<String>,
}

fn ok(check: &'static str, found: impl Into<String>) -> Check {
    Check { check, state: State::Ok, found: found.into(), advice: None }
}

fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check { check, state: State::Warning, found: found.into(), advice: Some(advice.into()) }
}

fn problem(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check { state: State::Problem, ..warning(check, found, advice) }
}

/// Examines a data folder. Until the end, no stack may start there.
pub(crate) async fn examine(folder: &Path) -> anyhow::Result<Vec<Check>> {
    let found = lock_to_look(folder)?;
    let mut checks = match &found {
        Found::Free(_) => of_stopped(folder).await,
        Found::Used(holder) => of_running(folder, holder.as_ref()).await,
    };
    checks.push(permissions(folder).unwrap_or_else(|error| problem("permissions", error.to_string(), AS_OWNER)));
    let snapshot = fs::metadata(folder.join(SNAPSHOT)).map(|found| found.len()).unwrap_or_default();
    checks.push(match room(folder) {
        Ok(free) => disk(free, snapshot),
        Err(error) => problem("disk", error.to_string(), AS_OWNER),
    });
    Ok(checks)
}

async fn of_stopped(folder: &Path) -> Vec<Check> {
    let (data_file, path) = (folder.join(DATA_FILE), folder.join(SNAPSHOT));
    let checks = blocking(move || of_data_file(&data_file, &path));
    let checks = checks.await.unwrap_or_else(|error| {
        let found = format!("{DATA_FILE} cannot be read: {error}");
        vec![match error.sqlite_error_code() {
            Some(DatabaseBusy | DatabaseLocked) => warning("database", found, "Another doctor may be reading it"),
            _ => problem("database", found, RESTORE),
        }]
    });
    [vec![ok("stack", "none runs here")], checks].concat()
}

/// Checks the engine's file, and then the snapshot of the page index of its table.
fn of_data_file(data_file: &Path, snapshot: &Path) -> rusqlite::Result<Vec<Check>> {
    // SQLite would remove the log of an empty file.
    if !fs::metadata(data_file).is_ok_and(|found| found.len() > 0) {
        let found = format!("{DATA_FILE} is missing or empty: the stack uses another engine, or the file was lost");
        return Ok(vec![problem("database", found, "Without `up --dynamodb-url`, restore the folder from a backup")]);
    }
    let file = DataFile::of_stopped(data_file)?;
    if let Some(first) = file.damage()? {
        return Ok(vec![problem("database", format!("{DATA_FILE} is damaged: {first}"), RESTORE)]);
    }
    let (table_id, records) = (file.table_id(TABLE)?.unwrap_or_default(), file.backlog(TABLE)?);
    let page_index = match EmbeddedIndex::open(snapshot, &table_id, PARTITIONS) {
        Ok(_) => ok("page index", format!("{SNAPSHOT} is whole")),
        Err(SnapshotError::Absent(_)) => ok("page index", "the next start fills it from the table"),
        Err(error) => warning("page index", error.to_string(), "The next start fills it from the table"),
    };
    let stream = ok("stream", format!("{records} records that the next start delivers, or delivers again"));
    Ok(vec![ok("database", format!("{DATA_FILE} is whole")), stream, page_index])
}

async fn of_running(folder: &Path, holder: Option<&Holder>) -> Vec<Check> {
    let Some(holder) = holder.filter(|holder| holder.entrance.is_some()) else {
        let who = holder.map_or("a process".to_owned(), ToString::to_string);
        let found = format!("{who} uses the folder: a stack that is just starting, or a command");
        return vec![warning("stack", found, "Run doctor again when it has started or ended")];
    };
    if holder.version != VERSION {
        let found = format!("{holder} is pagemark {}, and this is pagemark {VERSION}", holder.version);
        return vec![warning("stack", found, "Use the doctor of the same version")];
    }
    let status = match status(folder).await {
        Ok(status) => status,
        Err(error) => {
            let found = format!("{holder} does not answer: {error:#}");
            return vec![problem("stack", found, "Its log may say why; restart it if that does not pass")];
        }
    };
    let unready = match status.index {
        Ok(index) if index.stale + index.unmarked == 0 => Ok(format!("all {} partitions are ready", index.ready)),
        Ok(index) => Err(format!("{} partitions are not ready", index.stale + index.unmarked)),
        Err(error) => Err(error),
    };
    let page_index = match unready {
        Ok(found) => ok("page index", found),
        Err(found) => problem("page index", found, "Wait while the stack starts; if that lasts, its log says why"),
    };
    vec![ok("stack", format!("{holder} runs and answers")), page_index]
}

async fn status(folder: &Path) -> anyhow::Result<Status> {
    let command = Command::Status { segments: 1, quarantine: None, s3_url: None };
    let args = RunArgs { settings: JobSettings::default(), json: true, max_run_time: None, command };
    let asked = timeout(ANSWER_WITHIN, request(&folder.join(SOCKET), &args, std::future::pending())).await;
    let outcome = asked.with_context(|| format!("no status came within {} s", ANSWER_WITHIN.as_secs()))??;
    Ok(serde_json::from_str(&outcome.output)?)
}

/// Nobody but the stack's user may change its data, send commands to it, or read the key of cursors.
fn permissions(folder: &Path) -> io::Result<Check> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    // Folders below are not the stack's, such as `lost+found`, or nobody may enter them.
    for path in entries.iter().filter(|path| !path.is_dir()).map(|path| path.as_path()).chain([folder]) {
        // A file may have been removed meanwhile.
        let Ok(metadata) = fs::symlink_metadata(path) else { continue };
        let (mode, shown) = (metadata.permissions().mode() & 0o777, path.display());
        let is_private = [SOCKET, CURSOR_KEY, REDIS_RECORD].iter().any(|name| *path == folder.join(name));
        if metadata.is_symlink() || !(is_private && mode != 0o600) && mode & 0o002 == 0 {
            continue;
        }
        let change = if is_private { "600" } else { "o-w" };
        let found = format!("{shown} has the mode {mode:o}: others may use it");
        return Ok(problem("permissions", found, format!("chmod {change} {shown}")));
    }
    Ok(ok("permissions", "only its owner or group may change the data"))
}

/// Judges the free room on the disk. A snapshot is written beside the last one.
fn disk(free: u64, snapshot: u64) -> Check {
    let found = format!("{} free", HumanBytes(free));
    if free < ROOM_NEEDED.saturating_add(snapshot) {
        return problem("disk", found, "Make room: writes fail when the disk is full");
    }
    ok("disk", found)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn too_little_room_for_a_snapshot_is_a_problem() {
        let mib = 1 << 20;
        for (free, snapshot, expected) in
            [(65 * mib, 0, State::Ok), (63 * mib, 0, State::Problem), (100 * mib, 50 * mib, State::Problem)]
        {
            let check = disk(free, snapshot);
            assert_eq!(check.state, expected, "{check:?}");
        }
    }

    #[test]
    fn a_folder_that_is_not_the_stacks_is_no_concern() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("lost+found");
        fs::create_dir(&foreign).unwrap();
        fs::set_permissions(&foreign, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(permissions(folder.path()).unwrap().state, State::Ok);
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o646)).unwrap();
        let found = permissions(folder.path()).unwrap();
        assert_eq!(found.state, State::Problem);
        assert_eq!(found.advice, Some(format!("chmod o-w {}", file.display())));
        fs::remove_file(file).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(permissions(folder.path()).unwrap().state, State::Problem);
    }

    #[tokio::test]
    async fn a_crashed_folder_that_another_doctor_reads_is_not_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATA_FILE);
        let crashed = Connection::open(&path).unwrap();
        crashed.pragma_update(None, "journal_mode", "WAL").unwrap();
        crashed.execute_batch(dynoxide::storage_backend::sql_builders::INIT_SCHEMA).unwrap();
        let copy = tempfile::tempdir().unwrap();
        for name in [DATA_FILE.to_owned(), format!("{DATA_FILE}-wal")] {
            fs::copy(folder.path().join(&name), copy.path().join(&name)).unwrap();
        }
        let first = DataFile::of_stopped(&copy.path().join(DATA_FILE)).unwrap();
        assert_eq!(first.damage().unwrap(), None);
        let checks = of_stopped(copy.path()).await;
        let states: Vec<State> = checks.iter().map(|check| check.state).collect();
        assert_eq!(states, [State::Ok, State::Warning], "{checks:?}");
    }
}
