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
    mistakes.push(
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
            "x".repeat(200_000)
        )
        .into_bytes(),
    );
    mistakes
}

/// Waits until each of the stack's scheduled runs has begun and ended since an instant.
async fn both_runs_since(engine: &str, since: Timestamp) {
    let table = Table::connect(&TableConfig::new(
        "pagemark",
        Some(format!("http://{engine}")),
    ))
    .await;
    wait_for("a run of `recent` and one of `audit`", async || {
        let runs: BTreeMap<String, Value> =
            table.states("run").await.unwrap().into_iter().collect();
        let since = |name: &str| {
            runs.get(name)
                .is_some_and(|run| run["began"].as_str() > Some(&since.to_string()))
        };
        if since("recent") && since("audit") {
            Ok(())
        } else {
            Err(runs)
        }
    })
    .await;
}

#[track_caller]
fn assert_no_trouble(log: &str) {
    let trouble: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"))
        .collect();
    assert!(
        trouble.is_empty(),
        "{} lines, such as {}",
        trouble.len(),
        trouble[0]
    );
}

#[tokio::test]
async fn client_errors_and_an_idle_restart_leave_no_warning_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let often = ["--repair-every", "1", "--audit-every", "1"];
    let began = process::now();
    let up = Up::start(folder.path(), &[&often[..], &["--demo", "10"]].concat()).await;
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
