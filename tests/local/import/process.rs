//! The binary `pagemark`: its output and exit codes when an import or the demo ends early.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use model::item::comment_of_primary;
use serde_json::Value;
use table::{CommentPatch, NewComment};
use tempfile::TempDir;

use super::{cut_off_gzip, gzip, lines, some_comments};
use crate::fixture::{
    data, folder_in_memory,
    gate::{self, Gate},
    http::Http,
    invariants::Contents,
    pagemark,
    program::{Ended, Program},
    stores::Stores,
    wait_for,
};

async fn start_import(stores: &Stores, engine_url: &str, files: &[&Path]) -> Program {
    let mut arguments = vec![
        "import",
        "--table",
        stores.table.name(),
        "--dynamodb-url",
        engine_url,
    ];
    for file in files {
        arguments.push(file.to_str().unwrap());
    }
    pagemark::start(&arguments).await
}

pub(super) fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Imports a file with this content to its end.
async fn import(stores: &Stores, folder: &TempDir, content: &[u8]) -> Ended {
    let path = write(folder, "comments", content);
    let program = start_import(stores, &stores.engine_url(), &[&path]).await;
    program.end().await
}

#[tokio::test]
async fn a_file_that_is_cut_off_is_named_with_the_counts_so_far() {
    let lines = lines(&some_comments(120));
    let folder = folder_in_memory();
    // One block of zstd holds all lines, so none comes out of it.
    let packed_by_zstd = zstd::encode_all(lines.as_bytes(), 3).unwrap();
    for (format, packed, readable) in [
        ("gzip", gzip(lines.as_bytes()), 1..120),
        ("zstd", packed_by_zstd, 0..120),
    ] {
        let stores = Stores::start().await;
        let two_thirds = &packed[..packed.len() * 2 / 3];
        let cut_off = import(&stores, &folder, two_thirds).await.expect(1);
        let there = Contents::read(&stores.table).await.primary.len();
        assert!(readable.contains(&there), "{cut_off:?}");
        let counts = format!("comments: {there} new, 0 unchanged");
        assert!(cut_off.stdout.contains(&counts), "{cut_off:?}");
        let says = &cut_off.stderr;
        for part in [
            format!("its {format} data is broken or cut off after line {there} "),
            format!("`{format} -t`"),
            "a whole copy".to_owned(),
        ] {
            assert!(says.contains(&part), "{says}");
        }
        assert!(!says.contains("again"), "{says}");
        // When the file is whole, it can be imported again.
        let whole = import(&stores, &folder, &packed).await.expect(0);
        let counts = format!("{} new, {there} unchanged", 120 - there);
        assert!(whole.stdout.contains(&counts), "{whole:?}");
        stores.finish().await;
    }
}

#[tokio::test]
async fn the_outcome_as_json_has_the_counts_and_the_reasons() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let content = lines(&some_comments(3)) + "{\"rating\": 9}\n";
    let path = write(&folder, "comments", content);
    let url = stores.engine_url();
    let arguments = [
        "import",
        path.to_str().unwrap(),
        "--json",
        "--table",
        stores.table.name(),
        "--dynamodb-url",
        &url,
    ];
    let outcome = pagemark::run(&arguments).await.expect(1).json();
    let file = &outcome["files"][0];
    assert_eq!(file["created"], 3, "{outcome}");
    assert_eq!(file["bad"], 1, "{outcome}");
    assert_eq!(file["mistakes"][0]["line"], 4, "{outcome}");
    assert!(file["mistakes"][0]["reason"].is_string(), "{outcome}");
    assert_eq!(file["failure"], Value::Null, "{outcome}");
    // No stack processes this table.
    assert_eq!(outcome["settled"], Value::Null, "{outcome}");
    assert_eq!(outcome["exit_code"], 1, "{outcome}");
    stores.finish().await;
}

/// The number before a word, such as `1,200 new`.
fn number_before(word: &str, stdout: &str) -> usize {
    let Some((before, _)) = stdout.split_once(&format!(" {word}")) else {
        panic!("{word}: {stdout}");
    };
    let number = before.rsplit(' ').next().unwrap().replace(',', "");
    number
        .parse()
        .unwrap_or_else(|_| panic!("{word}: {stdout}"))
}

/// How many comments an import has counted.
fn counted(stdout: &str) -> usize {
    number_before("new", stdout) + number_before("unchanged", stdout)
}

#[tokio::test]
async fn an_interrupted_import_finishes_what_is_under_way_and_counts_it() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments: Vec<NewComment> = data::generated_comments(2_000);
    let first = write(&folder, "first", lines(&comments));
    let second = write(&folder, "second", lines(&some_comments(1)));
    for name in ["INT", "TERM"] {
        let before = Contents::read(&stores.table).await.primary.len();
        let gate = Gate::holding(&stores.engine_url(), gate::TRANSACTIONS, 30).await;
        let pagemark = start_import(&stores, &gate.url, &[&first, &second]).await;
        gate.wait_until_holding("a write that is held").await;
        pagemark.signal(name);
        pagemark
            .wait_for_stderr("finishing what is under way")
            .await;
        gate.open();
        let ended = pagemark.end().await;
        assert_eq!(ended.code(), 130, "{ended:?}");
        let there = Contents::read(&stores.table).await.primary.len();
        assert!((before + 30..2_000).contains(&there), "{there}");
        assert_eq!(counted(&ended.stdout), there, "{ended:?}");
        assert!(ended.stdout.contains("/first: "), "{ended:?}");
        assert!(!ended.stdout.contains("/second: "), "{ended:?}");
        let says = "it was interrupted; import it again for the rest";
        assert!(ended.stderr.contains(says), "{ended:?}");
    }
    stores.finish().await;
}

#[tokio::test]
async fn an_interrupted_import_waits_for_no_write_that_is_held() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let path = write(&folder, "comments", lines(&some_comments(50)));
    for signals in 1..=2 {
        let gate = Gate::holding(&stores.engine_url(), gate::TRANSACTIONS, 0).await;
        let pagemark = start_import(&stores, &gate.url, &[&path]).await;
        gate.wait_until_holding("a write that is held").await;
        pagemark.signal("INT");
        pagemark
            .wait_for_stderr("finishing what is under way")
            .await;
        if signals == 2 {
            pagemark.signal("INT");
        }
        // The writes are still held.
        let ended = pagemark.end().await;
        assert_eq!(ended.code(), 130, "{ended:?}");
        let says = "it was interrupted; import it again for the rest";
        assert_eq!(ended.stderr.contains(says), signals == 1, "{ended:?}");
        drop(gate);
    }
    stores.finish().await;
}

#[tokio::test]
async fn an_import_that_waits_for_a_pipe_can_be_interrupted() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let pipe = folder.path().join("pipe");
    let mkfifo = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(mkfifo.success());
    // Open for reading, too, so that this does not wait.
    let mut writer = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&pipe)
        .unwrap();
    let pagemark = start_import(&stores, &stores.engine_url(), &[&pipe]).await;
    writer
        .write_all(lines(&some_comments(3)).as_bytes())
        .unwrap();
    wait_for("the lines that were written", async || {
        let there = Contents::read(&stores.table).await.primary.len();
        if there == 3 { Ok(()) } else { Err(there) }
    })
    .await;
    pagemark.signal("INT");
    let ended = pagemark.end().await;
    assert_eq!(ended.code(), 130, "{ended:?}");
    assert_eq!(counted(&ended.stdout), 3, "{ended:?}");
    stores.finish().await;
}

#[tokio::test]
async fn a_stack_is_not_ready_after_an_import_that_ended_early() {
    let folder = folder_in_memory();
    let cut_off = cut_off_gzip(&lines(&some_comments(120)));
    let path = write(&folder, "comments", cut_off);
    let up = ["--repair-every", "0", "--import", path.to_str().unwrap()];
    let ended = pagemark::up_after("", &up).await.end().await;
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(counted(&ended.stdout) > 0, "{ended:?}");
    assert!(!ended.stdout.contains("ready"), "{ended:?}");
    let stderr = &ended.stderr;
    assert!(stderr.contains("was not imported to its end"), "{stderr}");
    assert!(stderr.contains("broken or cut off"), "{stderr}");
}

#[tokio::test]
async fn a_full_disk_during_the_demo_leaves_a_stack_that_serves_what_it_has() {
    let folder = folder_in_memory();
    // No file may exceed 4 MB, as if the disk were full. `ulimit` counts blocks of 512 bytes.
    let shell = "trap '' XFSZ; ulimit -f 8192;";
    let data_dir = folder.path().join("data");
    let up = [
        "--repair-every",
        "0",
        "--demo",
        "20000",
        "--data-dir",
        data_dir.to_str().unwrap(),
    ];
    let pagemark = pagemark::up_after(shell, &up).await;
    // This is printed after the line that reports readiness.
    let stdout = pagemark
        .wait_for_stdout("the line about the data", |output| {
            if output.contains("  data  ") {
                Some(output.to_owned())
            } else {
                None
            }
        })
        .await;
    let stderr = pagemark.stderr();
    let says = "not all demo comments were written";
    assert!(stderr.contains(says), "{stderr}");
    assert!((1..20_000).contains(&counted(&stdout)), "{stdout}");
    assert!(stdout.contains("Pagemark is ready"), "{stdout}");
    let mut lines = stdout.lines();
    let api = lines.find_map(|line| line.trim().strip_prefix("API"));
    let api = api.unwrap().trim();
    let http = Http::new(api.trim_end_matches("/api/v1/").to_owned());
    let page = http.get("/api/v1/products/espresso-machine/comments").await;
    assert!(!page.expect(200)["comments"].as_array().unwrap().is_empty());
    pagemark.signal("INT");
    let ended = pagemark.end().await;
    assert_eq!(ended.code(), 0, "{ended:?}");
}

/// Runs `pagemark repair undo-import` on a file.
async fn undo(stores: &Stores, file: &Path, more: &[&str]) -> Ended {
    let url = stores.engine_url();
    let arguments = [
        "repair",
        "undo-import",
        file.to_str().unwrap(),
        "--table",
        stores.table.name(),
        "--dynamodb-url",
        &url,
    ];
    pagemark::run(&[&arguments, more].concat()).await
}

#[tokio::test]
async fn an_import_is_undone_where_nobody_has_changed_what_it_created() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments = some_comments(6);
    // The first was there before, the second comes by an earlier import.
    let first = comments[0].clone();
    let by_a_shop = stores.table.written_by("shop");
    by_a_shop.create_comment(first, None).await.unwrap();
    let second = lines(&comments[1..2]);
    import(&stores, &folder, second.as_bytes()).await.expect(0);
    let second = data::stored(&comments[1]);
    let second = stores
        .table
        .primary_item(&second.id)
        .await
        .unwrap()
        .unwrap();
    let second = comment_of_primary(&second).unwrap();
    let since = second.revision.instant().plus_ms(1).to_string();
    let all = write(&folder, "all", lines(&comments));
    let imported = start_import(&stores, &stores.engine_url(), &[&all]).await;
    let imported = imported.end().await.expect(0);
    assert!(
        imported.stdout.contains("4 new, 2 unchanged"),
        "{imported:?}"
    );
    // Somebody edits the third and deletes the fourth.
    let patch = CommentPatch {
        title: Some(Some("Edited".to_owned())),
        ..CommentPatch::default()
    };
    let third = &comments[2].id;
    let edited = stores.table.patch_comment(third, |_| true, &patch).await;
    edited.unwrap();
    let fourth = &comments[3].id;
    let deleted = stores.table.delete_comment(fourth, |_| true).await;
    deleted.unwrap();

    let options = ["--since", since.as_str()];
    let dry = undo(&stores, &all, &options).await.expect(12);
    assert!(
        dry.stdout.contains("2 comments would be removed") && dry.stdout.contains("3 stay"),
        "{dry:?}"
    );
    assert_eq!(Contents::read(&stores.table).await.primary.len(), 5);
    // A file that uses the ids for reviews of another product has created none of these comments.
    let others = comments.iter().cloned().map(|comment| NewComment {
        product: data::product("another"),
        ..comment
    });
    let others: Vec<NewComment> = others.collect();
    let others = write(&folder, "others", lines(&others));
    let of_others = undo(&stores, &others, &options).await.expect(0);
    assert!(of_others.stdout.contains("5 stay"), "{of_others:?}");
    let at_once = [&options[..], &["--apply", "--max-run-time", "0s"]].concat();
    let stopped = undo(&stores, &all, &at_once).await.expect(1);
    assert!(
        stopped.stdout.contains("0 comments removed")
            && stopped.stderr.contains("the same command resumes it"),
        "{stopped:?}"
    );
    let applied = undo(
        &stores,
        &all,
        &[&options[..], &["--apply", "--json"]].concat(),
    )
    .await;
    let outcome = applied.expect(4).json();
    let file = &outcome["files"][0];
    assert_eq!(file["as_imported"], 2, "{outcome}");
    assert_eq!(file["staying"], 3, "{outcome}");
    assert_eq!(file["absent"], 1, "{outcome}");
    undo(&stores, &all, &options).await.expect(0);
    let mut left = Vec::new();
    for comment in &comments {
        let item = stores.table.primary_item(&comment.id).await.unwrap();
        left.push(item.is_some());
    }
    assert_eq!(left, [true, true, true, false, false, false]);
    stores.finish().await;
}
