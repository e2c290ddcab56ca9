//! A `redis-server` child for the page index of the local stack.
//!
//! It keeps nothing on disk: Redis is a rebuildable index, and a restart that comes back empty is the case that the rest
//! of the stack must handle anyway. `valkey-server` serves as well, where `redis-server` is not installed.
//!
//! **Invariant: the child never outlives its parent.** A stop or a drop kills it and waits for its end. For a parent that
//! is itself killed there is a watchdog: a shell, in a process group of its own, that is told the child's process id
//! through a pipe and kills the child when the pipe closes, which the kernel does however the parent ended
//! (`a_killed_parent_leaves_no_server_behind`). A "parent death signal" would need Linux and fires when the *thread* that
//! started the child ends, which in an async program is any time.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt;

mod error;
#[cfg(test)]
mod tests;

pub use error::RedisServerError;

/// The environment variable that names the program to run, instead of the one that is found on the PATH.
pub const PROGRAM_VARIABLE: &str = "PAGEMARK_REDIS_SERVER";

/// Looked for on the PATH, in this order.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Ports to choose from: below those that Linux (32768 and up) and macOS (49152 and up) give to outgoing connections. A
/// client that keeps knocking at a port of that range while the server is down can be connected *to itself*, and then
/// holds the port that the server needs.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Another process may take a port between the look and the start.
const PORT_ATTEMPTS_MAX: usize = 20;

/// How long a server may take to answer its first PING.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Between two looks at a server that is starting.
const READY_POLL: Duration = Duration::from_millis(20);

/// Between two looks at a supervised server.
const SUPERVISION_INTERVAL: Duration = Duration::from_millis(100);

/// The longest wait before a server that keeps ending is started again.
const RESTART_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A server that ran for so long did not fail at its start: the backoff begins anew.
const RESTART_BACKOFF_RESET: Duration = Duration::from_secs(10);

/// Lines of the server's log that an error shows.
const LOG_TAIL_LINES: usize = 5;

/// A running `redis-server`, or one that can be started again at the same address.
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
    /// Starts a server on a free loopback port and waits until it answers, 10 s at most. Its log goes to `redis.log` in
    /// `directory`, which must exist.
    ///
    /// # Errors
    ///
    /// [`RedisServerError::Missing`] says what to install; [`RedisServerError::NotReady`] shows the end of the log.
    pub async fn start(directory: &Path) -> Result<RedisServer, RedisServerError> {
        Self::start_with(directory, &[]).await
    }

    /// The same, with further arguments of the server's command line, which win over its own.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::start`].
    pub async fn start_with(directory: &Path, arguments: &[&str]) -> Result<RedisServer, RedisServerError> {
        let directory = directory.to_owned();
        let arguments = arguments.iter().map(OsString::from).collect();
        let inner = blocking(move || Inner::start(&directory, &program(), arguments)).await?;
        Ok(RedisServer { inner: Arc::new(inner) })
    }

    /// The address for clients, such as `redis://127.0.0.1:21379/`. It stays the same over restarts.
    pub fn url(&self) -> String {
        self.inner.url()
    }

    /// The process id of the server, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.inner.running_pid()
    }

    /// Whether the server's process runs.
    pub fn is_running(&self) -> bool {
        self.pid().is_some()
    }

    /// Kills the server if it runs, starts it again, empty, at the same address, and waits until it answers.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::start`]; and [`RedisServerError::Stopped`] after a stop.
    pub async fn restart(&self) -> Result<(), RedisServerError> {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.restart()).await
    }

    /// Starts the server again whenever its process has ended, until `shutdown` completes or the server is stopped. The
    /// end is noticed within a tenth of a second; a server that keeps ending is started again ever more slowly, in the
    /// end every 5 s.
    pub async fn supervise(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let watch = async {
            let mut backoff = Duration::ZERO;
            let mut started = Instant::now();
            while !self.inner.is_stopped() {
                tokio::time::sleep(SUPERVISION_INTERVAL).await;
                if self.is_running() || self.inner.is_stopped() {
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
        };
        tokio::select! {
            () = watch => {}
            () = shutdown => {}
        }
    }

    /// Kills the server for good and waits for its end. There is nothing to save.
    pub async fn stop(&self) {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.stop()).await;
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Not left to the last `Arc`: a restart under way may hold one.
        self.inner.stop();
    }
}

impl Inner {
    fn start(directory: &Path, program: &OsStr, arguments: Vec<OsString>) -> Result<Inner, RedisServerError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let watchdog = Watchdog::start().map_err(RedisServerError::Watchdog)?;
            let state = Mutex::new(State { child: None, watchdog: Some(watchdog), stopped: false });
            let (program, directory, arguments) = (program.into(), directory.into(), arguments.clone());
            let inner = Inner { program, directory, arguments, port: free_port()?, state };
            let Err(error) = inner.restart() else { return Ok(inner) };
            inner.stop();
            // With our child gone, is it that another process was quicker to take the port?
            let port_taken = TcpListener::bind(inner.address()).is_err();
            if !port_taken || attempts == PORT_ATTEMPTS_MAX {
                return Err(error);
            }
        }
    }

    fn restart(&self) -> Result<(), RedisServerError> {
        let pid = {
            let mut state = self.state();
            if state.stopped {
                return Err(RedisServerError::Stopped);
            }
            state.kill();
            let child = self.spawn()?;
            let pid = child.id();
            state.child = Some(child);
            // Told under the lock, so that it always knows the latest.
            state.guard(pid).map_err(RedisServerError::Watchdog)?;
            pid
        };
        // Not under the lock: others may ask, and stop, while the server starts.
        self.wait_until_ready(pid)
    }

    fn spawn(&self) -> Result<Child, RedisServerError> {
        let log_failed = |source| RedisServerError::Log { path: self.log_path(), source };
        let log = File::options().create(true).append(true).open(self.log_path()).map_err(log_failed)?;
        let mut command = Command::new(&self.program);
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"])
            .args(["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"])
            .arg("--dir")
            .arg(&self.directory)
            .args(&self.arguments)
            // Ctrl-C goes to the whole process group of the terminal; the server is to end last, and by us.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(log_failed)?)
            .stderr(log);
        command.spawn().map_err(|source| {
            let program = self.program.to_string_lossy().into_owned();
            if source.kind() == io::ErrorKind::NotFound {
                RedisServerError::Missing { program }
            } else {
                RedisServerError::Spawn { program, source }
            }
        })
    }

    /// Waits until the server answers PING, and makes sure that it is our child that answers, not another server that
    /// was quicker to take the port.
    fn wait_until_ready(&self, pid: u32) -> Result<(), RedisServerError> {
        let begun = Instant::now();
        loop {
            if self.running_pid() != Some(pid) {
                if self.is_stopped() {
                    return Err(RedisServerError::Stopped);
                }
                return Err(self.not_ready("ended at once"));
            }
            match answering_pid(&self.url()) {
                Ok(answering) if answering == pid => return Ok(()),
                // It ends by itself now, for want of the port.
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

    fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.kill();
        state.watchdog = None;
    }

    fn running_pid(&self) -> Option<u32> {
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
        // Every change leaves the state whole, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Kills the child, if there is one, and collects it.
    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Both fail only for a child that has ended and was collected already.
        child.kill().ok();
        child.wait().ok();
        // Its number may soon be another process's. A watchdog that cannot be told is dead and kills nobody.
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.tell("").ok();
        }
    }

    /// Sets the watchdog on a child, a new watchdog if something has killed the old one.
    fn guard(&mut self, pid: u32) -> io::Result<()> {
        let pid = pid.to_string();
        if let Some(watchdog) = &mut self.watchdog
            && watchdog.tell(&pid).is_ok()
        {
            return Ok(());
        }
        self.watchdog.insert(Watchdog::start()?).tell(&pid)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A shell that reads process ids, one a line, and when there is no more to read kills the last one.
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
            // Out of reach of a kill that is meant for the parent's whole process group.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let orders = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Watchdog { shell, orders })
    }

    fn tell(&mut self, pid: &str) -> io::Result<()> {
        writeln!(self.orders, "{pid}")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The child is gone by now, so nothing is left to watch. Killed rather than left to the end of its input, which
        // would not come if another process had inherited the pipe. Both fail only for a shell that is gone already.
        self.shell.kill().ok();
        self.shell.wait().ok();
    }
}

/// The program to run: the one that the environment names, else the first that is on the PATH, else the first of all, so
/// that the error is about that one.
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
    // Far more tries than a machine has servers in this range.
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

/// Runs blocking work off the caller's async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it: nobody is left to be answered.
            Err(_) => std::future::pending().await,
        },
    }
}
