//! The machine, the versions and the code behind the figures.

use std::{env, fs, path::Path, process::Command};

use local_stack::redis_server;
use serde::{Deserialize, Serialize};

/// The file with the versions of dependencies.
const CARGO_LOCK: &str = include_str!("../../../Cargo.lock");
const GIB: f64 = 1_048_576.0;

/// The measuring machine.
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
        let kib = field("/proc/meminfo", "MemTotal").and_then(|text| text.strip_suffix(" kB")?.parse::<f64>().ok());
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            processor: known(field("/proc/cpuinfo", "model name")),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            memory_gib: kib.map_or(0.0, |kib| (kib / GIB * 10.0).round() / 10.0),
            kernel: known(kernel.map(|text| text.trim().to_owned())),
            system: known(field("/etc/os-release", "PRETTY_NAME")),
            versions: versions(),
        }
    }

    /// Whether measurements on the two machines are comparable.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.processor, self.cores) == (&other.processor, other.cores)
    }
}

/// The time, settings and code of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// RFC 3339, UTC.
    pub(crate) began: String,
    pub(crate) took_s: f64,
    /// Load averages of the last minute at the start and at the end. The one at the end includes the measurement's own
    /// work.
    pub(crate) load_before: Option<f64>,
    pub(crate) load_after: Option<f64>,
    pub(crate) is_quick: bool,
    pub(crate) command: String,
    /// The git commit; empty without git.
    pub(crate) commit: String,
    /// Whether the code had uncommitted changes.
    pub(crate) is_dirty: bool,
    /// Why it ended early, if it did.
    #[serde(default)]
    pub(crate) failure: Option<String>,
}

fn known(text: Option<String>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

fn versions() -> Vec<(String, String)> {
    let mut versions = vec![("bench".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    let mut add = |name: &str, version: Option<String>| {
        if let Some(version) = version {
            versions.push((name.to_owned(), version));
        }
    };
    add("dynoxide-rs (the engine)", locked("dynoxide-rs"));
    add("rustc", first_line("rustc", &["--version"]).map(|line| word(&line, 1)));
    // "Redis server v=7.0.15 sha=..."
    let redis = env::var(redis_server::PROGRAM_VARIABLE).unwrap_or_else(|_| "redis-server".to_owned());
    let version = first_line(&redis, &["--version"]);
    add("redis-server", version.and_then(|line| Some(line.split("v=").nth(1)?.split(' ').next()?.to_owned())));
    // "postgres (PostgreSQL) 17.6 (Debian 17.6-0+deb13u1)"
    add("PostgreSQL", postgres().and_then(|line| Some(line.split(") ").nth(1)?.split(' ').next()?.to_owned())));
    versions
}

fn word(line: &str, place: usize) -> String {
    line.split(' ').nth(place).unwrap_or(line).to_owned()
}

/// The version of a dependency.
fn locked(name: &str) -> Option<String> {
    let mut lines = CARGO_LOCK.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    Some(lines.nth(1)?.strip_prefix("version = ")?.trim_matches('"').to_owned())
}

/// Debian keeps the server off the PATH, with one folder per version.
fn postgres() -> Option<String> {
    first_line("postgres", &["--version"]).or_else(|| {
        let folders = fs::read_dir("/usr/lib/postgresql").ok()?;
        let mut programs: Vec<_> = folders.flatten().map(|folder| folder.path().join("bin/postgres")).collect();
        programs.sort();
        first_line(programs.last()?.to_str()?, &["--version"])
    })
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    if output.status.success() { Some(text.lines().next().unwrap_or_default().to_owned()) } else { None }
}

/// The record of a run that starts now.
pub(crate) fn beginning(is_quick: bool) -> Run {
    Run {
        began: process::now().to_string(),
        took_s: 0.0,
        load_before: load_average(),
        load_after: None,
        is_quick,
        command: command(env::args()),
        commit: first_line("git", &["rev-parse", "HEAD"]).unwrap_or_default(),
        is_dirty: first_line("git", &["status", "--porcelain"]).is_some_and(|line| !line.is_empty()),
        failure: None,
    }
}

/// The load average of the last minute.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// A command as typed, with only the name of the program.
fn command(mut arguments: impl Iterator<Item = String>) -> String {
    let program = arguments.next().unwrap_or_default();
    let program = Path::new(&program).file_name().map_or(program.clone(), |name| name.to_string_lossy().into_owned());
    let plain = |text: &str| text.chars().all(|character| character.is_alphanumeric() || "-_./,=:".contains(character));
    let quoted = arguments.map(|text| match !text.is_empty() && plain(&text) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    });
    std::iter::once(program).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_again() {
        let typed = |arguments: &[&str]| command(arguments.iter().map(|text| (*text).to_owned()));
        assert_eq!(typed(&["target/release/bench", "--only", "api,lag"]), "bench --only api,lag");
        assert_eq!(typed(&["bench", "--data", "a file", "it's", ""]), r"bench --data 'a file' 'it'\''s' ''");
    }

    #[test]
    fn the_engines_version_is_the_locked_one() {
        assert_eq!(locked("dynoxide-rs").as_deref(), Some("3.2.0"));
        assert_eq!(locked("no such crate"), None);
    }
}
