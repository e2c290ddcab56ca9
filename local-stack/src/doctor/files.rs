//! The checks of files: quarantine, permissions, leftovers, room on the disk.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use functions::Quarantine;
use indicatif::HumanBytes;

use super::check::Check;
use crate::{control::SOCKET, cursor_key::CURSOR_KEY, data_dir::DATA_FILE, index_place::SNAPSHOT, stack::QUARANTINE};

/// Maximum number of batches in quarantine that are counted.
const QUARANTINED_MAX: usize = 1_000;
/// Maximum number of files that are looked at.
const FILES_MAX: usize = 10_000;
/// Room that a stack needs for its write-ahead log.
const ROOM_NEEDED: u64 = 64 << 20;
/// Room that is soon used up.
const ROOM_LITTLE: u64 = 1 << 30;

/// Checks the files of a folder.
pub(super) async fn checks(folder: &Path, is_stopped: bool) -> Vec<Check> {
    let mut checks = vec![quarantine(folder).await];
    match files(folder) {
        Ok(files) => {
            checks.push(permissions(folder, &files));
            if is_stopped {
                checks.push(leftovers(&files));
            }
        }
        Err(error) => checks.push(unreadable("permissions", &error)),
    }
    checks.push(match rustix::fs::statvfs(folder) {
        Ok(system) => {
            let size = |name: &str| fs::metadata(folder.join(name)).map(|found| found.len()).unwrap_or_default();
            room(system.f_bavail.saturating_mul(system.f_frsize), size(DATA_FILE), size(SNAPSHOT))
        }
        Err(error) => unreadable("disk", &error.into()),
    });
    checks
}

fn unreadable(check: &'static str, error: &io::Error) -> Check {
    Check::problem(check, error.to_string(), "Run this as the user that owns the folder")
}

async fn quarantine(folder: &Path) -> Check {
    const CHECK: &str = "quarantine";
    match Quarantine::Folder(folder.join(QUARANTINE)).list(None, QUARANTINED_MAX).await {
        Ok(batches) if batches.is_empty() => Check::ok(CHECK, "empty"),
        Ok(batches) => {
            let count = u64::try_from(batches.len()).unwrap_or(u64::MAX);
            let more = if batches.len() < QUARANTINED_MAX { "" } else { " or more" };
            let batches = if count == 1 { "1 batch".to_owned() } else { format!("{count} batches") };
            let found = format!("{batches}{more} of changes could not be processed");
            Check::problem(
                CHECK,
                found,
                format!("`pagemark repair quarantine --apply --data-dir {}`", folder.display()),
            )
        }
        Err(error) => Check::problem(CHECK, error.to_string(), "Run this as the user that owns the folder"),
    }
}

/// The folder and what the stack has put in it, without links followed. Each with its path inside the folder. The only
/// folder of the stack's is the quarantine: others, such as `lost+found` of a file system, are left out.
fn files(folder: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut files = vec![(PathBuf::new(), fs::metadata(folder)?)];
    let mut unread = vec![PathBuf::new()];
    while let Some(below) = unread.pop() {
        for entry in fs::read_dir(folder.join(&below))?.take(FILES_MAX.saturating_sub(files.len())) {
            let entry = entry?;
            let name = below.join(entry.file_name());
            // A file may have been removed meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                if !name.starts_with(QUARANTINE) {
                    continue;
                }
                unread.push(name.clone());
            }
            files.push((name, metadata));
        }
    }
    Ok(files)
}

/// Nobody but the stack's user may change its data, or send commands to it.
fn permissions(folder: &Path, files: &[(PathBuf, Metadata)]) -> Check {
    const CHECK: &str = "permissions";
    let shown = |name: &Path| folder.join(name).display().to_string();
    for (name, metadata) in files {
        let mode = metadata.permissions().mode() & 0o777;
        let danger = [(SOCKET, "send commands"), (CURSOR_KEY, "read the key of cursors")]
            .into_iter()
            .find(|(private, _)| name == Path::new(private));
        if let Some((_, danger)) = danger.filter(|_| mode != 0o600) {
            let found = format!("{} has the mode {mode:o}: others may {danger}", shown(name));
            return Check::problem(CHECK, found, format!("chmod 600 {}", shown(name)));
        }
        if mode & 0o002 != 0 && !metadata.is_symlink() {
            let found = format!("{} may be changed by everybody (mode {mode:o})", shown(name));
            return Check::problem(CHECK, found, format!("chmod o-w {}", shown(name)));
        }
    }
    let owner = files.iter().find(|(name, _)| name == Path::new(DATA_FILE)).map(|(_, metadata)| metadata.uid());
    let is_foreign = |metadata: &Metadata| owner.is_some_and(|owner| owner != metadata.uid());
    // The folder itself may belong to root.
    let mut foreign = files.iter().filter(|(name, metadata)| !name.as_os_str().is_empty() && is_foreign(metadata));
    match (foreign.next(), owner) {
        (Some((name, metadata)), Some(owner)) => {
            let (others, user) = (foreign.count(), metadata.uid());
            let found = format!(
                "{} belongs to user {user}, the data to user {owner}; {others} other files differ",
                shown(name)
            );
            Check::warning(CHECK, found, format!("chown -R {owner} {}", folder.display()))
        }
        _ => Check::ok(CHECK, "only its owner or group may change the data"),
    }
}

/// Files that a killed process had not finished.
fn leftovers(files: &[(PathBuf, Metadata)]) -> Check {
    const CHECK: &str = "leftovers";
    let unfinished = ["new", "written"].map(|extension| Path::new(SNAPSHOT).with_extension(extension));
    let is_left = |name: &Path| {
        let text = name.to_string_lossy();
        unfinished.iter().any(|unfinished| name == unfinished)
            || (text.starts_with(QUARANTINE) && text.ends_with(".partial"))
    };
    let left: Vec<_> =
        files.iter().filter(|(name, _)| is_left(name)).map(|(name, _)| name.display().to_string()).collect();
    match left.as_slice() {
        [] => Check::ok(CHECK, "none"),
        left => Check::warning(CHECK, format!("unfinished: {}", left.join(", ")), "They may be removed"),
    }
}

/// Judges the free room on the disk. A snapshot is written beside the last one.
fn room(free: u64, database: u64, snapshot: u64) -> Check {
    let found = format!("{} free, beside a database of {}", HumanBytes(free), HumanBytes(database));
    if free < ROOM_NEEDED.saturating_add(snapshot) {
        return Check::problem("disk", found, "Make room: writes fail when the disk is full");
    }
    if free < ROOM_LITTLE.max(database / 10) {
        return Check::warning("disk", found, "Make room soon");
    }
    Check::ok("disk", found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn little_room_is_a_warning_and_none_for_a_snapshot_a_problem() {
        let (mib, gib) = (1 << 20, 1 << 30);
        for (free, database, snapshot, expected) in [
            (2 * gib, gib, mib, State::Ok),
            (gib - 1, mib, mib, State::Warning),
            (5 * gib, 100 * gib, mib, State::Warning),
            (63 * mib, mib, 0, State::Problem),
            (100 * mib, mib, 50 * mib, State::Problem),
        ] {
            let check = room(free, database, snapshot);
            assert_eq!(check.state, expected, "{check}");
        }
    }

    #[test]
    fn a_folder_that_is_not_the_stacks_is_no_concern() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("lost+found");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("file"), "").unwrap();
        fs::set_permissions(foreign.join("file"), fs::Permissions::from_mode(0o666)).unwrap();
        // Only root may look into it.
        fs::set_permissions(&foreign, fs::Permissions::from_mode(0o000)).unwrap();
        let check = permissions(folder.path(), &files(folder.path()).unwrap());
        assert_eq!(check.state, State::Ok, "{check}");
        fs::set_permissions(&foreign, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_file_that_everybody_may_change_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("quarantine");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("batch"), "").unwrap();
        let check = || permissions(folder.path(), &files(folder.path()).unwrap());
        assert_eq!(check().state, State::Ok);
        fs::set_permissions(below.join("batch"), fs::Permissions::from_mode(0o646)).unwrap();
        let found = check();
        assert_eq!(found.state, State::Problem);
        assert!(found.to_string().ends_with(&format!("chmod o-w {}", below.join("batch").display())), "{found}");
    }
}
