//! The machine, the versions and the code behind the figures.

use std::{env, fs, process::Command, thread::available_parallelism};

use itertools::Itertools;

/// In the line of a run whose figures show little.
pub(crate) const QUICK: &str = ", quick";
const CARGO_LOCK: &str = include_str!("../../../Cargo.lock");

/// This machine and its versions, in one line.
pub(super) fn this_machine() -> String {
    let processor = field("/proc/cpuinfo", "model name");
    let cores: usize = match available_parallelism() {
        Ok(cores) => cores.into(),
        Err(_) => 0,
    };
    let memory = field("/proc/meminfo", "MemTotal");
    let kernel = field("/proc/sys/kernel/osrelease", "");
    // The line after a package's name has its version.
    let mut package = CARGO_LOCK
        .lines()
        .skip_while(|line| *line != "name = \"dynoxide-rs\"");
    let engine = package.nth(1).unwrap_or_default();
    let rustc = first_line("rustc", &["--version"]);
    let redis = first_line("redis-server", &["--version"]);
    let postgres = first_line("postgres", &["--version"]);
    format!(
        "{processor}, {cores} cores, {memory}, kernel {kernel}. Engine {engine}, {rustc}, {redis}, {postgres}"
    )
}

/// The text after the name, in the first line of a file that begins with it.
fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or("unknown")
        .trim_start_matches([' ', '\t', ':'])
        .to_owned()
}

/// When, how and with which code a measurement begins, in one line.
pub(super) fn this_run(is_quick: bool) -> String {
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = loads.split(' ').next().unwrap_or_default();
    let commit = first_line("git", &["describe", "--always", "--dirty"]);
    let quick = if is_quick { QUICK } else { "" };
    format!(
        "{}, load {load}{quick}, commit {commit}, `bench {}`",
        process::now(),
        env::args().skip(1).join(" ")
    )
}

/// The first line that a program prints.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let printed = output.map(|output| output.stdout).unwrap_or_default();
    match String::from_utf8_lossy(&printed).lines().next() {
        Some(line) => line.to_owned(),
        None => format!("no {program}"),
    }
}
