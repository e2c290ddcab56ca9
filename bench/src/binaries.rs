//! The project's binaries that are measured as processes. Cargo builds those that are missing beside `bench` or out of
//! date.
//!
//! `make bench` builds all in one command. Cargo then gives their dependencies the same features and compiles them once.
//! Another choice of packages may select other features and build everything anew. So the command here is the Makefile's.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

use anyhow::{Context, ensure};

/// The packages that the Makefile builds.
const PACKAGES: [&str; 3] = ["bench", "api", "repair-job"];

/// The release binary of a name, from the code as it is now.
pub(crate) fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if !is_up_to_date(&path) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a folder")?;
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--release"]).args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        let built = cargo.current_dir(root).stdin(Stdio::null()).status()?;
        ensure!(built.success(), "cargo does not build {name}: {built}");
    }
    ensure!(path.is_file(), "{} is not there: run bench from the folder that cargo builds it in", path.display());
    Ok(path)
}

/// Whether the binary is younger than `Cargo.lock` and than every source file that cargo lists beside the binary.
fn is_up_to_date(binary: &Path) -> bool {
    let modified = |path: &Path| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let Some(built) = modified(binary) else { return false };
    let Ok(note) = fs::read_to_string(binary.with_extension("d")) else { return false };
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    let is_older = |path: &PathBuf| modified(path).is_some_and(|modified| modified <= built);
    sources(&note).iter().chain([&lock]).all(is_older)
}

/// The files that cargo lists, as in "binary: file file". A space within a name has a backslash before it.
fn sources(note: &str) -> Vec<PathBuf> {
    let files = note.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, files)| files);
    let files = files.replace("\\ ", "\0");
    files.split_whitespace().map(|file| PathBuf::from(file.replace('\0', " "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_up_to_date_while_nothing_that_it_is_made_of_is_younger() {
        let folder = tempfile::tempdir().unwrap();
        let (binary, source) = (folder.path().join("api"), folder.path().join("a source.rs"));
        assert!(!is_up_to_date(&binary), "there is none");
        fs::write(&source, "").unwrap();
        fs::write(&binary, "").unwrap();
        assert!(!is_up_to_date(&binary), "nothing says what it is made of");
        let escaped = source.to_str().unwrap().replace(' ', "\\ ");
        fs::write(binary.with_extension("d"), format!("{}: {escaped}\n", binary.display())).unwrap();
        let set = |path: &Path, time| fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        set(&binary, later);
        assert!(is_up_to_date(&binary));
        set(&source, later + std::time::Duration::from_secs(1));
        assert!(!is_up_to_date(&binary), "its source is younger");
        fs::remove_file(&source).unwrap();
        assert!(!is_up_to_date(&binary), "its source is gone");
    }
}
