//! The binary `pagemark`: its output and exit codes when an import or the demo ends early.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use table::NewComment;
use tempfile::TempDir;

use super::{cut_off_gzip, gzip, lines, some_comments};
use crate::fixture::{
    data, folder_in_memory,
    gate::{self, Gate},
    http::Http,
    invariants::Contents,
    pagemark,
    program::Program,
    stores::Stores,
    wait_for,
};

async fn start_import(stores: &Stores, engine_url: &str, files: &[&Path]) -> Program {
    let files = files.iter().map(|path| path.to_str().unwrap());
    let arguments = [
        "import",
        "--table",
        stores.table.name(),
        "--dynamodb-url",
        engine_url,
    ]
    .into_iter()
    .chain(files);
    pagemark::start(&arguments.collect::<Vec<_>>()).await
}

pub(super) fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[tokio::test]
async fn a_file_that_is_cut_off_is_named_with_the_counts_so_far_and_imported_again_when_it_is_whole()
 {
    let lines = lines(&some_comments(120));
    let folder = folder_in_memory();
    // One block of zstd holds all lines, so none comes out of it.
    let packed_by_zstd = zstd::encode_all(lines.as_bytes(), 3).unwrap();
    for (format, packed, readable) in [
        ("gzip", gzip(lines.as_bytes()), 1..120),
        ("zstd", packed_by_zstd, 0..120),
    ] {
        let stores = Stores::start().await;
        let import = async |content: &[u8]| {
            let path = write(&folder, "comments", content);
            start_import(&stores, &stores.engine_url(), &[&path])
                .await
                .end()
                .await
        };
        let cut_off = import(&packed[..packed.len() * 2 / 3]).await.expect(1);
        let there = Contents::read(&stores.table).await.primary.len();
        assert!(readable.contains(&there), "{cut_off:?}");
        assert!(
            cut_off
                .stdout
                .contains(&format!("comments: {there} new, 0 unchanged")),
            "{cut_off:?}"
        );
        let says = &cut_off.stderr;
        assert!(
            says.contains(&format!(
                "its {format} data is broken or cut off after line {there} "
            )),
            "{says}"
        );
        assert!(
            says.contains(&format!("`{format} -t`")) && says.contains("a whole copy"),
            "{says}"
        );
        assert!(!says.contains("again"), "{says}");
        let whole = import(&packed).await.expect(0);
        assert!(
            whole
                .stdout
                .contains(&format!("{} new, {there} unchanged", 120 - there)),
            "{whole:?}"
        );
        stores.finish().await;
    }
}

fn counted(stdout: &str) -> usize {
    let number = |word: &str| -> usize {
        let before = stdout.split(&format!(" {word}")).next().unwrap();
        before
            .rsplit(' ')
            .next()
            .unwrap()
            .replace(',', "")
            .parse()
            .unwrap_or_else(|_| panic!("{word}: {stdout}"))
    };
    number("new") + number("unchanged")
}

#[tokio::test]
async fn an_interrupted_import_finishes_what_is_under_way_and_counts_it() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments: Vec<NewComment> = data::generated_comments(2_000);
    let (first, second) = (
        write(&folder, "first", lines(&comments)),
        write(&folder, "second", lines(&some_comments(1))),
    );
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
        let (stdout, stderr) = (&ended.stdout, &ended.stderr);
        let there = Contents::read(&stores.table).await.primary.len();
        assert!((before + 30..2_000).contains(&there), "{there}");
        assert_eq!(counted(stdout), there, "{stdout}");
        assert!(
            stdout.contains("/first: ") && !stdout.contains("/second: "),
            "{stdout}"
        );
        assert!(
            stderr.contains("it was interrupted; import it again for the rest"),
            "{stderr}"
        );
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
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    // Open for reading, too, so that this waits for nobody.
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
    let path = write(
        &folder,
        "comments",
        cut_off_gzip(&lines(&some_comments(120))),
    );
    let up = ["--repair-every", "0", "--import", path.to_str().unwrap()];
    let ended = pagemark::up_after("", &up).await.end().await;
    let (stdout, stderr) = (&ended.stdout, &ended.stderr);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(counted(stdout) > 0 && !stdout.contains("ready"), "{stdout}");
    assert!(
        stderr.contains("was not imported to its end") && stderr.contains("broken or cut off"),
        "{stderr}"
    );
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
    let data_line = |output: &str| output.contains("  data  ").then(|| output.to_owned());
    let stdout = pagemark
        .wait_for_stdout("the line about the data", data_line)
        .await;
    assert!(
        pagemark
            .stderr()
            .contains("not all demo comments were written"),
        "{}",
        pagemark.stderr()
    );
    assert!((1..20_000).contains(&counted(&stdout)), "{stdout}");
    assert!(stdout.contains("Pagemark is ready"), "{stdout}");
    let api = stdout
        .lines()
        .find_map(|line| line.trim().strip_prefix("API"))
        .unwrap()
        .trim();
    let http = Http::new(api.trim_end_matches("/api/v1/").to_owned());
    let page = http.get("/api/v1/products/espresso-machine/comments").await;
    assert!(!page.expect(200)["comments"].as_array().unwrap().is_empty());
    pagemark.signal("INT");
    let ended = pagemark.end().await;
    assert_eq!(ended.code(), 0, "{ended:?}");
}
