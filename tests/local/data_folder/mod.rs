//! Commands on a data folder work whether its stack runs or not. Each is one process that an
//! operator starts.

mod commands;
mod damage;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod ports;
mod public;
mod restored;
mod stop;

use std::path::Path;

use crate::fixture::{
    http::WRITE_TOKEN,
    pagemark::{self, Up},
    program::Ended,
};

const _: crate::Engines = crate::Engines::Embedded("a data folder has the embedded engine");

/// The start of a line that a command prints when it runs a stack itself.
const RUNS_ONE: &str = "no stack runs on ";

async fn up(folder: &Path) -> Up {
    Up::start(folder, &["--demo", "0", "--write-token", WRITE_TOKEN]).await
}

fn on<'a>(folder: &'a Path, command: &[&'a str]) -> Vec<&'a str> {
    [command, &["--data-dir", folder.to_str().unwrap()]].concat()
}

async fn run(folder: &Path, command: &[&str]) -> Ended {
    pagemark::run(&on(folder, command)).await
}

/// Asserts that a command failed with one line about a folder, and returns that line.
#[track_caller]
fn refused(ended: Ended, folder: &Path) -> String {
    let ended = ended.expect(1);
    assert_eq!(ended.stdout, "", "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains(folder.to_str().unwrap()), "{ended:?}");
    ended.stderr
}
