//! A stack that is made of another one's export, its products and its key of cursors, as
//! docs/operate-one-machine.md says.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::run;
use crate::fixture::{
    folder_in_memory,
    http::{Http, WRITE_TOKEN, ids},
    pagemark::Up,
};

const LISTING: &str = "/api/v1/products/espresso-machine/comments";

/// Exports a stack, and returns its comments and its records of products.
async fn exported(folder: &Path, files: &Path) -> [String; 2] {
    let comments = files.join("comments.jsonl");
    let products = files.join("products.jsonl");
    let arguments = [
        "export",
        "--output",
        comments.to_str().unwrap(),
        "--products",
        products.to_str().unwrap(),
    ];
    run(folder, &arguments).await.expect(0);
    [comments, products].map(|path| fs::read_to_string(path).unwrap())
}

/// A page that a reader comes to by a cursor.
async fn page_after(http: &Http, cursor: &Value) -> Vec<String> {
    let cursor = cursor.as_str().unwrap();
    let target = format!("{LISTING}?page_size=5&cursor={cursor}");
    ids(&http.get(&target).await.expect(200))
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_stack_made_of_an_export_exports_the_same_and_knows_readers_cursors() {
    let folder = folder_in_memory();
    let files = folder_in_memory();
    let token = ["--write-token", WRITE_TOKEN];
    let up = Up::start(folder.path(), &[&["--demo", "200"][..], &token].concat()).await;
    let page = up
        .api
        .get(&format!("{LISTING}?page_size=5"))
        .await
        .expect(200);
    let hidden = ids(&page)[0].clone();
    let change = json!({"status": "hidden"});
    up.api.patch(&hidden, &change).await.expect(200);
    let cursor = page["cursor"]["next"].clone();
    let next = page_after(&up.api, &cursor).await;
    let before = exported(folder.path(), files.path()).await;
    assert!(before[0].contains("hidden") && !before[1].is_empty());
    up.stop().await;

    let restored = folder_in_memory();
    let key = "cursor.key";
    fs::copy(folder.path().join(key), restored.path().join(key)).unwrap();
    let options = ["--new", "--demo", "0"];
    let up = Up::start(restored.path(), &[&options[..], &token].concat()).await;
    let comments = files.path().join("comments.jsonl");
    let products = files.path().join("products.jsonl");
    let arguments = [
        "import",
        "--products",
        products.to_str().unwrap(),
        comments.to_str().unwrap(),
    ];
    run(restored.path(), &arguments).await.expect(0);
    let others = folder_in_memory();
    assert_eq!(exported(restored.path(), others.path()).await, before);
    assert_eq!(page_after(&up.api, &cursor).await, next);
    up.stop().await;
}
