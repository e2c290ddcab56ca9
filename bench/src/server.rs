//! Servers of a measurement: Redis, PostgreSQL, the API. Each has a folder in memory, which holds
//! its log.
//!
//! **Invariant: no server outlives the measurement.** A shell reads from a pipe, and at its end it
//! signals the server to end. The pipe ends when the server is dropped, and when this process ends
//! in any way.

use std::{
    env, fs,
    fs::File,
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// The file with what a server prints.
pub(crate) const LOG: &str = "log";

/// A folder in memory if the system has one, so that the measurement uses no disk.
pub(crate) fn folder() -> anyhow::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        TempDir::with_prefix_in("pagemark-bench-", memory)
    } else {
        TempDir::new()
    };
    folder.context("a folder for the data")
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// A release binary of this project, built beside this program.
pub(crate) fn own_binary(name: &str) -> anyhow::Result<PathBuf> {
    let path = env::current_exe()?.with_file_name(name);
    ensure!(
        path.is_file(),
        "{} is not there; `make bench` builds it",
        path.display()
    );
    Ok(path)
}

/// The folder of a server.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self(folder()?))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts the server and waits until `connect` succeeds. `signal` ends it at once.
    pub(crate) async fn start<Client>(
        self,
        command: &mut Command,
        signal: &str,
        connect: impl AsyncFn() -> anyhow::Result<Client>,
    ) -> anyhow::Result<(ServerProcess, Client)> {
        let log = self.path(LOG);
        let program = command.get_program().to_string_lossy().into_owned();
        let output = File::create(&log)?;
        let child = command
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn();
        let mut child = child.with_context(|| program.clone())?;
        let watchdog = watchdog(child.id(), signal)
            .inspect_err(|_| end(&mut child))
            .with_context(|| format!("a shell that ends {program}"))?;
        let mut server = ServerProcess {
            child,
            watchdog,
            _folder: self.0,
        };
        let began = Instant::now();
        loop {
            let error = match connect().await {
                Ok(client) => return Ok((server, client)),
                Err(error) => error,
            };
            let ended = server.child.try_wait()?;
            if ended.is_some() || began.elapsed() > READY_WITHIN {
                bail!(
                    "{program} does not answer ({error:#}):\n{}",
                    fs::read_to_string(&log)?
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| program.clone())?;
    ensure!(
        output.status.success(),
        "{program} fails:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

pub(crate) struct ServerProcess {
    child: Child,
    watchdog: Child,
    /// Removed after the server has ended.
    _folder: TempDir,
}

impl ServerProcess {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // At the end of its input, the shell signals the server to end. This fails only for a shell
        // that is gone.
        drop(self.watchdog.stdin.take());
        self.watchdog.wait().ok();
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < ENDS_WITHIN {
            std::thread::sleep(POLL);
        }
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // Both calls fail only for a process that has ended and been collected already.
    child.kill().ok();
    child.wait().ok();
}

/// A shell that signals a process when the shell's input ends.
fn watchdog(pid: u32, signal: &str) -> std::io::Result<Child> {
    Command::new("/bin/sh")
        .args([
            "-c",
            r#"read -r line; kill -"$2" "$1""#,
            "sh",
            &pid.to_string(),
            signal,
        ])
        // A separate group, so that a kill of the parent's whole process group does not reach the
        // shell.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// The resident memory of a process.
pub(crate) fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("this needs Linux")?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"));
    Ok(kib.context("VmRSS")?.trim().parse::<u64>()? * 1024)
}

/// The processor time of a process, to the hundredth of a second, in which Linux counts it.
pub(crate) fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("this needs Linux")?;
    // The second field is the program's name in brackets, which may contain spaces. Fields 14 and
    // 15 are user and system time.
    let (_, fields) = stat.rsplit_once(')').context("a line of /proc")?;
    let mut ticks = 0;
    for number in 14..=15 {
        let field = fields.split_whitespace().nth(number - 3);
        let field: u32 = field
            .context("a line of /proc")?
            .parse()
            .context("a number of ticks")?;
        ticks += field;
    }
    Ok(Duration::from_millis(10) * ticks)
}
