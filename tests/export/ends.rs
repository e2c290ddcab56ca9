//! Every way in which an export ends early: killed, interrupted, without engine, disk or reader.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use rusqlite::Connection;

use super::Exporter;
use crate::fixture::{
    data::{comment_id, product, rate},
    function::binary,
    gate::{self, Gate},
    program::{Ended, Program},
};

/// What the file holds before.
const BEFORE: &str = "what was there before\n";

/// How many calls an export makes at least: one for each shard of `primaries`.
const CALLS_MIN: usize = 64;

/// Runs an export by a shell script, in which `"$@"` is the command.
async fn run_in_shell(exporter: &Exporter, script: &str, output: &Path) -> Ended {
    let pagemark = binary("pagemark").await.to_str().unwrap();
    let url = exporter.stores.engine_url();
    let table = exporter.stores.table.name();
    let command = [pagemark, "export", "--table", table, "--dynamodb-url", &url, "--output", output.to_str().unwrap()];
    Program::start("sh", &[&["-c", script, "sh"], &command[..]].concat(), [("PATH", std::env::var_os("PATH").unwrap())])
        .end()
        .await
}

#[tokio::test]
async fn an_export_that_is_killed_anywhere_resumes_and_equals_the_table() {
    let exporter = Exporter::with_comments(60).await;
    let mut random = StdRng::seed_from_u64(17);
    fs::write(exporter.file(), BEFORE).unwrap();
    let mut resumed = 0;
    for round in 0..12_u64 {
        let (kind, calls) = if round % 4 == 3 { (gate::JOURNAL, 8) } else { (gate::CALLS, CALLS_MIN) };
        let gate = Gate::holding(&exporter.stores.engine_url(), kind, random.random_range(0..calls)).await;
        let program = exporter.start_export(&gate.url, &exporter.file(), &[]).await;
        gate.wait_until_holding("a call of the export").await;
        let ended = program.kill().await;
        resumed += usize::from(ended.stderr.contains("going on with the export"));
        assert_eq!(fs::read_to_string(exporter.file()).unwrap(), BEFORE);
        // Comments change between the runs.
        exporter.stores.create_numbered(1_000 + round, product("c")).await;
        exporter.stores.table.delete_comment(&comment_id(&format!("c{:04}", round * 2)), None).await.unwrap();
        exporter
            .stores
            .table
            .patch_comment(&comment_id(&format!("c{:04}", round * 2 + 1)), None, &rate(2))
            .await
            .unwrap();
    }
    assert!(resumed >= 6, "{resumed}");
    let ended = exporter.export_to(&exporter.file(), &[]).await.expect(0);
    assert!(ended.stderr.contains("going on with the export"), "{ended:?}");
    assert!(!exporter.partial().exists());
    assert_eq!(fs::read_to_string(exporter.file()).unwrap(), exporter.expected().await);
    exporter.end().await;
}

#[tokio::test]
async fn a_resumed_export_does_not_read_the_scanned_products_again() {
    let exporter = Exporter::with_comments(60).await;
    let gate = Gate::holding(&exporter.stores.engine_url(), gate::JOURNAL, 0).await;
    let program = exporter.start_export(&gate.url, &exporter.file(), &[]).await;
    gate.wait_until_holding("the reading of the journal").await;
    program.kill().await;
    // A gate that lets no call to an index through.
    let gate = Gate::holding(&exporter.stores.engine_url(), b"\"IndexName\":", 0).await;
    exporter.start_export(&gate.url, &exporter.file(), &[]).await.end().await.expect(0);
    assert_eq!(fs::read_to_string(exporter.file()).unwrap(), exporter.expected().await);
    exporter.end().await;
}

#[tokio::test]
async fn an_interrupted_export_ends_with_130_and_leaves_the_file() {
    let exporter = Exporter::with_comments(30).await;
    fs::write(exporter.file(), BEFORE).unwrap();
    for name in ["INT", "TERM"] {
        let gate = Gate::holding(&exporter.stores.engine_url(), gate::PAGES, 1).await;
        let program = exporter.start_export(&gate.url, &exporter.file(), &[]).await;
        gate.wait_until_holding("a call of the export").await;
        program.signal(name);
        let ended = program.end().await.expect(130);
        assert!(ended.stderr.contains("the same command goes on where this one stopped"), "{ended:?}");
        assert_eq!(fs::read_to_string(exporter.file()).unwrap(), BEFORE);
    }
    assert_eq!(exporter.exported().await, exporter.expected().await);
    exporter.end().await;
}

#[tokio::test]
async fn what_was_read_is_private_and_the_file_keeps_its_permissions() {
    let exporter = Exporter::with_comments(30).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::write(exporter.file(), BEFORE).unwrap();
    fs::set_permissions(exporter.file(), fs::Permissions::from_mode(0o640)).unwrap();
    let gate = Gate::holding(&exporter.stores.engine_url(), gate::JOURNAL, 0).await;
    let program = exporter.start_export(&gate.url, &exporter.file(), &[]).await;
    gate.wait_until_holding("the reading of the journal").await;
    assert_eq!(mode(&exporter.partial()), 0o700);
    gate.open();
    program.end().await.expect(0);
    assert_eq!(mode(&exporter.file()), 0o640);
    assert_eq!(fs::read_to_string(exporter.file()).unwrap(), exporter.expected().await);
    exporter.end().await;
}

#[tokio::test]
async fn what_another_export_has_read_is_refused_and_what_is_too_old_starts_anew() {
    let exporter = Exporter::with_comments(30).await;
    let stop = async |more: &[&str]| {
        let gate = Gate::holding(&exporter.stores.engine_url(), gate::JOURNAL, 0).await;
        let program = exporter.start_export(&gate.url, &exporter.file(), more).await;
        gate.wait_until_holding("the reading of the journal").await;
        program
    };
    let program = stop(&["--product", "c"]).await;
    let ended = exporter.export_to(&exporter.file(), &["--product", "c"]).await.expect(1);
    assert!(ended.stderr.contains("another export to ") && ended.stderr.contains("is running"), "{ended:?}");
    program.kill().await;
    // Other products, and another table.
    let other = Exporter::with_comments(1).await;
    for ended in
        [exporter.export_to(&exporter.file(), &[]).await, other.export_to(&exporter.file(), &["--product", "c"]).await]
    {
        assert_eq!(ended.code(), 1, "{ended:?}");
        assert!(ended.stderr.contains("comments.jsonl.partial holds what an export of another table"), "{ended:?}");
        assert!(!exporter.file().exists());
    }
    other.end().await;
    // The journal no longer reaches back.
    let staging = exporter.partial().join("comments.sqlite");
    let sql = "UPDATE state SET value = '2024-02-29T12:00:00.000Z' WHERE name = 'journal_from'";
    assert_eq!(Connection::open(&staging).unwrap().execute(sql, []).unwrap(), 1);
    let ended = exporter.export_to(&exporter.file(), &["--product", "c"]).await.expect(0);
    assert!(ended.stderr.contains("is too old to go on with; it starts anew"), "{ended:?}");
    // Not even such a file.
    fs::create_dir(exporter.partial()).unwrap();
    fs::write(&staging, "no database\n".repeat(100)).unwrap();
    let ended = exporter.export_to(&exporter.file(), &[]).await.expect(1);
    assert!(ended.stderr.contains("remove it, or export to another file"), "{ended:?}");
    fs::remove_dir_all(exporter.partial()).unwrap();
    assert_eq!(exporter.exported().await, exporter.expected().await);
    exporter.end().await;
}

#[tokio::test]
async fn a_reader_that_has_gone_ends_the_export_with_one_line() {
    let exporter = Exporter::with_comments(700).await;
    let script = "{ \"$@\"; echo \"code $?\" >&2; } | head -n 1";
    let ended = run_in_shell(&exporter, script, Path::new("-")).await.expect(0);
    assert_eq!(ended.stdout.lines().count(), 1);
    let says = "pagemark: the standard output cannot be written: Broken pipe (os error 32)\ncode 1\n";
    assert_eq!(ended.stderr, says);
    exporter.end().await;
}

#[tokio::test]
async fn a_full_disk_ends_the_export_and_leaves_the_file() {
    let exporter = Exporter::with_comments(700).await;
    let ended = exporter.export_to(Path::new("/dev/full"), &[]).await.expect(1);
    assert!(ended.stderr.contains("/dev/full cannot be written: No space left on device"), "{ended:?}");
    assert!(!Path::new("/dev/full.partial").exists());

    fs::write(exporter.file(), BEFORE).unwrap();
    // No file may exceed 64 KB, as if the disk were full. `ulimit` counts blocks of 512 bytes.
    let ended = run_in_shell(&exporter, "trap '' XFSZ; ulimit -f 128; exec \"$@\"", &exporter.file()).await.expect(1);
    assert!(ended.stderr.contains("what was read cannot be kept"), "{ended:?}");
    assert_eq!(fs::read_to_string(exporter.file()).unwrap(), BEFORE);
    assert_eq!(exporter.exported().await, exporter.expected().await);
    exporter.end().await;
}

#[tokio::test]
async fn a_folder_that_is_missing_and_a_file_that_is_a_folder_are_named_before_anything_is_read() {
    let exporter = Exporter::start().await;
    let ended = exporter.export_to(&exporter.path("missing/file.jsonl"), &[]).await.expect(1);
    assert!(ended.stderr.contains("cannot be used: No such file or directory"), "{ended:?}");
    let ended = exporter.export_to(exporter.folder.path(), &[]).await.expect(1);
    assert!(ended.stderr.contains("cannot be written: is a directory"), "{ended:?}");
    exporter.end().await;
}
