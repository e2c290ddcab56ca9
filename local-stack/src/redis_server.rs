//! A `redis-server` child for the page index of the local stack.
//!
//! It stores nothing on disk. Redis is a rebuildable index, and the rest of the stack must handle an empty restart
//! anyway. `valkey-server` works too, where `redis-server` is not installed.
//!
//! **Invariant: the child never outlives its parent.** A stop or a drop kills the child and waits for its end. A
//! watchdog covers a parent that is itself killed. The watchdog is a shell in a separate process group. It receives the
//! child's process id through a pipe, and kills the child when the pipe closes. The kernel closes the pipe however the
//! parent ends (`a_killed_parent_leaves_no_server_behind`). A "parent death signal" would need Linux. It also fires
//! when the *thread* that started the child ends, which can happen at any time in an async program.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt;

use crate::blocking::blocking;

mod error;
#[cfg(test)]
mod tests;

pub use error::RedisServerError;

/// The environment variable that names the program to run. It replaces the search on the PATH.
pub const PROGRAM_VARIABLE: &str = "PAGEMARK_REDIS_SERVER";

/// Programs to search on the PATH, in this order.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Ports to choose from. They are below the ports that Linux (32768 and up) and macOS (49152 and up) give to outgoing
/// connections. A client that keeps connecting to a port of that range while the server is down can be connected *to
/// itself*. It then holds the port that the server needs.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// How many ports to try. Another process may take a port between the check and the start.
const PORT_ATTEMPTS_MAX: usize = 20;

/// Maximum time until a server answers its first PING.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Interval between two checks of a starting server.
const READY_POLL: Duration = Duration::from_millis(20);

/// Interval between two checks of a supervised server.
const SUPERVISION_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum wait before restarting a server that keeps ending.
const RESTART_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A server that ran this long did not fail at its start, so the back-off starts anew.
const RESTART_BACKOFF_RESET: Duration = Duration::from_secs(10);

/// Number of log lines that an error shows.
const LOG_TAIL_LINES: usize = 5;

/// A running `redis-server`, or one that can be restarted at the same address. A drop stops it, even during a restart.
#[derive(Debug)]
pub struct RedisServer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    program: OsString,
    directory: PathBuf,
    arguments: Vec<OsString>,
    port: u16,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    child: Option<Child>,
    watchdog: Option<Watchdog>,
    stopped: bool,
}

impl RedisServer {
    /// Starts a server on a free loopback port and waits until it answers, at most 10 s. Its log goes to `redis.log` in
    /// `directory`, which must exist. The additional command-line arguments override the default ones.
    ///
    /// # Errors
    /// [`RedisServerError::Missing`] says what to install; [`RedisServerError::NotReady`] shows the end of the log.
    pub async fn start(directory: &Path, arguments: &[&str]) -> Result<Arc<RedisServer>, RedisServerError> {
        Self::start_program(program(), directory, arguments).await
    }

    /// Like [`RedisServer::start`], with this program, whatever the environment names.
    ///
    /// # Errors
    /// As for [`RedisServer::start`].
    pub async fn start_program(
        program: OsString,
        directory: &Path,
        arguments: &[&str],
    ) -> Result<Arc<RedisServer>, RedisServerError> {
        let directory = directory.to_owned();
        let arguments = arguments.iter().map(OsString::from).collect();
        let inner = blocking(move || Inner::start(&program, &directory, arguments)).await?;
        Ok(Arc::new(RedisServer { inner: Arc::new(inner) }))
    }

    /// The address for clients, such as `redis://127.0.0.1:21379/`. A restart does not change it.
    pub fn url(&self) -> String {
        self.inner.url()
    }

    /// The process id of the server, if it is running.
    pub fn pid(&self) -> Option<u32> {
        self.inner.pid()
    }

    /// Kills the server if it is running, starts it again without data at the same address, and waits until it answers.
    ///
    /// # Errors
    /// See [`RedisServer::start`]; also [`RedisServerError::Stopped`] after a stop.
    pub async fn restart(&self) -> Result<(), RedisServerError> {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.start_child()).await
    }

    /// Restarts the server whenever its process ends, until the server is stopped. It notices an end within a tenth of
    /// a second. It restarts a server that keeps ending at growing intervals of up to 5 s.
    pub async fn supervise(self: Arc<Self>) {
        let mut backoff = Duration::ZERO;
        let mut started = Instant::now();
        while !self.inner.is_stopped() {
            tokio::time::sleep(SUPERVISION_INTERVAL).await;
            if self.pid().is_some() || self.inner.is_stopped() {
                continue;
            }
            if started.elapsed() > RESTART_BACKOFF_RESET {
                backoff = Duration::ZERO;
            }
            tracing::warn!(url = self.url(), ?backoff, "the Redis server has ended; it is started again");
            tokio::time::sleep(backoff).await;
            started = Instant::now();
            backoff = (backoff * 2).clamp(SUPERVISION_INTERVAL, RESTART_BACKOFF_MAX);
            match self.restart().await {
                Ok(()) => tracing::info!(url = self.url(), "the Redis server runs again, empty"),
                Err(RedisServerError::Stopped) => return,
                Err(error) => tracing::error!(%error, "the Redis server did not start"),
            }
        }
    }

    /// Kills the server for good and waits for its end. The server has nothing to save.
    pub async fn stop(&self) {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.kill_for_good()).await;
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Here and not with the last `Arc`, because a restart that nobody waits for may still hold one.
        self.inner.kill_for_good();
    }
}

impl Inner {
    fn start(program: &OsStr, directory: &Path, arguments: Vec<OsString>) -> Result<Inner, RedisServerError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let watchdog = Watchdog::start().map_err(RedisServerError::Watchdog)?;
            let state = Mutex::new(State { child: None, watchdog: Some(watchdog), stopped: false });
            let (program, directory, arguments) = (program.into(), directory.into(), arguments.clone());
            let inner = Inner { program, directory, arguments, port: free_port()?, state };
            let Err(error) = inner.start_child() else { return Ok(inner) };
            inner.kill_for_good();
            // When our child is gone, check whether another process took the port first.
            let port_taken = TcpListener::bind(inner.address()).is_err();
            if !port_taken || attempts == PORT_ATTEMPTS_MAX {
                return Err(error);
            }
        }
    }

    /// Kills the child, if there is one, starts another, and waits until it answers.
    fn start_child(&self) -> Result<(), RedisServerError> {
        let pid = {
            let mut state = self.state();
            if state.stopped {
                return Err(RedisServerError::Stopped);
            }
            state.kill();
            let child = self.spawn()?;
            let pid = child.id();
            state.child = Some(child);
            // Done under the lock, so that the watchdog always knows the latest id.
            state.guard(pid).map_err(RedisServerError::Watchdog)?;
            pid
        };
        // Not under the lock, so that other calls, including a stop, work while the server starts.
        self.wait_until_ready(pid)
    }

    fn spawn(&self) -> Result<Child, RedisServerError> {
        let log_failed = |source| RedisServerError::Log(self.log_path(), source);
        let log = File::options().create(true).append(true).open(self.log_path()).map_err(log_failed)?;
        let mut command = Command::new(&self.program);
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"])
            .args(["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"])
            .arg("--dir")
            .arg(&self.directory)
            .args(&self.arguments)
            // Ctrl-C reaches the terminal's whole process group. The server must end last, and by our own call.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(log_failed)?)
            .stderr(log);
        command.spawn().map_err(|source| {
            let program = self.program.to_string_lossy().into_owned();
            let is_missing = source.kind() == io::ErrorKind::NotFound;
            if is_missing { RedisServerError::Missing(program) } else { RedisServerError::Spawn(program, source) }
        })
    }

    /// Waits until the server answers PING. Also checks that our child answers, and not another server that took the
    /// port first.
    fn wait_until_ready(&self, pid: u32) -> Result<(), RedisServerError> {
        let begun = Instant::now();
        loop {
            if self.pid() != Some(pid) {
                if self.is_stopped() {
                    return Err(RedisServerError::Stopped);
                }
                return Err(self.not_ready("ended at once"));
            }
            match answering_pid(&self.url()) {
                Ok(answering) if answering == pid => return Ok(()),
                // The child ends on its own now, because it lacks the port.
                Ok(_) | Err(_) if begun.elapsed() < READY_WITHIN => std::thread::sleep(READY_POLL),
                Ok(other) => return Err(self.not_ready(&format!("does not answer, process {other} does"))),
                Err(error) => return Err(self.not_ready(&format!("did not answer in time ({error})"))),
            }
        }
    }

    fn not_ready(&self, what: &str) -> RedisServerError {
        let log = std::fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let tail = lines.get(lines.len().saturating_sub(LOG_TAIL_LINES)..).unwrap_or_default().join(" | ");
        RedisServerError::NotReady {
            program: self.program.to_string_lossy().into_owned(),
            what: what.to_owned(),
            log: self.log_path(),
            tail,
        }
    }

    fn kill_for_good(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.kill();
        state.watchdog = None;
    }

    fn pid(&self) -> Option<u32> {
        let mut state = self.state();
        let child = state.child.as_mut()?;
        match child.try_wait() {
            Ok(None) => Some(child.id()),
            Ok(Some(_)) | Err(_) => {
                state.kill();
                None
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn url(&self) -> String {
        format!("redis://{}/", self.address())
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("redis.log")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves the state consistent, so a panic elsewhere does not corrupt it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Kills and collects the child, if there is one.
    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Both calls fail only for a child that has ended and been collected already.
        child.kill().ok();
        child.wait().ok();
        // The process id may soon belong to another process. A watchdog that does not accept the message is dead and
        // kills nothing.
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.watch("").ok();
        }
    }

    /// Assigns a child to the watchdog. Starts a new watchdog if the old one was killed.
    fn guard(&mut self, pid: u32) -> io::Result<()> {
        let pid = pid.to_string();
        if let Some(watchdog) = &mut self.watchdog
            && watchdog.watch(&pid).is_ok()
        {
            return Ok(());
        }
        self.watchdog.insert(Watchdog::start()?).watch(&pid)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A shell that reads process ids, one per line. At the end of its input it kills the last one.
#[derive(Debug)]
struct Watchdog {
    shell: Child,
    orders: ChildStdin,
}

impl Watchdog {
    const SCRIPT: &str = r#"pid=; while read -r line; do pid=$line; done; [ -z "$pid" ] || kill -9 "$pid""#;

    fn start() -> io::Result<Watchdog> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", Self::SCRIPT])
            // A separate group, so that a kill of the parent's whole group does not reach the watchdog.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let orders = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Watchdog { shell, orders })
    }

    /// Sends the process id of the child to watch; empty for none.
    fn watch(&mut self, pid: &str) -> io::Result<()> {
        writeln!(self.orders, "{pid}")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The child is gone by now, so nothing is left to watch. Kill the shell instead of waiting for the end of its
        // input: another process may have inherited the pipe and keep it open. Both calls fail only for a shell that is
        // already gone.
        self.shell.kill().ok();
        self.shell.wait().ok();
    }
}

/// The program to run: the one that the environment names, otherwise the first one on the PATH. If none is there, the
/// first of the list, so that the error names it.
fn program() -> OsString {
    if let Some(program) = std::env::var_os(PROGRAM_VARIABLE) {
        return program;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |name: &&&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    PROGRAMS.iter().find(installed).unwrap_or(&PROGRAMS[0]).into()
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, RedisServerError> {
    let mut random = rand::rng();
    // Far more tries than the number of servers that a machine has in this range.
    (0..1000)
        .map(|_| random.random_range(PORTS))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or(RedisServerError::NoFreePort)
}

/// The process id of the server that answers at a URL.
fn answering_pid(url: &str) -> redis::RedisResult<u32> {
    let mut connection = redis::Client::open(url)?.get_connection_with_timeout(READY_WITHIN)?;
    connection.set_read_timeout(Some(READY_WITHIN))?;
    redis::cmd("PING").query::<()>(&mut connection)?;
    let info: redis::InfoDict = redis::cmd("INFO").arg("server").query(&mut connection)?;
    info.get("process_id").ok_or_else(|| (redis::ErrorKind::UnexpectedReturnType, "INFO names no process_id").into())
}
