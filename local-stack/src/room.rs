//! The room on the disk of a data folder. When there is none, the engine refuses writes, and what
//! was written before can still be read. So the stack keeps running: it says why it takes no
//! writes, once, until there is room again. The mappings repeat what fails meanwhile.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// With less, the disk counts as full. A comment with its duplicates takes up to 60 KB.
const ROOM_MIN: u64 = 1 << 20;

/// The bytes that are free for the user of this process.
pub(crate) fn room(folder: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(folder)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Keeps `is_full` up to date until it is dropped, and logs changes.
pub(crate) async fn watch_room(folder: PathBuf, is_full: Arc<AtomicBool>) {
    loop {
        let found = room(&folder).is_ok_and(|free| free < ROOM_MIN);
        let before = is_full.swap(found, Ordering::Relaxed);
        let folder = folder.display();
        match (before, found) {
            (false, true) => {
                tracing::error!(%folder, "the disk is full: nothing can be written until there is room")
            }
            (true, false) => tracing::info!(%folder, "the disk has room again"),
            _ => {}
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_disk_counts_as_full_while_it_has_no_room() {
        let is_full = Arc::<AtomicBool>::default();
        let folder = tempfile::tempdir().unwrap();
        // `/proc` never has room.
        for (folder, expected) in [(Path::new("/proc"), true), (folder.path(), false)] {
            assert_eq!(
                watch_room(folder.to_owned(), Arc::clone(&is_full)).now_or_never(),
                None
            );
            assert_eq!(
                is_full.load(Ordering::Relaxed),
                expected,
                "{}",
                folder.display()
            );
        }
    }
}
