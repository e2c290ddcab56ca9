//! The binary `pagemark`: its output and exit codes when an import or the demo ends early.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use local_stack::demo::demo_comments;
use serde_json::json;
use table::NewComment;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    sync::watch,
};

use super::{gzip, line, lines, some_reviews};
use crate::fixture::{
    function,
    gate::Gate,
    http::Http,
    invariants::Contents,
    redis_server::signal,
    stores::{Stores, folder_in_memory},
    wait_for,
};

/// A running `pagemark`, and its output so far.
struct Pagemark {
    process: Child,
    stdout: watch::Receiver<String>,
    stderr: watch::Receiver<String>,
}

impl Pagemark {
    fn start(mut command: Command) -> Self {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("AWS_EC2_METADATA_DISABLED", "true");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let (stdout, stderr) = (said(process.stdout.take().unwrap()), said(process.stderr.take().unwrap()));
        Self { process, stdout, stderr }
    }

    /// Starts an import of files into a table of this engine.
    async fn import(stores: &Stores, engine_url: &str, files: &[&Path]) -> Self {
        let mut command = Command::new(function::binary("pagemark").await);
        command.args(["import", "--table", stores.table.name(), "--dynamodb-url", engine_url]).args(files);
        Self::start(command)
    }

    /// Waits until the output contains a text.
    async fn wait_for(said: &watch::Receiver<String>, text: &str) -> String {
        wait_for(text, async || {
            let so_far = said.borrow().clone();
            if so_far.contains(text) { Ok(so_far) } else { Err(so_far) }
        })
        .await
    }

    fn signal(&self, name: &str) {
        signal(self.process.id().expect("it runs"), name);
    }

    /// Waits for its end, and returns its exit code, standard output and standard error.
    async fn end(mut self) -> (Option<i32>, String, String) {
        let status: ExitStatus = tokio::time::timeout(function::TIMEOUT, self.process.wait())
            .await
            .unwrap_or_else(|_| panic!("it does not end: {:?} {:?}", self.stdout, self.stderr))
            .unwrap();
        // The readers of the pipes end with the pipes.
        for said in [&mut self.stdout, &mut self.stderr] {
            while said.changed().await.is_ok() {}
        }
        let text = |said: &watch::Receiver<String>| said.borrow().clone();
        (status.code(), text(&self.stdout), text(&self.stderr))
    }
}

/// The output of a process so far.
fn said(pipe: impl AsyncRead + Send + Unpin + 'static) -> watch::Receiver<String> {
    let (sender, said) = watch::channel(String::new());
    tokio::spawn(async move {
        let mut lines = BufReader::new(pipe).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            sender.send_modify(|said| said.push_str(&format!("{line}\n")));
        }
    });
    said
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Imports a file. Returns the result of [`Pagemark::end`] and the resulting number of comments.
async fn imported(content: impl AsRef<[u8]>) -> (Option<i32>, String, String, usize) {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let path = write(&folder, "comments", content);
    let (code, stdout, stderr) = Pagemark::import(&stores, &stores.engine_url(), &[&path]).await.end().await;
    let there = Contents::read(&stores.table).await.primary.len();
    stores.finish().await;
    (code, stdout, stderr, there)
}

#[tokio::test]
async fn a_line_at_the_end_of_time_is_named_and_the_others_are_imported() {
    let comments = some_reviews(8);
    let mut content: Vec<_> = comments.iter().map(line).collect();
    content[4]["created_at"] = json!("9999-12-31T23:59:59-01:00");
    content[5]["rating"] = json!(f64::from(comments[5].rating.get()));
    content[6]["id"] = json!("..");
    let content: String = content.iter().map(|line| format!("{line}\n")).collect();
    // Some editors put a byte order mark at the beginning.
    let (code, stdout, stderr, there) = imported(format!("\u{feff}{content}")).await;
    assert_eq!((code, there), (Some(1), 6), "{stdout}{stderr}");
    assert!(stdout.contains("comments: 6 new, 0 unchanged") && stdout.contains("2 bad"), "{stdout}");
    assert!(stdout.contains("comments: line 5: created_at: \"9999-12-31T23:59:59-01:00\" is outside"), "{stdout}");
    assert!(stdout.contains("comments: line 7: id: \"..\" cannot be a comment id"), "{stdout}");
}

#[tokio::test]
async fn a_json_array_gets_a_message_that_names_json_lines() {
    let array = serde_json::to_string_pretty(&some_reviews(3).iter().map(line).collect::<Vec<_>>()).unwrap();
    let (code, stdout, stderr, there) = imported(&array).await;
    assert_eq!((code, there), (Some(1), 0), "{stdout}{stderr}");
    assert!(stdout.contains("comments: 0 new") && stdout.contains("0 bad"), "{stdout}");
    assert!(stderr.contains("line 1 is a JSON array or begins one, but a file must be JSON Lines"), "{stderr}");

    let one_line = array.replace('\n', "") + "\n" + &lines(&some_reviews(2));
    let (code, stdout, stderr, there) = imported(one_line).await;
    assert_eq!((code, there), (Some(1), 2), "{stdout}{stderr}");
    assert!(stdout.contains("comments: line 1: is a JSON array or begins one"), "{stdout}");
}

#[tokio::test]
async fn a_broken_gzip_file_is_named_with_the_counts_so_far() {
    let compressed = gzip(lines(&some_reviews(120)).as_bytes());
    let (code, stdout, stderr, there) = imported(&compressed[..compressed.len() * 2 / 3]).await;
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!((1..120).contains(&there) && stdout.contains(&format!("comments: {there} new, 0 unchanged")), "{stdout}");
    assert!(stderr.contains(&format!("broken or cut off after line {there} ")), "{stderr}");
    assert!(stderr.contains("`gzip -t`") && stderr.contains("a whole copy") && !stderr.contains("again"), "{stderr}");
}

/// The comments that a report counts as imported.
fn counted(stdout: &str) -> usize {
    let number = |word: &str| -> usize {
        let before = stdout.split(&format!(" {word}")).next().unwrap();
        before.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap_or_else(|_| panic!("{word}: {stdout}"))
    };
    number("new") + number("unchanged")
}

#[tokio::test]
async fn an_interrupted_import_finishes_what_is_under_way_and_counts_it() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments: Vec<NewComment> = demo_comments(2_000).collect();
    let (first, second) =
        (write(&folder, "first", lines(&comments)), write(&folder, "second", lines(&some_reviews(1))));
    for name in ["INT", "TERM"] {
        let before = Contents::read(&stores.table).await.primary.len();
        let gate = Gate::for_transactions(&stores.engine_url()).await;
        gate.hold_after(30);
        let pagemark = Pagemark::import(&stores, &gate.url, &[&first, &second]).await;
        wait_for("a write that is held", async || if gate.is_holding() { Ok(()) } else { Err(()) }).await;
        pagemark.signal(name);
        Pagemark::wait_for(&pagemark.stderr, "finishing what is under way").await;
        gate.open();
        let (code, stdout, stderr) = pagemark.end().await;
        assert_eq!(code, Some(130), "{stdout}{stderr}");
        let there = Contents::read(&stores.table).await.primary.len();
        assert!((before + 30..2_000).contains(&there), "{there}");
        assert_eq!(counted(&stdout), there, "{stdout}");
        assert!(stdout.starts_with("first: ") && !stdout.contains("second: "), "{stdout}");
        assert!(stderr.contains("it was interrupted; import it again for the rest"), "{stderr}");
    }
    stores.finish().await;
}

#[tokio::test]
async fn an_import_that_is_interrupted_twice_ends_at_once() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let path = write(&folder, "comments", lines(&some_reviews(50)));
    let gate = Gate::for_transactions(&stores.engine_url()).await;
    gate.hold_after(0);
    let pagemark = Pagemark::import(&stores, &gate.url, &[&path]).await;
    wait_for("a write that is held", async || if gate.is_holding() { Ok(()) } else { Err(()) }).await;
    pagemark.signal("INT");
    Pagemark::wait_for(&pagemark.stderr, "finishing what is under way").await;
    pagemark.signal("INT");
    // The write for which it waits is still held.
    let (code, _, stderr) = pagemark.end().await;
    assert_eq!(code, Some(130), "{stderr}");
    drop(gate);
    stores.finish().await;
}

/// Starts `pagemark up` on free ports. `shell` is a piece of shell script that runs before it.
async fn up(shell: &str, arguments: &[&str]) -> Pagemark {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell} exec \"$0\" \"$@\"")]).arg(function::binary("pagemark").await);
    command.args(["up", "--listen", "127.0.0.1:0", "--dynamodb-listen", "127.0.0.1:0", "--repair-every", "0"]);
    command.args(arguments);
    Pagemark::start(command)
}

#[tokio::test]
async fn a_stack_is_not_ready_after_an_import_that_ended_early() {
    let folder = folder_in_memory();
    let compressed = gzip(lines(&some_reviews(120)).as_bytes());
    let path = write(&folder, "comments", &compressed[..compressed.len() * 2 / 3]);
    let (code, stdout, stderr) = up("", &["--import", path.to_str().unwrap()]).await.end().await;
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(counted(&stdout) > 0 && !stdout.contains("ready"), "{stdout}");
    assert!(stderr.contains("was not imported to its end") && stderr.contains("broken or cut off"), "{stderr}");
}

#[tokio::test]
async fn a_full_disk_during_the_demo_leaves_a_stack_that_serves_what_it_has() {
    let folder = folder_in_memory();
    // No file may exceed 4 MB, as if the disk were full. `ulimit` counts blocks of 512 bytes.
    let shell = "trap '' XFSZ; ulimit -f 8192;";
    let data_dir = folder.path().join("data");
    let pagemark = up(shell, &["--demo", "20000", "--data-dir", data_dir.to_str().unwrap()]).await;
    // This is printed after the line that reports readiness.
    let stdout = Pagemark::wait_for(&pagemark.stdout, "  data  ").await;
    assert!(pagemark.stderr.borrow().contains("not all demo comments were written"), "{:?}", pagemark.stderr);
    assert!((1..20_000).contains(&counted(&stdout)), "{stdout}");
    assert!(stdout.contains("Pagemark is ready"), "{stdout}");
    let api = stdout.lines().find_map(|line| line.trim().strip_prefix("API")).unwrap().trim();
    let http = Http::new(api.trim_end_matches("/api/v1/").to_owned());
    let page = http.get("/api/v1/products/espresso-machine/comments").await;
    assert!(!page.expect(200)["comments"].as_array().unwrap().is_empty());
    pagemark.signal("INT");
    let (code, stdout, stderr) = pagemark.end().await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
}
