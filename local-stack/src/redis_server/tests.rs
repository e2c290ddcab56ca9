//! Tests with the real `redis-server`.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Inner, RedisServer, RedisServerError, State, answering_pid, free_port, program};

/// Set in the process that plays the parent in `a_killed_parent_leaves_no_server_behind`. It names that test's folder.
const PARENT_VARIABLE: &str = "PAGEMARK_TEST_PARENT";

fn process_exists(pid: u32) -> bool {
    // Signal 0 only checks. A process that was killed but not collected still exists.
    shell(&format!("kill -0 {pid} 2> /dev/null"))
}

fn kill(pid: u32) {
    assert!(shell(&format!("kill -9 {pid}")));
}

fn shell(script: &str) -> bool {
    Command::new("/bin/sh").args(["-c", script]).status().unwrap().success()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn not_started(folder: &Path, port: u16, arguments: &[&str]) -> Inner {
    let state = Mutex::new(State { child: None, watchdog: None, stopped: false });
    let arguments = arguments.iter().map(Into::into).collect();
    Inner { program: program(), directory: folder.to_owned(), arguments, port, state }
}

fn run(server: &RedisServer, command: &[&str]) -> String {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let (name, arguments) = command.split_first().unwrap();
    let answer: redis::Value = redis::cmd(name).arg(arguments).query(&mut connection).unwrap();
    redis::from_redis_value::<Vec<String>>(answer.clone())
        .or_else(|_| redis::from_redis_value::<String>(answer).map(|text| vec![text]))
        .unwrap()
        .join(" ")
}

#[tokio::test]
async fn a_started_server_answers_and_is_set_up_as_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]).await.unwrap();
    assert!(server.pid().is_some());
    assert_eq!(answering_pid(&server.url()).unwrap(), server.pid().unwrap());
    assert_eq!(run(&server, &["CONFIG", "GET", "maxmemory-policy"]), "maxmemory-policy noeviction");
    assert_eq!(run(&server, &["CONFIG", "GET", "appendonly"]), "appendonly no");
    assert_eq!(run(&server, &["CONFIG", "GET", "save"]), "save ");
    assert!(std::fs::read_to_string(folder.path().join("redis.log")).unwrap().contains("Ready to accept"));

    let (url, pid) = (server.url(), server.pid().unwrap());
    server.stop().await;
    assert!(server.pid().is_none() && !process_exists(pid));
    assert!(answering_pid(&url).is_err());
    assert!(matches!(server.restart().await, Err(RedisServerError::Stopped)));
}

#[tokio::test]
async fn a_restart_keeps_the_address_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]).await.unwrap();
    let (url, pid) = (server.url(), server.pid().unwrap());
    assert_eq!(run(&server, &["SET", "a", "1"]), "OK");
    server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    assert_ne!(server.pid().unwrap(), pid);
    assert!(!process_exists(pid));
    assert_eq!(run(&server, &["KEYS", "*"]), "");

    let pid = server.pid().unwrap();
    drop(server);
    assert!(!process_exists(pid), "a drop kills it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drop_ends_a_restart_that_nobody_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    // A server that never answers PING.
    let inner = not_started(folder.path(), free_port().unwrap(), &["--rename-command", "PING", "PONG"]);
    let server = Arc::new(RedisServer { inner: Arc::new(inner) });
    let restarted = Arc::clone(&server);
    let restart = tokio::spawn(async move { restarted.restart().await });
    let pid = wait_for("the start of its process", || server.pid());
    restart.abort();
    assert!(restart.await.unwrap_err().is_cancelled());
    drop(server);
    assert!(!process_exists(pid));
}

#[tokio::test]
async fn without_a_supervisor_a_killed_server_stays_down() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]).await.unwrap();
    kill(server.pid().unwrap());
    wait_for("the end of the server", || server.pid().is_none().then_some(()));
    assert_eq!(server.pid(), None);
    server.restart().await.unwrap();
    assert!(server.pid().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervised_server_comes_back_each_time_it_is_killed_until_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]).await.unwrap();
    let supervisor = tokio::spawn(Arc::clone(&server).supervise());
    for _ in 0..3 {
        let pid = server.pid().unwrap();
        kill(pid);
        let again = wait_for("another process", || server.pid().filter(|again| *again != pid));
        wait_for("its answer", || answering_pid(&server.url()).ok().filter(|answering| *answering == again));
    }
    server.stop().await;
    tokio::time::timeout(Duration::from_secs(5), supervisor).await.expect("it ends with its server").unwrap();
    assert_eq!(server.pid(), None);
}

#[test]
fn a_missing_program_is_one_line_that_says_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let error = Inner::start("no-such-redis-server".as_ref(), folder.path(), Vec::new()).unwrap_err();
    assert!(matches!(error, RedisServerError::Missing { .. }), "{error:?}");
    let line = error.to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    for part in ["no-such-redis-server was not found", "apt-get install", "dnf install", "apk add", "brew install"] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn a_server_that_ends_at_once_shows_its_log() {
    let folder = tempfile::tempdir().unwrap();
    // The program `ls` does not know the option --port, reports that and ends.
    let error = Inner::start("ls".as_ref(), folder.path(), Vec::new()).unwrap_err();
    assert!(matches!(error, RedisServerError::NotReady { .. }), "{error:?}");
    assert!(error.to_string().contains("redis.log: ls: "), "{error}");
    assert_eq!(error.to_string().lines().count(), 1);
}

#[tokio::test]
async fn another_server_at_the_port_is_not_taken_for_ours() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]).await.unwrap();
    // The situation of a restart when another server has taken the port meanwhile.
    let pid = server.pid().unwrap();
    let error = not_started(folder.path(), server.inner.port, &[]).start_child().unwrap_err();
    assert!(error.to_string().contains("Address already in use"), "{error}");
    assert_eq!(answering_pid(&server.url()).unwrap(), pid);
}

#[tokio::test]
async fn a_killed_watchdog_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]).await.unwrap();
    let first = server.inner.state().watchdog.as_ref().unwrap().shell.id();
    kill(first);
    // The pipe shows the end of a process only after the kernel has collected it, so ask repeatedly.
    let second = wait_for("another watchdog", || {
        let mut state = server.inner.state();
        let pid = state.child.as_ref().unwrap().id();
        state.guard(pid).unwrap();
        let shell = state.watchdog.as_ref().unwrap().shell.id();
        (shell != first).then_some(shell)
    });
    assert!(process_exists(second) && server.pid().is_some());
}

#[test]
fn a_killed_parent_leaves_no_server_behind() {
    if let Some(folder) = std::env::var_os(PARENT_VARIABLE) {
        let folder = Path::new(&folder);
        let server = Inner::start(&program(), folder, Vec::new()).unwrap();
        std::fs::write(folder.join("url.new"), server.url()).unwrap();
        // Write and rename, so that the other process never reads an incomplete text.
        std::fs::rename(folder.join("url.new"), folder.join("url")).unwrap();
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "redis_server::tests::a_killed_parent_leaves_no_server_behind";
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(PARENT_VARIABLE, folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let url = wait_for("the parent's server", || std::fs::read_to_string(folder.path().join("url")).ok());
    assert!(answering_pid(&url).is_ok());
    parent.kill().unwrap();
    assert_eq!(parent.wait().unwrap().signal(), Some(9), "killed without a chance to clean up");
    // Ask at its address: a killed process keeps its id until its new parent collects it.
    wait_for("the end of its server", || answering_pid(&url).err());
}
