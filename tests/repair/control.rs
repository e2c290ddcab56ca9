//! The control socket of a stack: commands of the repair job from another process, on the stores of this one.

use std::{os::unix::fs::PermissionsExt, path::PathBuf};

use clap::Parser;
use local_stack::{
    IndexState,
    control::{ControlSocket, SOCKET, request},
    event_source_mapping::MappingState,
    settling::Settling,
};
use page_index::PageIndex;
use repair_job::{Config, Outcome, RunArgs, exit};
use serde_json::{Value, json};
use table::Table;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::watch,
    task::JoinHandle,
};

use super::{job, job_of, product, settings, start_with};
use crate::fixture::{
    pagemark::{self, Up},
    stores::Stores,
    wait_for,
};

/// A run that takes half a minute unless it is stopped.
const SLOW: &[&str] = &["audit", "--segments=1", "--apply", "--max-read-units=1"];

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n";

struct Served {
    socket: PathBuf,
    server: JoinHandle<()>,
    _folder: TempDir,
}

impl Served {
    fn start(stores: &Stores) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = ControlSocket::bind(folder.path()).unwrap();
        let path = socket.path().to_owned();
        // Nobody changes the state any more.
        let ready = watch::channel(IndexState::Ready).1;
        let mapping = watch::Sender::<MappingState>::default();
        let settling = Settling::of([mapping.subscribe(), mapping.subscribe()], None);
        let (table, index) = (stores.table.clone(), stores.index.clone());
        let serve = socket.serve(table, index, stores.quarantine_folder(), ready, settling);
        Self { socket: path, server: tokio::spawn(serve), _folder: folder }
    }

    async fn run(&self, line: &[&str]) -> Outcome {
        let outcome = request(&self.socket, &args(line), std::future::pending()).await;
        outcome.unwrap_or_else(|error| panic!("{line:?}: {error:#}"))
    }

    /// Sends the beginning of a body, and returns what arrives until the end of the connection.
    async fn answer_to(&self, body: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        // The server may refuse before it has read everything.
        stream.write_all(&[HEAD, body].concat()).await.ok();
        answer(stream).await
    }

    async fn stop(self) {
        self.server.abort();
        self.server.await.unwrap_err();
        assert!(!self.socket.exists());
    }
}

async fn answer(mut stream: UnixStream) -> String {
    let mut answer = Vec::new();
    // A connection that is closed before everything was read ends in an error, after the answer.
    stream.read_to_end(&mut answer).await.ok();
    String::from_utf8(answer).unwrap()
}

fn args(line: &[&str]) -> RunArgs {
    let stores = ["repair-job", "--table=unused", "--redis-url=redis://unused"];
    Config::parse_from(stores.iter().chain(line)).run
}

/// Waits until the run of [`SLOW`] holds its lease.
async fn wait_until_running(table: &Table, index: &PageIndex) {
    wait_for("the run", async || {
        let job = job_of(table.clone(), index.clone(), settings(false));
        let status = job.status(1, None).await.unwrap();
        if status.running.is_empty() { Err(status) } else { Ok(()) }
    })
    .await;
}

/// Waits until the run of [`SLOW`] has stored its record and given up its lease. Returns its exit code.
async fn exit_code_of_last_audit(stores: &Stores) -> u8 {
    wait_for("the end of the run", async || {
        let status = job(stores, false).status(1, None).await.unwrap();
        let last = status.last_runs.iter().find(|run| run.command == "audit").map(|run| run.exit_code);
        if status.running.is_empty() { last.ok_or(status) } else { Err(status) }
    })
    .await
}

#[tokio::test]
async fn a_killed_stacks_socket_is_replaced_and_a_stopped_stacks_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join(SOCKET);
    Up::start(folder.path(), &["--demo", "0"]).await.kill().await;
    let nobody = request(&socket, &args(&["status"]), std::future::pending()).await.unwrap_err();
    assert!(nobody.to_string().contains("no running stack answers"), "{nobody}");
    let up = Up::start(folder.path(), &["--demo", "0"]).await;
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let url = format!("http://{}", up.engine);
    pagemark::run(&["repair", "status", "--dynamodb-url", &url]).await.expect(0);
    up.stop().await;
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_client_that_vanishes_stops_its_run() {
    let (stores, _) = start_with(0..40, product).await;
    let served = Served::start(&stores);
    tokio::select! {
        ended = served.run(SLOW) => panic!("it was not slow: {ended:?}"),
        () = wait_until_running(&stores.table, &stores.index) => {}
    }
    assert_eq!(exit_code_of_last_audit(&stores).await, exit::SKIPPED);
    served.stop().await;
    stores.finish().await;
}

#[tokio::test]
async fn garbage_from_clients_harms_nothing() {
    let (stores, _) = start_with(0..4, product).await;
    let served = Served::start(&stores);
    let good = json!({ "version": env!("CARGO_PKG_VERSION"), "args": args(&["status"]) });
    let with = |pointer: &str, value: Value| {
        let mut request = good.clone();
        *request.pointer_mut(pointer).unwrap() = value;
        format!("{request}\n").into_bytes()
    };
    let answer = served.answer_to(&with("/args/json", json!(true))).await;
    let is_good = answer.starts_with("HTTP/1.1 200 ") && answer.contains("audited_share");
    assert!(is_good, "the requests below test nothing: {answer}");
    for (bytes, said) in [
        (b"garbage\n".to_vec(), "the request is not understood"),
        (b"\xff\0\n".to_vec(), "the request is not understood"),
        (vec![b'x'; 70_000], "no line of at most 65536 bytes"),
        (vec![b'x'; 5_000_000], "no line of at most 65536 bytes"),
        (with("/version", json!("9.9.9")), "the command is pagemark 9.9.9"),
        (with("/args/command", json!({ "dance": {} })), "another build of pagemark"),
        (with("/args/settings/lease", json!({ "secs": u64::MAX, "nanos": 0 })), "too long"),
        (with("/args/max_run_time", json!({ "secs": u64::MAX, "nanos": 0 })), "too long"),
    ] {
        let answer = served.answer_to(&bytes).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(said), "{said}: {answer}");
    }
    for cut in [&b""[..], b"{", b"no HTTP\r\n\r\n", HEAD, &[HEAD, &with("/version", json!("9.9.9"))[..9]].concat()] {
        let mut stream = UnixStream::connect(&served.socket).await.unwrap();
        stream.write_all(cut).await.unwrap();
    }
    assert_eq!(served.run(&["status"]).await.exit_code, 0);
    served.stop().await;
    stores.finish().await;
}
