//! Starts `redis-server` or `valkey-server` for tests and measurements. It stores nothing on disk.
//!
//! A server never outlives its parent. A drop kills it. If the parent is killed, the kernel closes a pipe, and a shell
//! that waits for the end of that pipe kills the server.

use std::{
    ffi::OsString,
    fs::File,
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rand::RngExt;

/// Names the program to run, instead of a search on the PATH.
pub const PROGRAM_VARIABLE: &str = "PAGEMARK_REDIS_SERVER";
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Below the ports that systems give to outgoing connections. A client that keeps connecting to a port of that range
/// while the server is down can be connected to itself, and then holds the port that the server needs.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Another process may take a port between the check and the start.
const PORT_ATTEMPTS_MAX: usize = 20;
const READY_WITHIN: Duration = Duration::from_secs(10);
const READY_POLL: Duration = Duration::from_millis(20);

/// A running server, or one that can be restarted at the same address.
#[derive(Debug)]
pub struct RedisServer {
    program: OsString,
    directory: PathBuf,
    arguments: Vec<OsString>,
    port: u16,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    server: Child,
    watchdog: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The watchdog first: later the process id may belong to another process. These calls fail only for a process
        // that has ended already.
        for child in [&mut self.watchdog, &mut self.server] {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl RedisServer {
    /// Starts a server on a free loopback port, and waits at most 10 s until it answers. Its log goes to `redis.log` in
    /// `directory`. The arguments override the default ones.
    ///
    /// # Errors
    /// The program is missing, or its server does not answer; the text shows its log.
    pub async fn start(directory: &Path, arguments: &[&str]) -> anyhow::Result<Arc<Self>> {
        Self::start_program(program(), directory, arguments).await
    }

    /// Like [`RedisServer::start`], with this program, whatever the environment names.
    ///
    /// # Errors
    /// As for [`RedisServer::start`].
    pub async fn start_program(program: OsString, directory: &Path, arguments: &[&str]) -> anyhow::Result<Arc<Self>> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let directory = directory.to_owned();
        tokio::task::spawn_blocking(move || {
            let mut attempts = 0;
            loop {
                attempts += 1;
                let (program, directory, arguments) = (program.clone(), directory.clone(), arguments.clone());
                let server = Self { program, directory, arguments, port: free_port()?, running: Mutex::default() };
                let Err(error) = server.start_at_its_port() else { return Ok(Arc::new(server)) };
                *server.running() = None;
                let is_port_taken = TcpListener::bind((Ipv4Addr::LOCALHOST, server.port)).is_err();
                if !is_port_taken || attempts == PORT_ATTEMPTS_MAX {
                    return Err(error);
                }
            }
        })
        .await?
    }

    /// A restart does not change it.
    pub fn url(&self) -> String {
        format!("redis://{}:{}/", Ipv4Addr::LOCALHOST, self.port)
    }

    /// The process id, while the server runs.
    pub fn pid(&self) -> Option<u32> {
        let mut running = self.running();
        let server = &mut running.as_mut()?.server;
        matches!(server.try_wait(), Ok(None)).then(|| server.id())
    }

    /// Kills the server, starts it again at the same address, and waits until it answers.
    ///
    /// # Errors
    /// As for [`RedisServer::start`].
    pub async fn restart(self: &Arc<Self>) -> anyhow::Result<()> {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.start_at_its_port()).await?
    }

    fn start_at_its_port(&self) -> anyhow::Result<()> {
        let pid = {
            let mut running = self.running();
            *running = None;
            running.insert(self.spawn()?).server.id()
        };
        let begun = Instant::now();
        loop {
            let what = match answering_pid(&self.url()) {
                Ok(answering) if answering == pid => return Ok(()),
                Ok(other) => format!("does not answer, process {other} does"),
                Err(error) => format!("does not answer ({error})"),
            };
            if self.pid().is_none() || begun.elapsed() >= READY_WITHIN {
                let log = std::fs::read_to_string(self.log()).unwrap_or_default();
                bail!("{} {what}; its log: {log}", self.program.display());
            }
            std::thread::sleep(READY_POLL);
        }
    }

    fn spawn(&self) -> anyhow::Result<Running> {
        let log = File::options().create(true).append(true).open(self.log()).context("the log of a Redis server")?;
        let mut server = Command::new(&self.program)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"])
            .args(["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"])
            .arg("--dir")
            .arg(&self.directory)
            .args(&self.arguments)
            // Ctrl-C reaches the terminal's whole process group. The server must end last, and by our own call.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| {
                let program = self.program.display();
                format!("{program} cannot be started; `make redis` installs it, and {PROGRAM_VARIABLE} names another")
            })?;
        let watchdog = Command::new("/bin/sh")
            .args(["-c", "read -r _; kill -9 \"$0\"", &server.id().to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn();
        match watchdog {
            Ok(watchdog) => Ok(Running { server, watchdog }),
            Err(error) => {
                server.kill().and_then(|()| server.wait())?;
                Err(error).context("/bin/sh, which watches over the Redis server")
            }
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.join("redis.log")
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first program on the PATH; if none is there the first of the list, so that the error names it.
fn program() -> OsString {
    if let Some(program) = std::env::var_os(PROGRAM_VARIABLE) {
        return program;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed = |name: &&&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    PROGRAMS.iter().find(is_installed).unwrap_or(&PROGRAMS[0]).into()
}

fn free_port() -> anyhow::Result<u16> {
    let mut random = rand::rng();
    (0..1000)
        .map(|_| random.random_range(PORTS))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .context("no free loopback port for a Redis server")
}

fn answering_pid(url: &str) -> redis::RedisResult<u32> {
    let mut connection = redis::Client::open(url)?.get_connection_with_timeout(READY_WITHIN)?;
    connection.set_read_timeout(Some(READY_WITHIN))?;
    let info: redis::InfoDict = redis::cmd("INFO").arg("server").query(&mut connection)?;
    info.get("process_id").ok_or_else(|| (redis::ErrorKind::UnexpectedReturnType, "INFO names no process_id").into())
}
