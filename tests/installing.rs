//! On a fresh machine, the scripts install missing programs with the available package manager, after one line that
//! says so. When installing is forbidden, they print the command to type. The package managers of four systems cannot
//! all run here, so small programs with their names record how they were called.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

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
