//! The log warns only of trouble: not of clients' mistakes, and not of conditions that are expected
//! to fail.

use std::collections::BTreeMap;

use model::Timestamp;
use serde_json::Value;
use table::{Table, TableConfig};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::fixture::{pagemark::Up, wait_for};

const _: crate::Engines = crate::Engines::Embedded("about the lines of the log");

async fn send(address: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses the bytes may close the connection at any time.
    stream.write_all(bytes).await.ok();
    stream.shutdown().await.ok();
    stream.read_to_end(&mut Vec::new()).await.ok();
}

fn mistakes() -> Vec<Vec<u8>> {
    let texts = [
        "nonsense\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nthe beginning",
        "GET / HTTP/1.1\r\nHos",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\nContent-Length: 2\r\n\r\n{}",
    ];
    let mut mistakes: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    mistakes.push(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec());
    let long = "x".repeat(200_000);
    mistakes.push(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n").into_bytes());
    mistakes
}

/// Waits until each of the stack's scheduled runs has begun and ended since an instant.
async fn both_runs_since(engine: &str, since: Timestamp) {
    let engine = format!("http://{engine}");
    let table = Table::connect(&TableConfig::new("pagemark", Some(engine))).await;
    let since = since.to_string();
    wait_for("a run of `recent` and one of `audit`", async || {
        let runs = table.states("run").await.unwrap();
        let runs: BTreeMap<String, Value> = runs.into_iter().collect();
        for name in ["recent", "audit"] {
            let began = runs.get(name).and_then(|run| run["began"].as_str());
            if began.is_none_or(|began| began <= since.as_str()) {
                return Err(runs);
            }
        }
        Ok(())
    })
    .await;
}

#[track_caller]
fn assert_no_trouble(log: &str) {
    let trouble: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"))
        .collect();
    if let Some(first) = trouble.first() {
        panic!("{} lines, such as {first}", trouble.len());
    }
}

#[tokio::test]
async fn client_errors_and_an_idle_restart_leave_no_warning_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let often = ["--repair-every", "1", "--audit-every", "1"];
    let began = process::now();
    let with_demo = [&often[..], &["--demo", "10"]].concat();
    let up = Up::start(folder.path(), &with_demo).await;
    for mistake in mistakes() {
        for address in [up.api.authority(), &up.engine] {
            send(address, &mistake).await;
        }
    }
    both_runs_since(&up.engine, began).await;
    assert_no_trouble(&up.stop().await);

    let began = process::now();
    let up = Up::start(folder.path(), &often).await;
    both_runs_since(&up.engine, began).await;
    assert_no_trouble(&up.stop().await);
}
