//! A small disk, which can be full.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// Enough for the data of a soak of hours, with an engine that keeps its stream records, and quick to
/// fill.
const SIZE: &str = "size=1g";

/// A file system in memory. Without the right to mount one it is a folder, and is never full.
pub(super) struct Disk {
    folder: TempDir,
    is_mounted: bool,
}

impl Disk {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", SIZE, "pagemark-soak"])
            .arg(folder.path());
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        if !is_mounted {
            println!("soak: no disk will be full, because only root can mount a small one");
        }
        Self { folder, is_mounted }
    }

    pub(super) fn can_be_full(&self) -> bool {
        self.is_mounted
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Leaves no byte free.
    pub(super) fn fill(&self) {
        let mut filler = File::create(self.filler()).unwrap();
        for bytes in [1 << 20, 4096, 1] {
            let part = vec![0_u8; bytes];
            while filler.write_all(&part).is_ok() {}
        }
    }

    pub(super) fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            // Processes that were just killed may still have files open.
            let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
            if !unmounted.is_ok_and(|status| status.success()) {
                println!("soak: {} stays mounted", self.path().display());
            }
        }
    }
}
