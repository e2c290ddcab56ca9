//! A site moves to another stack while both run, as docs/moving.md says: by rounds of scripts/move-comments.sh.

use std::fs;
use std::path::Path;
use std::sync::{Arc, atomic::AtomicU64};

use local_stack::import::{self, Source};
use local_stack::stack::TABLE;
use model::{BlobFormat, CommentText};
use serde_json::json;
use table::NewComment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{expected, odd_comments};
use crate::fixture::{
    data::{comment_id, new_comment, product, rate},
    folder_in_memory,
    function::binary,
    http::WRITE_TOKEN,
    invariants::Contents,
    program::{Ended, Program},
    stack::{Running, settings},
};

/// Runs a round of the move, which must succeed.
async fn round(from: &Running, to: &Running, folder: &Path) -> Ended {
    run(from, to, folder, &[]).await.expect(0)
}

/// Runs a round with more variables, of which the last ones win. `exec` of the script is the one of a person, with the
/// usual tools.
async fn run(from: &Running, to: &Running, folder: &Path, more: &[(&'static str, &str)]) -> Ended {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/move-comments.sh");
    let own = |name: &'static str, value: &str| (name, value.to_owned());
    let variables = [
        own("PATH", &std::env::var("PATH").unwrap()),
        own("PAGEMARK", binary("pagemark").await.to_str().unwrap()),
        own("FROM_TABLE", from.stack.table().name()),
        own("FROM_URL", from.stack.dynamodb_url()),
        own("TO_TABLE", to.stack.table().name()),
        own("TO_URL", to.stack.dynamodb_url()),
        own("TO_API", &format!("{}/api/v1", to.stack.api_url().unwrap())),
        own("TO_TOKEN", WRITE_TOKEN),
    ];
    let more = more.iter().map(|(name, value)| own(name, value));
    Program::start("sh", &[script, folder.to_str().unwrap()], variables.into_iter().chain(more)).end().await
}

/// The first word of what a round did: how many comments it deleted, and how many it created or changed.
fn done(ended: &Ended) -> &str {
    ended.stdout.lines().last().unwrap()
}

#[tokio::test]
async fn rounds_of_a_move_end_with_two_equal_tables() {
    assert_eq!(TABLE, "pagemark", "the documents name it");
    let mut from = Running::start().await;
    let mut to =
        Running::start_with(local_stack::stack::StackSettings { comment_blob: BlobFormat::Zstd, ..settings() }).await;
    let folder = folder_in_memory();
    from.import(&odd_comments()).await;
    // The first round copies everything.
    assert_eq!(done(&round(&from, &to, folder.path()).await), "0 deleted, 40 new or changed");

    // The site is in use: a comment of each kind changes, one is deleted, and one is created again elsewhere.
    let table = from.stack.table().clone();
    table.patch_comment(&comment_id("-0"), None, &rate(5)).await.unwrap();
    from.http.patch("A1", &json!({"title": null, "author": "Someone else", "language": "fr"})).await.expect(200);
    from.http.delete("z2").await.expect(204);
    table.delete_comment(&comment_id("A3"), None).await.unwrap();
    table.delete_comment(&comment_id("-4"), None).await.unwrap();
    let text = CommentText::new(None, "A \"created_at\":\"2001\" in the text, and \\".to_owned(), None).unwrap();
    let again = [
        NewComment { text, ..new_comment("A3", &product("elsewhere \\ \"x\""), "en", 1) },
        new_comment("-4", &product("a%2Fb"), "ko", 2),
        new_comment("new", &product("a new product"), "en", 3),
    ];
    let report = import::import(&table, Source::of_comments(again.to_vec()), &Arc::new(AtomicU64::new(0))).await;
    assert_eq!(report.unwrap().created, 3);
    from.settle().await;
    to.settle().await;
    assert_eq!(done(&round(&from, &to, folder.path()).await), "3 deleted, 5 new or changed");

    // The last round, without writes, has nothing to do, and shows that both hold the same.
    to.settle().await;
    assert_eq!(done(&round(&from, &to, folder.path()).await), "0 deleted, 0 new or changed");
    let lines = ["from.jsonl", "to.jsonl"].map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
    assert_eq!(lines[0], lines[1]);
    assert_eq!(lines[0], expected(Contents::read(&table).await.comments()));
    assert_eq!(lines[0].lines().count(), 40);
    from.finish().await;
    to.finish().await;
}

#[tokio::test]
async fn a_round_that_is_a_mistake_changes_nothing_and_says_why() {
    let mut from = Running::start().await;
    let to = Running::start().await;
    let folder = folder_in_memory();
    from.import(&odd_comments()).await;
    let contents = async || Contents::read(from.stack.table()).await.comments();
    let before = contents().await;
    let refused = async |from: &Running, to: &Running, more: &[(&'static str, &str)], reason: &str| {
        let ended = run(from, to, folder.path(), more).await.expect(1);
        assert!(ended.stderr.contains(reason), "{reason}: {ended:?}");
    };
    refused(&from, &from, &[], "FROM and TO are the same table").await;
    // The other way around: the empty table would empty the other one.
    refused(&to, &from, &[], "has no comments").await;
    // A comment that only the new table has: its deletion needs an answer of the API, and not that of another server.
    to.stack.table().create_comment(new_comment("one", &product("p"), "en", 1), None).await.unwrap();
    refused(&to, &from, &[("MAX_DELETED", "39")], "40 of 40 comments would be deleted").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = format!("http://{}", listener.local_addr().unwrap());
    let redirects = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let count = stream.read(&mut [0; 4096]).await.unwrap();
        assert!(count > 0);
        let answer =
            b"HTTP/1.1 308 Permanent Redirect\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    };
    let other_api = [("TO_API", elsewhere.as_str())];
    tokio::join!(refused(&from, &to, &other_api, "by 308; it must be 204"), redirects);
    // While a round runs in the folder, and after one that was killed.
    fs::create_dir(folder.path().join("lock")).unwrap();
    refused(&from, &to, &[], "another round runs in").await;
    fs::remove_dir(folder.path().join("lock")).unwrap();
    assert_eq!(contents().await, before);

    let ended = run(&from, &to, folder.path(), &[("MAX_DELETED", "1")]).await.expect(0);
    assert_eq!(done(&ended), "1 deleted, 40 new or changed");
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["from.jsonl", "to.jsonl"]);
    from.finish().await;
    to.finish().await;
}
