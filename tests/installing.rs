//! On a fresh machine, the scripts install missing programs with the available package manager, after one line that
//! says so. When installing is forbidden, they print the command to type. The package managers of four systems cannot
//! all run here, so small programs with their names record how they were called.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use regex_lite::Regex;
use tempfile::TempDir;

use crate::fixture::target_folder;

/// A machine with only a shell, a few basic programs, and one package manager.
struct Machine {
    programs: TempDir,
}

impl Machine {
    fn new(manager: &str) -> Self {
        let machine = Self { programs: tempfile::tempdir().unwrap() };
        for program in ["sh", "cat", "chmod", "dirname", "env", "grep", "id", "mktemp", "rm", "sed", "tail"] {
            let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
                .map(|folder| folder.join(program))
                .find(|path| path.exists());
            std::os::unix::fs::symlink(found.unwrap(), machine.path(program)).unwrap();
        }
        let log = machine.path("calls");
        // The package manager installs a server of the newest version at the expected path.
        machine.add(
            manager,
            &format!(
                "echo \"$@\" >>{log}; printf '#!/bin/sh\\necho Redis server v=7.4.0\\n' >{server}; chmod +x {server}",
                log = log.display(),
                server = machine.path("redis-server").display(),
            ),
        );
        machine
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.programs.path().join(name)
    }

    fn add(&self, name: &str, script: &str) {
        // If the path is a link to the real program, writing would change that program.
        let _absent = fs::remove_file(self.path(name));
        fs::write(self.path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A user who is not root. `sudo` exists but needs a password.
    fn without_root(self) -> Self {
        self.add("id", "echo 1000");
        self.add("sudo", "exit 1");
        self
    }

    fn ensure_redis(&self, variables: &[(&str, &str)]) -> Output {
        Command::new(self.path("sh"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/ensure-redis.sh"))
            .env_clear()
            .env("PATH", self.programs.path())
            .envs(variables.iter().copied())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
    }

    /// The recorded calls of the package manager.
    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_missing_server_is_installed_with_one_line() {
    for (manager, package) in [("apt-get", "redis-server"), ("dnf", "valkey"), ("apk", "redis"), ("brew", "redis")] {
        let machine = Machine::new(manager);
        machine.add("id", "echo 0");
        let ensured = machine.ensure_redis(&[]);
        assert!(ensured.status.success(), "{manager}: {}", said(&ensured));
        assert_eq!(said(&ensured), format!("installing redis-server: {package}\n"));
        assert!(machine.calls().lines().last().unwrap().ends_with(package), "{manager}: {}", machine.calls());
        // The server is now installed.
        assert_eq!(said(&machine.ensure_redis(&[])), "");
    }
}

#[test]
fn nothing_is_installed_where_it_is_forbidden_or_needs_a_password() {
    let forbidden = [("PAGEMARK_INSTALL", "no")];
    for (machine, variables) in
        [(Machine::new("apt-get"), forbidden.as_slice()), (Machine::new("apt-get").without_root(), [].as_slice())]
    {
        let ensured = machine.ensure_redis(variables);
        assert!(!ensured.status.success());
        assert!(said(&ensured).contains("    sudo apt-get install redis-server\n"), "{}", said(&ensured));
        assert_eq!(machine.calls(), "");
    }
}

#[test]
fn a_failed_installation_shows_its_end() {
    let machine = Machine::new("dnf");
    machine.add("id", "echo 0");
    machine.add("dnf", "echo no such package; exit 3");
    let ensured = machine.ensure_redis(&[]);
    assert!(!ensured.status.success());
    assert!(said(&ensured).contains("no such package\n"), "{}", said(&ensured));
    assert!(said(&ensured).contains("    sudo dnf install valkey\n"), "{}", said(&ensured));
}

/// The files that run programs: the Makefile, scripts, and the description of each image.
fn recipes() -> Vec<(String, String)> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![project.join("Makefile"), project.join("bench/src/binaries.rs")];
    for (folder, ending) in [("scripts", "sh"), ("infra", "Containerfile")] {
        let entries = fs::read_dir(project.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|path| path.to_string_lossy().ends_with(ending)));
    }
    files.into_iter().map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn cargo_builds_the_locked_versions_everywhere() {
    let builds =
        Regex::new(r#"cargo (auditable )?(build|check|clippy|doc|install|run|test|zigbuild)\b|args\(\["build""#)
            .unwrap();
    let mut found = 0;
    for (file, text) in recipes() {
        for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', '/']) && builds.is_match(line)) {
            assert!(line.contains("--locked"), "{file}: {line}");
            found += 1;
        }
    }
    assert!(found > 10, "{found}");
}

#[test]
fn every_image_begins_from_nothing_or_from_a_digest() {
    let mut found = 0;
    for (file, text) in recipes().into_iter().filter(|(file, _)| file.ends_with("Containerfile")) {
        for base in text.lines().filter_map(|line| line.strip_prefix("FROM ")) {
            assert!(base == "scratch" || base.contains("@sha256:"), "{file}: {base}");
            found += 1;
        }
    }
    assert_eq!(found, 2);
}

#[test]
fn unchecked_advisories_are_named_and_can_be_an_error() {
    let check = |required: &str| {
        Command::new("sh")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/check-advisories.sh"))
            .env("CARGO_TARGET_DIR", target_folder())
            // Git reaches no server through a proxy that refuses connections.
            .envs([("https_proxy", "http://127.0.0.1:9"), ("PAGEMARK_ADVISORIES", required)])
            .output()
            .unwrap()
    };
    let line = "advisories were not checked: their database could not be fetched";
    for (required, succeeds) in [("", true), ("required", false)] {
        let checked = check(required);
        assert!(said(&checked).starts_with(line), "{}", said(&checked));
        assert_eq!(checked.status.success(), succeeds);
    }
}

#[test]
fn every_pinned_python_package_is_locked_with_its_hashes() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
    let files = fs::read_dir(&scripts).unwrap().map(|entry| entry.unwrap().path());
    let pins: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "in")).collect();
    assert!(!pins.is_empty());
    for path in pins {
        let list = fs::read_to_string(path.with_extension("txt")).unwrap();
        let lines: Vec<&str> = list.lines().collect();
        for package in lines.windows(2).filter(|pair| pair[0].contains("==")) {
            assert!(package[1].starts_with("    --hash=sha256:"), "{}: {}", path.display(), package[0]);
        }
        for pin in fs::read_to_string(&path).unwrap().lines().filter(|line| !line.starts_with('#')) {
            let (name, version) = pin.split_once("==").unwrap();
            // A package's extras are packages of their own in the list.
            let locked = format!("{}=={version} ", name.split('[').next().unwrap());
            assert!(lines.iter().any(|line| line.starts_with(&locked)), "{pin} of {} is not locked", path.display());
        }
    }
}
