//! The machine, the versions and the code behind the figures.

use std::{env, fs, process::Command, thread::available_parallelism};

use itertools::Itertools;

/// In the line of a run whose figures show little.
pub(crate) const QUICK: &str = ", quick";
const CARGO_LOCK: &str = include_str!("../../../Cargo.lock");

/// This machine and its versions, in one line.
pub(super) fn this_machine() -> String {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or("unknown")
            .trim_start_matches([' ', '\t', ':'])
            .to_owned()
    };
    let (processor, memory) = (
        field("/proc/cpuinfo", "model name"),
        field("/proc/meminfo", "MemTotal"),
    );
    let (cores, kernel) = (
        available_parallelism().map_or(0, Into::into),
        field("/proc/sys/kernel/osrelease", ""),
    );
    let mut engine = CARGO_LOCK
        .lines()
        .skip_while(|line| *line != "name = \"dynoxide-rs\"");
    let engine = engine.nth(1).unwrap_or_default();
    let [rustc, redis, postgres] =
        ["rustc", "redis-server", "postgres"].map(|name| first_line(name, &["--version"]));
    format!(
        "{processor}, {cores} cores, {memory}, kernel {kernel}. Engine {engine}, {rustc}, {redis}, {postgres}"
    )
}

/// When, how and with which code a measurement begins, in one line.
pub(super) fn this_run(is_quick: bool) -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
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
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    text.lines()
        .next()
        .map_or_else(|| format!("no {program}"), str::to_owned)
}
