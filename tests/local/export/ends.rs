//! Every way in which an export ends early: killed, interrupted, without engine, disk or reader.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::Exporter;
use crate::fixture::{
    data::PRODUCT,
    function::binary,
    gate::{self, Gate},
    program::{Ended, Program},
};

const BEFORE: &str = "what was there before\n";

/// How many calls an export makes at least: one for each shard of `primaries`.
const CALLS_MIN: usize = 64;

async fn run_in_shell(exporter: &Exporter, script: &str, output: &Path) -> Ended {
    let pagemark = binary("pagemark").await.to_str().unwrap();
    let url = exporter.stores.engine_url();
    let table = exporter.stores.table.name();
    let command = [
        pagemark,
        "export",
        "--table",
        table,
        "--dynamodb-url",
        &url,
        "--output",
        output.to_str().unwrap(),
    ];
    Program::start(
        "sh",
        &[&["-c", script, "sh"], &command[..]].concat(),
        [("PATH", std::env::var_os("PATH").unwrap())],
    )
    .end()
    .await
}

fn names(exporter: &Exporter) -> Vec<String> {
    let entries = fs::read_dir(exporter.folder.path()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn an_export_that_is_killed_or_interrupted_anywhere_leaves_the_file_and_nothing_else() {
    let exporter = Exporter::with_comments(60).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut random = StdRng::seed_from_u64(17);
    fs::write(exporter.file(), BEFORE).unwrap();
    fs::set_permissions(exporter.file(), fs::Permissions::from_mode(0o640)).unwrap();
    for round in 0..12_u64 {
        let (kind, calls) = if round % 4 == 3 {
            (gate::JOURNAL, 8)
        } else {
            (gate::CALLS, CALLS_MIN)
        };
        let gate = Gate::holding(
            &exporter.stores.engine_url(),
            kind,
            random.random_range(0..calls),
        )
        .await;
        let program = exporter
            .start_export(&gate.url, &exporter.file(), &[])
            .await;
        gate.wait_until_holding("a call of the export").await;
        assert_eq!(
            names(&exporter),
            ["comments.jsonl"],
            "what was read has no name"
        );
        match ["KILL", "INT", "TERM"][usize::try_from(round % 3).unwrap()] {
            "KILL" => drop(program.kill().await),
            name => {
                program.signal(name);
                let ended = program.end().await.expect(130);
                assert!(ended.stderr.contains("is as it was"), "{ended:?}");
            }
        }
        assert_eq!(fs::read_to_string(exporter.file()).unwrap(), BEFORE);
        assert_eq!(names(&exporter), ["comments.jsonl"]);
    }
    assert_eq!(exporter.exported().await, exporter.expected().await);
    assert_eq!(mode(&exporter.file()), 0o640);
    exporter.end().await;
}

#[tokio::test]
async fn csv_is_refused_with_a_command_that_makes_it() {
    let exporter = Exporter::with_comments(3).await;
    let lines = exporter.path("comments.jsonl");
    exporter.export_to(&lines, &[]).await.expect(0);
    let file = exporter.path("comments.csv");
    for name in ["comments.csv", "comments.tsv", "comments.CSV.gz"] {
        fs::remove_file(&file).ok();
        let ended = exporter
            .export_to(&exporter.path(name), &[])
            .await
            .expect(2);
        let (_, command) = ended
            .stderr
            .trim_end()
            .split_once("pagemark export | ")
            .unwrap();
        assert!(!command.contains('\n') && !file.exists(), "{ended:?}");
        let run = format!("{command} < {}", lines.display());
        assert!(
            std::process::Command::new("sh")
                .args(["-c", &run])
                .status()
                .unwrap()
                .success(),
            "{run}"
        );
        let rows = fs::read_to_string(&file).unwrap();
        assert_eq!(rows.lines().count(), 4, "{rows}");
        for row in rows.lines() {
            assert_eq!(row.matches(',').count(), 10, "{row}");
        }
        assert!(rows.contains(PRODUCT), "{rows}");
    }
    let records = exporter.path("records.csv");
    let ended = exporter
        .export_to(&lines, &["--products", records.to_str().unwrap()])
        .await
        .expect(2);
    assert!(
        ended
            .stderr
            .contains("export --output /dev/null --products - | jq"),
        "{ended:?}"
    );
    exporter.end().await;
}

#[tokio::test]
async fn a_reader_that_has_gone_ends_the_export_with_one_line() {
    let exporter = Exporter::with_comments(700).await;
    let script = "{ \"$@\"; echo \"code $?\" >&2; } | head -n 1";
    let ended = run_in_shell(&exporter, script, Path::new("-"))
        .await
        .expect(0);
    assert_eq!(ended.stdout.lines().count(), 1);
    let says =
        "pagemark: the standard output cannot be written: Broken pipe (os error 32)\ncode 1\n";
    assert_eq!(ended.stderr, says);
    exporter.end().await;
}

#[tokio::test]
async fn a_full_disk_ends_the_export_and_leaves_the_file() {
    let exporter = Exporter::with_comments(700).await;
    let ended = exporter
        .export_to(Path::new("/dev/full"), &[])
        .await
        .expect(1);
    assert!(
        ended
            .stderr
            .contains("/dev/full cannot be written: No space left on device"),
        "{ended:?}"
    );

    fs::write(exporter.file(), BEFORE).unwrap();
    // No file may exceed 64 KB, as if the disk were full. `ulimit` counts blocks of 512 bytes.
    let ended = run_in_shell(
        &exporter,
        "trap '' XFSZ; ulimit -f 128; exec \"$@\"",
        &exporter.file(),
    )
    .await
    .expect(1);
    assert!(
        ended.stderr.contains("what was read cannot be kept"),
        "{ended:?}"
    );
    assert_eq!(fs::read_to_string(exporter.file()).unwrap(), BEFORE);
    assert_eq!(exporter.exported().await, exporter.expected().await);
    exporter.end().await;
}

#[tokio::test]
async fn a_folder_that_is_missing_and_a_file_that_is_a_folder_are_named_before_anything_is_read() {
    let exporter = Exporter::start().await;
    let ended = exporter
        .export_to(&exporter.path("missing/file.jsonl"), &[])
        .await
        .expect(1);
    assert!(
        ended
            .stderr
            .contains("cannot be used: No such file or directory"),
        "{ended:?}"
    );
    let ended = exporter
        .export_to(exporter.folder.path(), &[])
        .await
        .expect(1);
    assert!(
        ended.stderr.contains("cannot be written: Is a directory"),
        "{ended:?}"
    );
    exporter.end().await;
}
