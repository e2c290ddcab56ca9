//! A damaged data folder is refused, and stays as it is.

use std::{collections::BTreeMap, fs, path::Path};

use super::{refused, run, up};
use crate::fixture::{data::PRODUCT, folder_in_memory, http::good_comment, pagemark::Up};

/// The content of each file of a folder but its lock, which names the last process.
fn everything(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_file() && name != "pagemark.lock" {
            contents.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    contents
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_damaged_or_lost_database_is_refused_and_left_as_it_is() {
    let folder = folder_in_memory();
    let stack = up(folder.path()).await;
    for rating in 1..=5 {
        let comment = good_comment("en", rating, "A body");
        stack.api.post(PRODUCT, &comment).await.expect(201);
    }
    stack.stop().await;
    let database = folder.path().join("dynamodb.sqlite");
    let whole = fs::read(&database).unwrap();

    let page_bytes = usize::from(u16::from_be_bytes([whole[16], whole[17]]));
    // The first page after those of SQLite itself.
    let mut damaged = whole.clone();
    damaged[2 * page_bytes] ^= 0xff;
    // Two pages in the middle.
    let mut overwritten = whole.clone();
    let middle = (whole.len() / 2) & !(page_bytes - 1);
    overwritten[middle..middle + 2 * page_bytes].fill(0xa5);
    let half = whole[..whole.len() / 2].to_vec();
    for (content, said) in [
        (Some(damaged), "is damaged"),
        (Some(overwritten), "is damaged"),
        (Some(half), "is damaged"),
        (Some(b"text".repeat(1_000)), "not a data file"),
        (Some(Vec::new()), "up --new"),
        (None, "up --new"),
    ] {
        match content {
            Some(content) => fs::write(&database, content).unwrap(),
            None => fs::remove_file(&database).unwrap(),
        }
        let before = everything(folder.path());
        let start = [
            "up",
            "--listen",
            "127.0.0.1:0",
            "--dynamodb-listen",
            "127.0.0.1:0",
        ];
        let line = refused(run(folder.path(), &start).await, folder.path());
        assert!(line.contains(said), "{line}");
        assert!(everything(folder.path()) == before, "{line}");
    }
    let new = Up::start(folder.path(), &["--new", "--demo", "0"]).await;
    new.stop().await;
    up(folder.path()).await.stop().await;
}
