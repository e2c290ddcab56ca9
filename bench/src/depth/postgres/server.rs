//! A separate PostgreSQL for the measurement, on a free loopback port.
//!
//! **Invariant: it does not outlive the measurement.** A shell waits for the end of its input, which comes when the
//! server is dropped, or when this process ends in any way. Then the shell signals the server to quit.
//!
//! PostgreSQL refuses to run as root. Then it runs as the user `postgres`, which its packages create.

use std::{
    env, fs,
    fs::File,
    net::{Ipv4Addr, TcpListener},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::workload::folder;

/// The variable that names the folder of `postgres` and `initdb`, instead of the search for them.
const FOLDER_VARIABLE: &str = "PAGEMARK_POSTGRES_BIN";
/// Debian keeps the programs of version N in `N/bin` below this folder, and not on the PATH.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";
/// The user and the database; also the operating system's user when this process runs as root.
const NAME: &str = "postgres";
/// A busy machine may take long to create a data folder. An answer comes within a second.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// An immediate quit has nothing to write.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Differences from the defaults. Memory settings: everything fits into memory, like in the other stores here, and the
/// planner knows that (`random_page_cost`); a sort of a million rows need not use a file. All others but `jit` concern
/// only writing. Compiling statements (`jit`) would cost these short statements more than it saves.
pub(super) const SETTINGS: [&str; 12] = [
    "shared_buffers=2GB",
    "effective_cache_size=4GB",
    "work_mem=256MB",
    "maintenance_work_mem=512MB",
    "random_page_cost=1.1",
    "jit=off",
    "fsync=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=4GB",
    "autovacuum=off",
    "unix_socket_directories=",
];

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    port: u16,
    child: Child,
    watchdog: Child,
    /// Removed after the server has ended.
    _folder: TempDir,
}

impl Server {
    /// Creates a data folder in memory, starts a server on it, and waits until it answers.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let (programs, user, folder) = (programs()?, user_to_run_as()?, folder()?);
        let command = |program: &Path| {
            let mut command = Command::new(program);
            // That user may not be allowed to enter the current folder.
            command.current_dir("/");
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid), Some(gid))?;
        }
        let data = folder.path().join("data");
        let made = command(&programs.join("initdb"))
            .args(["--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"])
            .args(["--username", NAME, "--pgdata"])
            .arg(&data)
            .output()
            .context("initdb")?;
        ensure!(made.status.success(), "initdb makes no data folder:\n{}", String::from_utf8_lossy(&made.stderr));

        // The port was free a moment ago.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = folder.path().join("log");
        let output = File::create(&log)?;
        let mut postgres = command(&programs.join("postgres"));
        postgres.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        postgres.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        let mut child = postgres.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn()?;
        let watchdog = watchdog(child.id()).inspect_err(|_| end(&mut child)).context("a shell that ends PostgreSQL")?;
        let mut server = Self { port, child, watchdog, _folder: folder };
        let began = Instant::now();
        while let Err(error) = server.connect().await {
            let ended = server.child.try_wait()?;
            if ended.is_some() || began.elapsed() > READY_WITHIN {
                bail!("PostgreSQL does not answer ({error:#}):\n{}", fs::read_to_string(&log)?);
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(server)
    }

    /// A connection that lasts until the client is dropped.
    pub(super) async fn connect(&self) -> anyhow::Result<Client> {
        let address = format!("host=127.0.0.1 port={} user={NAME} dbname={NAME}", self.port);
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
        // It ends with the client. If it ends earlier, the next statement fails.
        tokio::spawn(connection);
        Ok(client)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // At the end of its input, the shell signals the server to quit. This fails only for a shell that is gone.
        drop(self.watchdog.stdin.take());
        self.watchdog.wait().ok();
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < ENDS_WITHIN {
            std::thread::sleep(POLL);
        }
        end(&mut self.child);
    }
}

/// Kills and collects a process.
fn end(child: &mut Child) {
    // Both calls fail only for a process that has ended and been collected already.
    child.kill().ok();
    child.wait().ok();
}

/// A shell that signals a process to quit when the shell's input ends.
fn watchdog(pid: u32) -> std::io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", r#"read -r line; kill -QUIT "$1""#, "sh", &pid.to_string()])
        // A separate group, so that a kill of the parent's whole process group does not reach the shell.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// The user and the group to run as: others if this process runs as root.
fn user_to_run_as() -> anyhow::Result<Option<(u32, u32)>> {
    let id = |arguments: &[&str]| -> anyhow::Result<u32> {
        let output = Command::new("id").args(arguments).output().context("id")?;
        let text = String::from_utf8(output.stdout)?;
        text.trim().parse().with_context(|| format!("id {arguments:?} answers {text:?}"))
    };
    if id(&["-u"])? == 0 { Ok(Some((id(&["-u", NAME])?, id(&["-g", NAME])?))) } else { Ok(None) }
}

/// The folder of the programs: the one that the environment names, otherwise the first on the PATH, otherwise Debian's
/// newest.
fn programs() -> anyhow::Result<PathBuf> {
    let has_both = |folder: &PathBuf| ["postgres", "initdb"].iter().all(|program| folder.join(program).is_file());
    if let Some(folder) = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        return Some(PathBuf::from(folder))
            .filter(has_both)
            .with_context(|| format!("{FOLDER_VARIABLE} has no postgres"));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let of_debian = || -> Option<PathBuf> {
        let versions = fs::read_dir(DEBIAN_VERSIONS).ok()?;
        let version = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
        let mut folders: Vec<PathBuf> = versions.filter_map(|version| Some(version.ok()?.path())).collect();
        folders.sort_by_key(version);
        folders.into_iter().rev().map(|folder| folder.join("bin")).find(has_both)
    };
    env::split_paths(&path)
        .find(has_both)
        .or_else(of_debian)
        .context("PostgreSQL was not found; scripts/ensure-postgres.sh says how to get it, `make bench` asks it")
}
