//! Every way in which an export ends early: killed, interrupted, without engine, disk or reader.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use model::{AuthorId, Status};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use serde_json::Value;

use super::Exporter;
use crate::fixture::{
    data::{self, PRODUCT},
    function::binary,
    gate::{self, Gate},
    program::{Ended, Program, json_lines},
};

const BEFORE: &str = "what was there before\n";

/// How many calls an export makes at least: one for each shard of `primaries`.
const CALLS_MIN: usize = 64;

/// Runs a script of the shell whose arguments are the command of an export.
async fn run_in_shell(exporter: &Exporter, script: &str, output: &Path) -> Ended {
    let pagemark = binary("pagemark").await.to_str().unwrap();
    let url = exporter.stores.engine_url();
    let arguments = [
        "-c",
        script,
        "sh",
        pagemark,
        "export",
        "--table",
        exporter.stores.table.name(),
        "--dynamodb-url",
        &url,
        "--output",
        output.to_str().unwrap(),
    ];
    let path = std::env::var_os("PATH").unwrap();
    let program = Program::start("sh", &arguments, [("PATH", path)]);
    program.end().await
}

/// The files in the export's folder.
fn names(exporter: &Exporter) -> Vec<String> {
    let entries = fs::read_dir(exporter.folder.path()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
#[ignore = "takes long"]
async fn an_export_that_is_killed_or_interrupted_leaves_the_file_and_nothing_else() {
    let exporter = Exporter::with_comments(60).await;
    let mut random = StdRng::seed_from_u64(17);
    fs::write(exporter.file(), BEFORE).unwrap();
    fs::set_permissions(exporter.file(), fs::Permissions::from_mode(0o640)).unwrap();
    for round in 0..12_u64 {
        let (kind, calls) = if round % 4 == 3 {
            (gate::JOURNAL, 8)
        } else {
            (gate::CALLS, CALLS_MIN)
        };
        let calls_before = random.random_range(0..calls);
        let engine_url = exporter.stores.engine_url();
        let gate = Gate::holding(&engine_url, kind, calls_before).await;
        let program = exporter
            .start_export(&gate.url, &exporter.file(), &[])
            .await;
        gate.wait_until_holding("a call of the export").await;
        assert_eq!(
            names(&exporter),
            ["comments.jsonl"],
            "what was read has no name"
        );
        if round % 3 == 0 {
            program.kill().await;
        } else {
            program.signal(if round % 3 == 1 { "INT" } else { "TERM" });
            let ended = program.end().await.expect(130);
            assert!(ended.stderr.contains("is as it was"), "{ended:?}");
        }
        assert_eq!(fs::read_to_string(exporter.file()).unwrap(), BEFORE);
        assert_eq!(names(&exporter), ["comments.jsonl"]);
    }
    assert_eq!(exporter.exported().await, exporter.expected().await);
    let permissions = fs::metadata(exporter.file()).unwrap().permissions();
    assert_eq!(permissions.mode() & 0o777, 0o640);
    exporter.end().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn what_an_export_holds_is_printed_as_json_beside_its_files() {
    let exporter = Exporter::with_comments(3).await;
    let file = exporter.path("comments.jsonl");
    let products = exporter.path("products.jsonl");
    let options = ["--json", "--products", products.to_str().unwrap()];
    let outcome = exporter.export_to(&file, &options).await.expect(0).json();
    assert_eq!(outcome["comments"], 3, "{outcome}");
    assert_eq!(outcome["products"], 0, "{outcome}");
    assert_eq!(outcome["problems"], 0, "{outcome}");
    assert_eq!(outcome["exit_code"], 0, "{outcome}");
    assert!(outcome["has_changes_until"].is_string(), "{outcome}");
    let refused = exporter.export_to(Path::new("-"), &["--json"]).await;
    let refused = refused.expect(2);
    assert!(refused.stderr.contains("--output"), "{refused:?}");
    exporter.end().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn an_author_s_export_has_all_of_the_author_and_nothing_else() {
    let exporter = Exporter::with_comments(3).await;
    let table = &exporter.stores.table;
    for (number, author, status) in [
        (10, "ann@x", None),
        (11, "ann@x", Some(Status::Hidden)),
        (12, "Ann@X", None),
    ] {
        let mut comment = data::varied_comment(number);
        comment.site.author_id = Some(AuthorId::parse(author).unwrap());
        comment.status = status;
        table.create_comment(comment, None).await.unwrap();
    }
    let file = exporter.path("author.jsonl");
    let ended = exporter.export_to(&file, &["--author", "ann@x"]).await;
    let ended = ended.expect(0);
    assert!(ended.stderr.contains("comments of \"Ann@X\""), "{ended:?}");
    let lines = json_lines(&fs::read_to_string(&file).unwrap());
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in &lines {
        assert_eq!(line["author_id"], "ann@x", "{line}");
    }
    let all = exporter.exported().await;
    let mut of_author: Vec<Value> = json_lines(&all);
    of_author.retain(|line| line["author_id"] == "ann@x");
    assert_eq!(of_author.len(), 2);
    assert!(
        of_author.iter().all(|line| lines.contains(line)),
        "as a whole export has them"
    );
    exporter.end().await;
}

#[tokio::test]
#[ignore = "takes long"]
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
        assert!(!command.contains('\n'), "{ended:?}");
        assert!(!file.exists(), "{ended:?}");
        let run = format!("{command} < {}", lines.display());
        let status = Command::new("sh").args(["-c", &run]).status().unwrap();
        assert!(status.success(), "{run}");
        let rows = fs::read_to_string(&file).unwrap();
        assert_eq!(rows.lines().count(), 4, "{rows}");
        for row in rows.lines() {
            assert_eq!(row.matches(',').count(), 10, "{row}");
        }
        assert!(rows.contains(PRODUCT), "{rows}");
    }
    let records = exporter.path("records.csv");
    let products = ["--products", records.to_str().unwrap()];
    let ended = exporter.export_to(&lines, &products).await.expect(2);
    let command = "export --output /dev/null --products - | jq";
    assert!(ended.stderr.contains(command), "{ended:?}");
    exporter.end().await;
}

#[tokio::test]
#[ignore = "takes long"]
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
#[ignore = "takes long"]
async fn a_full_disk_ends_the_export_and_leaves_the_file() {
    let exporter = Exporter::with_comments(700).await;
    let full = Path::new("/dev/full");
    let ended = exporter.export_to(full, &[]).await.expect(1);
    let says = "/dev/full cannot be written: No space left on device";
    assert!(ended.stderr.contains(says), "{ended:?}");

    fs::write(exporter.file(), BEFORE).unwrap();
    // No file may exceed 64 KB, as if the disk were full. `ulimit` counts blocks of 512 bytes.
    let script = "trap '' XFSZ; ulimit -f 128; exec \"$@\"";
    let ended = run_in_shell(&exporter, script, &exporter.file())
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
#[ignore = "takes long"]
async fn a_missing_folder_and_a_file_that_is_a_folder_are_named_before_any_reading() {
    let exporter = Exporter::start().await;
    let missing = exporter.path("missing/file.jsonl");
    let ended = exporter.export_to(&missing, &[]).await.expect(1);
    let says = "cannot be used: No such file or directory";
    assert!(ended.stderr.contains(says), "{ended:?}");
    let folder = exporter.folder.path();
    let ended = exporter.export_to(folder, &[]).await.expect(1);
    let says = "cannot be written: Is a directory";
    assert!(ended.stderr.contains(says), "{ended:?}");
    exporter.end().await;
}
