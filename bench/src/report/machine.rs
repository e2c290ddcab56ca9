//! The machine, the versions and the code behind the figures.

use std::{env, fs, process::Command};

use itertools::Itertools;
use redis_server::PROGRAM_VARIABLE;
use serde::{Deserialize, Serialize};

/// The file with the versions of dependencies.
const CARGO_LOCK: &str = include_str!("../../../Cargo.lock");
const KIB_A_GIB: f64 = 1_048_576.0;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    pub(crate) system: String,
    /// Names and versions of the measured and measuring software.
    pub(crate) versions: Vec<(String, String)>,
}

impl Machine {
    /// This machine. Values that it does not report are "unknown".
    pub(crate) fn this() -> Self {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches([' ', '\t', ':', '=']).trim_matches('"').to_owned())
        };
        let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
        let kib = field("/proc/meminfo", "MemTotal").and_then(|text| text.strip_suffix(" kB")?.parse::<f64>().ok());
        Self {
            processor: known(field("/proc/cpuinfo", "model name")),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            memory_gib: kib.map_or(0.0, |kib| (kib / KIB_A_GIB * 10.0).round() / 10.0),
            kernel: known(field("/proc/sys/kernel/osrelease", "")),
            system: known(field("/etc/os-release", "PRETTY_NAME")),
            versions: versions(),
        }
    }

    /// Whether measurements on the two machines are comparable.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.processor, self.cores) == (&other.processor, other.cores)
    }
}

/// The versions that are known. `depth` reports that of PostgreSQL.
fn versions() -> Vec<(String, String)> {
    let redis = env::var(PROGRAM_VARIABLE).unwrap_or_else(|_| "redis-server".to_owned());
    let versions = [
        ("bench", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("dynoxide-rs (the engine)", locked("dynoxide-rs")),
        // "rustc 1.95.0 (59807616e 2026-04-14)"
        ("rustc", first_line("rustc", &["--version"]).and_then(|line| Some(line.split(' ').nth(1)?.to_owned()))),
        // "Redis server v=7.0.15 sha=..."
        (
            "redis-server",
            first_line(&redis, &["--version"])
                .and_then(|line| Some(line.split("v=").nth(1)?.split(' ').next()?.to_owned())),
        ),
    ];
    versions.into_iter().filter_map(|(name, version)| Some((name.to_owned(), version?))).collect()
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

/// The time, settings and code of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// RFC 3339, UTC.
    pub(crate) began: String,
    pub(crate) took_s: f64,
    /// The load before the measurement ([`super::quiet`]), and the load average of the last minute at its end, which
    /// includes the measurement's own work.
    pub(crate) load_before: Option<f64>,
    pub(crate) load_after: Option<f64>,
    pub(crate) is_quick: bool,
    pub(crate) command: String,
    /// The git commit; empty without git.
    pub(crate) commit: String,
    /// Whether the code had uncommitted changes.
    pub(crate) is_dirty: bool,
    /// Why it ended early, if it did.
    pub(crate) failure: Option<String>,
}

impl Run {
    /// The record of a run that starts now.
    pub(crate) fn begin(is_quick: bool) -> Self {
        Self {
            began: process::now().to_string(),
            load_before: load_average(),
            is_quick,
            command: command(env::args().skip(1)),
            commit: first_line("git", &["rev-parse", "HEAD"]).unwrap_or_default(),
            is_dirty: first_line("git", &["status", "--porcelain"]).is_some(),
            ..Self::default()
        }
    }

    /// For example "2026-11-20 21:04 UTC, 42 s; load 0.31 when it began and 1.87 when it ended".
    pub(crate) fn text(&self) -> String {
        let minute: String = self.began.replacen('T', " ", 1).chars().take("2026-11-20 21:04".len()).collect();
        let load = |load: Option<f64>| load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
        let quick = if self.is_quick { ", a quick run" } else { "" };
        let (before, after) = (load(self.load_before), load(self.load_after));
        format!("{minute} UTC, {:.0} s{quick}; load {before} when it began and {after} when it ended", self.took_s)
    }

    /// The commit, and whether there were uncommitted changes.
    pub(crate) fn commit_text(&self) -> String {
        let short: String = self.commit.chars().take(12).collect();
        match (short.is_empty(), self.is_dirty) {
            (true, _) => "unknown".to_owned(),
            (false, true) => format!("{short} with changes that are not committed"),
            (false, false) => short,
        }
    }
}

/// The measurement's command as a shell accepts it.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let is_plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_./,=:".contains(c));
    let quoted = |text: String| if is_plain(&text) { text } else { format!("'{}'", text.replace('\'', r"'\''")) };
    std::iter::once("bench".to_owned()).chain(arguments.map(quoted)).join(" ")
}

pub(super) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_again() {
        let typed = |arguments: &[&str]| command(arguments.iter().map(|text| (*text).to_owned()));
        assert_eq!(typed(&["--only", "api,lag"]), "bench --only api,lag");
        assert_eq!(typed(&["--data", "a file", "it's", ""]), r"bench --data 'a file' 'it'\''s' ''");
    }

    #[test]
    fn the_engines_version_is_the_locked_one() {
        assert_eq!(locked("dynoxide-rs").as_deref(), Some("3.2.0"));
        assert_eq!(locked("no such crate"), None);
    }
}
