//! Which ports a stack opens.

use std::{fs, os::unix::fs::PermissionsExt};

use local_stack::control::SOCKET;

use super::run;
use crate::fixture::{folder_in_memory, pagemark};

/// How many TCP ports a process listens at.
fn listening_ports(process: u32) -> usize {
    const LISTENS: &str = "0A";
    let mut sockets = Vec::new();
    for file in fs::read_dir(format!("/proc/{process}/fd")).unwrap() {
        if let Ok(target) = fs::read_link(file.unwrap().path()) {
            sockets.push(target.to_string_lossy().into_owned());
        }
    }
    let mut ports = 0;
    for table in ["tcp", "tcp6"] {
        let connections = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap();
        for connection in connections.lines().skip(1) {
            let columns: Vec<&str> = connection.split_whitespace().collect();
            let socket = format!("socket:[{}]", columns[9]);
            if columns[3] == LISTENS && sockets.contains(&socket) {
                ports += 1;
            }
        }
    }
    ports
}

/// What other users and web pages of the machine cannot reach, they cannot read or delete.
#[tokio::test]
#[ignore = "takes long"]
async fn a_stack_has_no_port_for_its_engine_unless_it_is_asked_for() {
    let folder = folder_in_memory();
    let path = folder.path().to_str().unwrap();
    let options = ["--demo", "30", "--listen", "127.0.0.1:0"];
    let up = pagemark::start(&[&["up", "--data-dir", path], &options[..]].concat()).await;
    let said = up
        .wait_for_stdout("a stack that is ready", |output| {
            let is_ready = output.contains("Pagemark is ready");
            is_ready.then(|| output.to_owned())
        })
        .await;
    let commands = format!("commands reach it by --data-dir {path}");
    assert!(said.contains(&commands), "{said}");
    let listening = listening_ports(up.pid());
    assert_eq!(listening, 1, "the API alone listens");
    let socket = fs::symlink_metadata(folder.path().join(SOCKET)).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);

    let exported = run(folder.path(), &["export"]).await.expect(0);
    assert_eq!(exported.lines().len(), 30, "{exported:?}");
    let file = folder.path().join("exported.jsonl");
    fs::write(&file, &exported.stdout).unwrap();
    let imported = run(folder.path(), &["import", file.to_str().unwrap()]).await;
    let imported = imported.expect(0);
    assert!(imported.stdout.contains(" 30 unchanged"), "{imported:?}");
    run(folder.path(), &["repair", "audit"]).await.expect(0);
    up.signal("INT");
    up.end().await.expect(0);
}
