//! `pagemark doctor`.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde_json::Value;

use super::{refused, run, up};
use crate::fixture::{data::PRODUCT, folder_in_memory, http::good_comment, pagemark::Up};

const SNAPSHOT: &str = "page-index.snapshot";
const DATABASE: &str = "dynamodb.sqlite";
const UP: &[&str] = &["up", "--listen", "127.0.0.1:0", "--dynamodb-listen", "127.0.0.1:0"];

/// Everything in a folder: content, time of the last change, and mode of each file.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime, u32)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if metadata.is_dir() {
            found.extend(everything(&path));
        }
        let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        found.insert(path, (content, metadata.modified().unwrap(), metadata.permissions().mode()));
    }
    found
}

/// What the doctor says about a stopped folder: the state and the text of each check. It must not change the folder, and
/// must print the same for a person.
async fn examined(folder: &Path, code: u8) -> Vec<(String, String, String)> {
    let before = everything(folder);
    let checks = diagnosed(folder, code).await;
    assert!(everything(folder) == before, "the doctor has changed {}", folder.display());
    checks
}

async fn diagnosed(folder: &Path, code: u8) -> Vec<(String, String, String)> {
    let text = run(folder, &["doctor"]).await.expect(code);
    let report = run(folder, &["doctor", "--json"]).await.expect(code).json();
    assert_eq!(report["problems"], code == 1, "{report}");
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(text.stdout.lines().count(), checks.len(), "{text:?}");
    let word = |check: &Value, name: &str| check[name].as_str().unwrap_or_default().to_owned();
    for (line, check) in text.stdout.lines().zip(checks) {
        let (state, name) = (word(check, "state"), word(check, "check"));
        assert!(line.starts_with(&state) && line.contains(&name), "{line} {check}");
        assert_eq!(state == "ok", check["advice"].is_null(), "{check}");
    }
    checks.iter().map(|check| (word(check, "check"), word(check, "state"), word(check, "found"))).collect()
}

/// Asserts that exactly these checks are not all right, and returns what they found.
#[track_caller]
fn troubles(checks: &[(String, String, String)], expected: &[(&str, &str)]) -> String {
    let of = |checks: &[(String, String, String)]| {
        checks.iter().filter(|(_, state, _)| state != "ok").cloned().collect::<Vec<_>>()
    };
    let found = of(checks);
    let short: Vec<(&str, &str)> = found.iter().map(|(name, state, _)| (name.as_str(), state.as_str())).collect();
    assert_eq!(short, expected, "{checks:?}");
    found.into_iter().map(|(_, _, text)| text).collect()
}

async fn posted(folder: &Path) -> Up {
    let up = up(folder).await;
    for number in 0..5 {
        up.api.post(PRODUCT, &good_comment("en", number % 5 + 1, "A body")).await.expect(201);
    }
    up
}

#[tokio::test]
async fn a_stopped_or_killed_stacks_folder_is_examined_without_a_change_in_it() {
    for is_killed in [false, true] {
        let folder = folder_in_memory();
        let up = posted(folder.path()).await;
        if is_killed {
            up.kill().await;
            assert!(fs::metadata(folder.path().join("dynamodb.sqlite-wal")).unwrap().len() > 0, "its last changes");
        } else {
            up.stop().await;
        }
        let checks = examined(folder.path(), 0).await;
        troubles(&checks, &[]);
        let names: Vec<&str> = checks.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["stack", "database", "stream", "page index", "permissions", "disk"]);
    }
}

#[tokio::test]
async fn a_running_stack_is_asked() {
    let folder = folder_in_memory();
    let up = posted(folder.path()).await;
    let checks = diagnosed(folder.path(), 0).await;
    troubles(&checks, &[]);
    assert!(checks.iter().any(|(name, _, found)| name == "page index" && found.contains("all 256")), "{checks:?}");
    let socket = folder.path().join("control.sock");
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    troubles(&diagnosed(folder.path(), 1).await, &[("permissions", "problem")]);
    fs::remove_file(socket).unwrap();
    troubles(&diagnosed(folder.path(), 1).await, &[("stack", "problem")]);
    up.stop().await;
}

#[tokio::test]
async fn damage_is_found_and_says_what_to_do() {
    let (folder, other) = (folder_in_memory(), folder_in_memory());
    for folder in [&folder, &other] {
        let up = posted(folder.path()).await;
        up.stop().await;
    }
    let [database, snapshot] = [DATABASE, SNAPSHOT].map(|name| folder.path().join(name));
    let (whole, saved) = (fs::read(&database).unwrap(), fs::read(&snapshot).unwrap());

    let mut damaged = saved.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for (content, word) in [(damaged, "is damaged"), (fs::read(other.path().join(SNAPSHOT)).unwrap(), "is foreign")] {
        fs::write(&snapshot, content).unwrap();
        let found = troubles(&examined(folder.path(), 0).await, &[("page index", "warning")]);
        assert!(found.contains(word), "{found}");
    }
    fs::write(&snapshot, saved).unwrap();

    // The first page after those of SQLite itself.
    let page_bytes = usize::from(u16::from_be_bytes([whole[16], whole[17]]));
    let (mut damaged, mut overwritten) = (whole.clone(), whole.clone());
    damaged[2 * page_bytes] ^= 0xff;
    overwritten[(whole.len() / 2) & !(page_bytes - 1)..][..2 * page_bytes].fill(0xa5);
    let half = whole[..whole.len() / 2].to_vec();
    for (content, said) in [
        (Some(damaged), "is damaged"),
        (Some(overwritten), "is damaged"),
        (Some(half), "is damaged"),
        (Some(b"text".repeat(1_000)), "not a data file"),
        (Some(Vec::new()), "up --new"),
        (None, "up --new"),
    ] {
        content.map_or_else(|| fs::remove_file(&database), |content| fs::write(&database, content)).unwrap();
        let checks = examined(folder.path(), 1).await;
        assert!(checks.iter().any(|(name, state, _)| name == "database" && state == "problem"), "{checks:?}");
        let is_data = |path: &Path| !path.ends_with("pagemark.lock");
        let but_its_lock =
            || everything(folder.path()).into_iter().filter(|(path, _)| is_data(path)).collect::<Vec<_>>();
        let before = but_its_lock();
        let line = refused(run(folder.path(), UP).await, folder.path());
        assert!(line.contains(said) && but_its_lock() == before, "{line}");
    }
    Up::start(folder.path(), &["--new", "--demo", "0"]).await.stop().await;
    up(folder.path()).await.stop().await;
}
