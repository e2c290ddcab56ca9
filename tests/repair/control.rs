//! The control socket of a stack: commands of the repair job from another process.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use clap::Parser;
use local_stack::control::{SOCKET, request};
use repair_job::{CommandOutput, JobStatus, Progress, RepairConfig, RunArgs, exit};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::{job_of, settings};
use crate::fixture::{
    data, pagemark,
    stack::{Running, settings_in},
    wait_for,
};

const _: crate::Engines = crate::Engines::Both;

/// A run that takes half a minute unless it is stopped.
const SLOW: &[&str] = &["audit", "--segments=1", "--apply", "--max-read-units=1"];

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n";

/// A stack with comments, whose data folder has the socket.
struct Served {
    running: Running,
    socket: PathBuf,
    _folder: TempDir,
}

impl Served {
    async fn start(comments: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut running = Running::start_with(settings_in(folder.path())).await;
        running.import(&data::generated_comments(comments)).await;
        Self {
            running,
            socket: folder.path().join(SOCKET),
            _folder: folder,
        }
    }

    async fn run(&self, line: &[&str]) -> CommandOutput {
        let outcome = request(
            &self.socket,
            &args(line),
            &Progress::default(),
            std::future::pending(),
        )
        .await;
        outcome.unwrap_or_else(|error| panic!("{line:?}: {error:#}"))
    }

    async fn status(&self) -> JobStatus {
        let table = self.running.stack.table().clone();
        let index = self.running.stack.index().clone();
        let job = job_of(table, index, settings(false));
        job.status(1, None).await.unwrap()
    }

    /// Sends the beginning of a body, and returns what arrives until the end of the connection.
    async fn answer_to(&self, body: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        // The server may refuse before it has read everything.
        stream.write_all(&[HEAD, body].concat()).await.ok();
        let mut answer = Vec::new();
        // A connection that is closed before everything was read ends in an error, after the
        // answer.
        stream.read_to_end(&mut answer).await.ok();
        String::from_utf8(answer).unwrap()
    }

    async fn finish(self) {
        self.running.finish().await;
        assert!(!self.socket.exists());
    }
}

fn args(line: &[&str]) -> RunArgs {
    let stores = ["repair-job", "--table=unused", "--redis-url=redis://unused"];
    RepairConfig::parse_from(stores.iter().chain(line)).run
}

/// The line of a request in which one value is another one.
fn changed(request: &Value, pointer: &str, value: Value) -> Vec<u8> {
    let mut request = request.clone();
    *request.pointer_mut(pointer).unwrap() = value;
    format!("{request}\n").into_bytes()
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_client_that_vanishes_stops_its_run() {
    let served = Served::start(40).await;
    let is_running = wait_for("the run", async || {
        let status = served.status().await;
        if format!("{:?}", status.running).contains("audit") {
            Ok(())
        } else {
            Err(status)
        }
    });
    tokio::select! {
        ended = served.run(SLOW) => panic!("it was not slow: {ended:?}"),
        () = is_running => {}
    }
    let exit_code = wait_for("the end of the run", async || {
        let status = served.status().await;
        let mut last_runs = status.last_runs.iter();
        let last = last_runs.find(|run| run.command == "audit");
        let last = last.map(|run| run.exit_code);
        if format!("{:?}", status.running).contains("audit") {
            Err(status)
        } else {
            last.ok_or(status)
        }
    });
    assert_eq!(exit_code.await, exit::SKIPPED);
    served.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn garbage_from_clients_harms_nothing() {
    let served = Served::start(4).await;
    let good = json!({ "version": env!("CARGO_PKG_VERSION"), "args": args(&["status"]) });
    let answer = served
        .answer_to(&changed(&good, "/args/options/json", json!(true)))
        .await;
    let is_good = answer.starts_with("HTTP/1.1 200 ") && answer.contains("audited_share");
    assert!(is_good, "the requests below test nothing: {answer}");
    let endless = json!({ "secs": u64::MAX, "nanos": 0 });
    for (bytes, said) in [
        (b"garbage\n".to_vec(), "the request is not understood"),
        (b"\xff\0\n".to_vec(), "the request is not understood"),
        (vec![b'x'; 70_000], "no line of at most 65536 bytes"),
        (vec![b'x'; 5_000_000], "no line of at most 65536 bytes"),
        (
            changed(&good, "/version", json!("9.9.9")),
            "the command is pagemark 9.9.9",
        ),
        (
            changed(&good, "/args/command", json!({ "dance": {} })),
            "another build of pagemark",
        ),
        (
            changed(&good, "/args/options/settings/lease", endless.clone()),
            "too long",
        ),
        (
            changed(&good, "/args/options/max_run_time", endless.clone()),
            "too long",
        ),
    ] {
        let answer = served.answer_to(&bytes).await;
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.contains(said),
            "{said}: {answer}"
        );
    }
    for cut in [
        &b""[..],
        b"{",
        b"no HTTP\r\n\r\n",
        HEAD,
        &[HEAD, &changed(&good, "/version", json!("9.9.9"))[..9]].concat(),
    ] {
        let mut stream = UnixStream::connect(&served.socket).await.unwrap();
        stream.write_all(cut).await.unwrap();
    }
    assert_eq!(served.run(&["status"]).await.exit_code, 0);
    served.finish().await;
}

/// A table that refuses every write is not in order.
#[tokio::test]
async fn the_verdict_names_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings_in(folder.path());
    let disk_is_full = Arc::clone(&settings.api.disk_is_full);
    let served = Served {
        running: Running::start_with(settings).await,
        socket: folder.path().join(SOCKET),
        _folder: folder,
    };
    // The stack looks at its disk every second.
    let full = wait_for("the verdict about a full disk", async || {
        disk_is_full.store(true, Ordering::Relaxed);
        let status = served.run(&["status"]).await;
        if status.output.contains("the disk is full") {
            Ok(status)
        } else {
            Err(status)
        }
    })
    .await;
    assert_eq!(full.exit_code, exit::DRIFT_FOUND | exit::DRIFT_LEFT);
    let verdict = full.output.lines().next().unwrap();
    let said = "pages are served, repair is needed: the disk is full";
    assert!(verdict.starts_with(said), "{verdict}");
    disk_is_full.store(false, Ordering::Relaxed);
    assert_eq!(served.run(&["status"]).await.exit_code, 0);
    served.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn pagemark_repair_says_when_no_stack_is_running() {
    let running = Running::start().await;
    let url = running.stack.dynamodb_url().unwrap().to_owned();
    let arguments = ["--dynamodb-url", &url, "--table", "nobody's"];
    let ended = pagemark::run(&[&["repair", "status"][..], &arguments].concat()).await;
    let ended = ended.expect(1);
    assert!(
        ended.stderr.contains("is `pagemark up` running") && ended.stderr.contains(&url),
        "{ended:?}"
    );
    running.finish().await;
}
