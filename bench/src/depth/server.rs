//! A separate database server for the measurement.
//!
//! **Invariant: it does not outlive the measurement.** A shell reads from a pipe, and at its end it signals the server
//! to end. The pipe ends when the server is dropped, and when this process ends in any way.
//!
//! Database servers refuse to run as root. Then they run as the user that their packages create.

use std::{
    env, fs,
    fs::File,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use crate::workload::folder;

/// A busy machine may take long to start a server. An answer comes within a second.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// A server that is to end has nothing to write.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const LOG: &str = "log";

/// The folder of a server, in memory, and the user that it runs as.
#[derive(Debug)]
pub(super) struct Home {
    folder: TempDir,
    user: Option<(u32, u32)>,
}

impl Home {
    /// A new folder. It belongs to the named user if this process runs as root.
    pub(super) fn new(user: &str) -> anyhow::Result<Self> {
        let (folder, user) = (folder()?, user_to_run_as(user)?);
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid), Some(gid))?;
        }
        Ok(Self { folder, user })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program that runs as the server's user.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // That user may not be allowed to enter the current folder.
        command.current_dir("/");
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Starts the server and waits until it answers: until `connect` succeeds. `signal` ends it at once.
    pub(super) async fn start<Client>(
        self,
        command: &mut Command,
        signal: &str,
        connect: impl AsyncFn() -> anyhow::Result<Client>,
    ) -> anyhow::Result<(Server, Client)> {
        let (log, program) = (self.path(LOG), command.get_program().to_string_lossy().into_owned());
        let output = File::create(&log)?;
        let mut child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn()?;
        let watchdog = watchdog(child.id(), signal)
            .inspect_err(|_| end(&mut child))
            .with_context(|| format!("a shell that ends {program}"))?;
        let mut server = Server { child, watchdog, _folder: self.folder };
        let began = Instant::now();
        loop {
            let error = match connect().await {
                Ok(client) => return Ok((server, client)),
                Err(error) => error,
            };
            let ended = server.child.try_wait()?;
            if ended.is_some() || began.elapsed() > READY_WITHIN {
                bail!("{program} does not answer ({error:#}):\n{}", fs::read_to_string(&log)?);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Runs a program to its end.
///
/// # Errors
/// When it fails; with what it printed.
pub(super) fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| program.clone())?;
    ensure!(output.status.success(), "{program} fails:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    watchdog: Child,
    /// Removed after the server has ended.
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // At the end of its input, the shell signals the server to end. This fails only for a shell that is gone.
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

/// A shell that signals a process when the shell's input ends.
fn watchdog(pid: u32, signal: &str) -> std::io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", r#"read -r line; kill -"$2" "$1""#, "sh", &pid.to_string(), signal])
        // A separate group, so that a kill of the parent's whole process group does not reach the shell.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// The user and the group to run as: those of `name` if this process runs as root.
fn user_to_run_as(name: &str) -> anyhow::Result<Option<(u32, u32)>> {
    let id = |arguments: &[&str]| -> anyhow::Result<u32> {
        let output = Command::new("id").args(arguments).output().context("id")?;
        let text = String::from_utf8(output.stdout)?;
        text.trim().parse().with_context(|| format!("id {arguments:?} answers {text:?}"))
    };
    if id(&["-u"])? == 0 { Ok(Some((id(&["-u", name])?, id(&["-g", name])?))) } else { Ok(None) }
}

/// The first folder on the PATH, or of the further ones, that has all these programs.
pub(super) fn folder_of(programs: &[&str], further: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let has_all = |folder: &PathBuf| programs.iter().all(|program| folder.join(program).is_file());
    env::split_paths(&path).chain(further).find(has_all)
}
