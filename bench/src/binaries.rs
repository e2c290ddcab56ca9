//! The project's binaries that are measured as processes.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};

/// The packages that the Makefile builds in one command. Cargo then gives their dependencies the same features and
/// compiles them once. Another choice of packages may select other features and build everything anew.
const PACKAGES: [&str; 3] = ["bench", "api", "repair-job"];

/// The release binary of a name, from the code as it is now: cargo builds what is missing or out of date.
pub(crate) fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a folder")?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release"]).args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    let built = cargo.current_dir(root).stdin(Stdio::null()).status()?;
    ensure!(built.success(), "cargo does not build {name}: {built}");
    ensure!(path.is_file(), "{} is not there: run bench from the folder that cargo builds it in", path.display());
    Ok(path)
}
