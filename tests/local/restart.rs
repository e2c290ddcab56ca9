//! A stack that keeps its data in a folder loses nothing over a restart, however it ended. Its page
//! index continues from its snapshot and from the journal, or is rebuilt; until then, numbered
//! pages answer "later".

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use local_stack::settings::{StackSettings, TABLE};
use page_index::IndexPart;
use serde_json::json;

use crate::fixture::{
    data::{self, PRODUCT},
    folder_in_memory,
    http::{Http, WRITE_TOKEN, good_comment, ids, listing},
    pagemark::{self, Up, starting_api},
    stack::{Running, settings_in},
    wait_for,
};

const _: crate::Engines = crate::Engines::Embedded("a data folder has the embedded engine");

const SNAPSHOT: &str = "page-index.snapshot";

const NOBODY: &str = "nobody-wrote-this";

async fn start(folder: &Path) -> Up {
    let options = [
        "--demo",
        "0",
        "--write-token",
        WRITE_TOKEN,
        "--repair-every",
        "1",
    ];
    Up::start(folder, &options).await
}

async fn post(http: &Http, count: u64) -> Vec<String> {
    let mut posted = Vec::new();
    for number in 0..count {
        let comment = good_comment("en", number % 5 + 1, &format!("Body {number}"));
        posted.push(http.posted(PRODUCT, &comment).await);
    }
    posted
}

/// Adds an entry to the page index that the table does not have.
async fn add_nobody(stack: &Running) {
    let placement = data::placement(&data::product(PRODUCT), "en", 1);
    let created_at = data::at_ms(data::CREATED_MS);
    let edits = data::index_comment(&data::comment_id(NOBODY), &placement, created_at);
    stack.stack.index().apply(&edits).await.unwrap();
}

/// The ids of all comments in the page index.
async fn members(stack: &Running) -> BTreeSet<String> {
    let index = stack.stack.index();
    let mut members = BTreeSet::new();
    let mut position = index.begin_index_scan().await.unwrap();
    while let Some(part) = index.next_index_part(&mut position).await.unwrap() {
        if let IndexPart::Entries(entries) = part {
            members.extend(entries.into_iter().map(|(id, _)| id.to_string()));
        }
    }
    members
}

/// An entry that the table does not have shows what the page index was filled from: a rebuild
/// removes it.
#[tokio::test]
async fn a_restart_continues_from_the_snapshot_and_reconciles_what_it_lacks() {
    let folder = folder_in_memory();
    let mut stack = Running::start_with(settings_in(folder.path())).await;
    let mut expected: BTreeSet<String> = post(&stack.http, 25).await.into_iter().collect();
    stack.settle().await;
    add_nobody(&stack).await;
    stack.stack.stop().await;
    let old = fs::read(folder.path().join(SNAPSHOT)).unwrap();

    let mut stack = Running::start_with(settings_in(folder.path())).await;
    expected.extend(post(&stack.http, 5).await);
    stack.settle().await;
    let engine = stack.stack.engine().unwrap();
    wait_for("a stream without these posts", async || {
        // The newest record is never trimmed.
        let pending = engine.pending_stream_records(TABLE, None).await.unwrap();
        if pending <= 1 { Ok(()) } else { Err(pending) }
    })
    .await;
    stack.stack.stop().await;
    // As if the stack had been killed: the snapshot is older than what the stream has delivered and
    // no longer has.
    fs::write(folder.path().join(SNAPSHOT), old).unwrap();

    let stack = Running::start_with(settings_in(folder.path())).await;
    expected.insert(NOBODY.to_owned());
    assert_eq!(members(&stack).await, expected);
    stack.stack.stop().await;
}

/// Between two snapshots lies less than the time that [`wait_for`] waits, but without an edit ten
/// times as much.
#[tokio::test]
async fn a_running_stack_saves_its_index_after_edits() {
    let folder = folder_in_memory();
    let settings = StackSettings {
        snapshot_every: Duration::from_secs(4),
        ..settings_in(folder.path())
    };
    let mut stack = Running::start_with(settings).await;
    post(&stack.http, 25).await;
    stack.settle().await;
    add_nobody(&stack).await;
    let saved = folder.path().join(SNAPSHOT);
    wait_for("a snapshot with the entry", async || {
        // A snapshot that does not exist yet has no bytes.
        let bytes = fs::read(&saved).unwrap_or_default();
        let mut parts = bytes.windows(NOBODY.len());
        if parts.any(|part| part == NOBODY.as_bytes()) {
            Ok(())
        } else {
            Err(format!("{} bytes", bytes.len()))
        }
    })
    .await;
    stack.stack.stop().await;
}

/// Changes a byte in the middle of a file.
fn damage(path: &Path) {
    let mut damaged = fs::read(path).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(path, damaged).unwrap();
}

/// The ids of all comments, by the numbers of pages.
async fn shown_by_number(http: &Http, total: usize) -> BTreeSet<String> {
    let mut shown = BTreeSet::new();
    for number in 1..=total.div_ceil(20).max(1) {
        // Page 1 answers at any time; with its total only if the page index is ready.
        http.wait_for_200(&listing(&format!("page={}", number.max(2))))
            .await;
        let target = listing(&format!("page={number}"));
        let page = http.get(&target).await.expect(200);
        assert_eq!(page["total"], total, "{page}");
        shown.extend(ids(&page));
    }
    shown
}

/// A stack that is killed in the middle of many changes has many records in its stream. They are
/// delivered again. A damaged snapshot of the page index is reported, and not believed.
#[tokio::test]
async fn no_numbered_page_is_wrong_while_a_killed_stack_starts() {
    for is_whole in [true, false] {
        let folder = folder_in_memory();
        let up = start(folder.path()).await;
        let mut expected: BTreeSet<String> = post(&up.api, 30).await.into_iter().collect();
        up.stop().await;
        let up = start(folder.path()).await;
        let new = post(&up.api, 60).await;
        let change = json!({ "rating": 1, "language": "de" });
        for id in &new {
            up.api.patch(id, &change).await.expect(200);
        }
        for id in &new[..50] {
            up.api.delete(id).await.expect(204);
        }
        up.kill().await;
        expected.extend(new.into_iter().skip(50));
        if !is_whole {
            damage(&folder.path().join(SNAPSHOT));
        }
        let data_dir = folder.path().to_str().unwrap();
        let up = pagemark::up_after("", &["--data-dir", data_dir, "--demo", "0"]).await;
        let http = wait_for("the API of a stack that is starting", async || {
            starting_api(&up.stderr()).ok_or(up.stderr())
        })
        .await;
        let first_answer = wait_for("a numbered page", async || {
            let answer = http.get(&listing("page=2")).await;
            if answer.status == 503 {
                Err(answer)
            } else {
                Ok(answer.expect(200))
            }
        })
        .await;
        assert_eq!(
            first_answer["total"],
            expected.len(),
            "a whole snapshot: {is_whole}"
        );
        assert_eq!(shown_by_number(&http, expected.len()).await, expected);
        let stderr = up.stderr();
        let is_rebuilt = stderr.contains("rebuilt from the table");
        assert_eq!(is_rebuilt, !is_whole, "{stderr}");
        up.kill().await;
    }
}
