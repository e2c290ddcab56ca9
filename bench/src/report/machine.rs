//! The machine, the versions and the code behind the figures, and the load before a measurement.

use std::{env, fmt, fs, process::Command, thread::available_parallelism, time::Duration};

use itertools::Itertools;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

const CARGO_LOCK: &str = include_str!("../../../Cargo.lock");
/// Highest load at which a measurement begins.
const LOAD_MAX: f64 = 0.5;
const QUIET_WITHIN: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_secs(5);

/// This machine and its versions, in one line.
pub(super) fn this_machine() -> String {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or("unknown").trim_start_matches([' ', '\t', ':']).to_owned()
    };
    let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let (processor, memory) = (field("/proc/cpuinfo", "model name"), field("/proc/meminfo", "MemTotal"));
    let (cores, kernel) = (available_parallelism().map_or(0, Into::into), field("/proc/sys/kernel/osrelease", ""));
    let engine = known(locked("dynoxide-rs"));
    let [rustc, redis, postgres] =
        ["rustc", "redis-server", "postgres"].map(|name| known(first_line(name, &["--version"])));
    format!("{processor}, {cores} cores, {memory}, kernel {kernel}. dynoxide-rs {engine}, {rustc}, {redis}, {postgres}")
}

fn locked(name: &str) -> Option<String> {
    let mut lines = CARGO_LOCK.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    Some(lines.nth(1)?.strip_prefix("version = ")?.trim_matches('"').to_owned())
}

/// The first line that a program prints; `None` if it fails or prints nothing.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    text.lines().next().map(str::to_owned)
}

/// The time, command and code of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    began: String,
    pub(super) took_s: f64,
    load_before: Option<f64>,
    is_quick: bool,
    command: String,
    /// The git commit; empty without git.
    commit: String,
    is_dirty: bool,
    /// Why it ended early, if it did.
    pub(super) failure: Option<String>,
}

impl Run {
    pub(super) fn begin(is_quick: bool) -> Self {
        Self {
            began: process::now().to_string(),
            load_before: load_average(),
            is_quick,
            command: env::args().skip(1).join(" "),
            commit: first_line("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default(),
            is_dirty: first_line("git", &["status", "--porcelain"]).is_some(),
            ..Self::default()
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { began, took_s, load_before, is_quick, command, commit, is_dirty, failure } = self;
        let load = load_before.unwrap_or(f64::NAN);
        let (quick, dirty) = (if *is_quick { ", quick" } else { "" }, if *is_dirty { " with changes" } else { "" });
        write!(
            formatter,
            "{began}, {took_s:.0} s{quick}; load before {load:.2}; commit {commit}{dirty}; `bench {command}`"
        )?;
        failure.as_ref().map_or(Ok(()), |failure| write!(formatter, "; FAILED: {failure}"))
    }
}

/// Waits some minutes until the load average of the last minute is low.
pub(super) async fn wait_until_quiet() {
    let began = Instant::now();
    while load_average().is_some_and(|load| load > LOAD_MAX) && began.elapsed() < QUIET_WITHIN {
        eprintln!("waiting for a quiet machine: its load is {:.2}", load_average().unwrap_or_default());
        sleep(PAUSE).await;
    }
}

fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}
