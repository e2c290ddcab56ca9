//! The project's binaries that are measured as processes.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use anyhow::{Context, ensure};

/// The packages that the Makefile builds in one command. Cargo then gives their dependencies the same features and
/// compiles them once. Another choice of packages may select other features and build everything anew.
const PACKAGES: [&str; 4] = ["bench", "api", "repair-job", "local-stack"];

/// The folder of the release binaries, once cargo has built what was missing or out of date.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// The release binary of a name, from the code as it was when the first binary was asked for.
pub(crate) fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let folder = match FOLDER.get() {
        Some(folder) => folder,
        None => {
            let built = build()?;
            FOLDER.get_or_init(|| built)
        }
    };
    let path = folder.join(name);
    ensure!(path.is_file(), "{} is not there: run bench from the folder that cargo builds it in", path.display());
    Ok(path)
}

/// Builds all binaries beside `bench`, in the target folder that it was built in. Returns their folder.
fn build() -> anyhow::Result<PathBuf> {
    let bench = std::env::current_exe()?;
    let folder = bench.parent().context("bench has a folder")?;
    let target = folder.parent().context("the folder of bench has a parent")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a folder")?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--release", "--target-dir"]).arg(target);
    cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    let built = cargo.current_dir(root).stdin(Stdio::null()).status()?;
    ensure!(built.success(), "cargo does not build {PACKAGES:?}: {built}");
    Ok(folder.to_owned())
}
