//! What an earlier version wrote works with this one: its data folder with the snapshot of its page
//! index, and its table.
//!
//! `scripts/upgrade-fixture.sh` wrote the folders beside this file, one a version, before the
//! version was tagged. A fixture never changes: a version that cannot use one needs a way to
//! upgrade it.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use model::{CommentAttributes, Revision, journal::JournalEntry, plan::reconcile::DriftKind};
use process::now;
use repair_job::exit;
use serde_dynamo::Item;
use serde_json::{Value, json};

use crate::{
    fixture::{
        api::Served,
        data::{self, comment_id},
        folder_in_memory,
        http::Http,
        pagemark,
        stack::{Running, settings_in},
        stores::Stores,
    },
    repair::{expect, job, whole},
};

const _: crate::Engines = crate::Engines::BothExcept(&[crate::Excused {
    test: "a_data_folder_of_an_earlier_version_starts_with_its_snapshot_and_loses_nothing",
    why: "a data folder has the embedded engine",
}]);

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("local/upgrade");
    let mut fixtures = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fixtures.push(path);
        }
    }
    assert!(!fixtures.is_empty());
    fixtures
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut content = Vec::new();
    GzDecoder::new(File::open(path).unwrap())
        .read_to_end(&mut content)
        .unwrap();
    content
}

fn json_lines_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// A value of an export in the spelling of this version: 0.2.0 kept attributes to the letter.
fn content(value: &Value) -> String {
    let json = value.to_string();
    match CommentAttributes::parse(&json) {
        Ok(attributes) => attributes.as_json().to_owned(),
        Err(_) => json,
    }
}

/// A table holds what the earlier version exported.
async fn assert_exports_are_equal(fixture: &Path, table: &str, url: &str) {
    let folder = folder_in_memory();
    let comments = folder.path().join("comments.jsonl");
    let products = folder.path().join("products.jsonl");
    let export = [
        "export",
        "--table",
        table,
        "--dynamodb-url",
        url,
        "--output",
        comments.to_str().unwrap(),
        "--products",
        products.to_str().unwrap(),
    ];
    pagemark::run(&export).await.expect(0);
    for (name, exported) in [("comments.jsonl", comments), ("products.jsonl", products)] {
        let found = json_lines_of(&exported);
        let written = json_lines_of(&fixture.join(name));
        for (found, written) in found.iter().zip(&written) {
            // A later version may have more fields.
            for (field, value) in written.as_object().unwrap() {
                assert_eq!(
                    content(&found[field]),
                    content(value),
                    "{name}: {field} of {written}"
                );
            }
        }
        assert_eq!(found.len(), written.len(), "{name}");
    }
}

/// The fixture's comments are changed and deleted as usual.
async fn write_to(http: &Http) {
    for id in ["first", "compressed", "tools"] {
        let changed = http.patch(id, &json!({ "rating": 1 })).await.expect(200);
        assert_eq!(changed["rating"], 1, "{id}");
    }
    assert_eq!(http.delete("edited").await.status, 204);
    assert_eq!(http.get("/api/v1/comments/deleted").await.status, 404);
}

#[tokio::test]
async fn a_data_folder_of_an_earlier_version_starts_with_its_snapshot_and_loses_nothing() {
    for fixture in fixtures() {
        let folder = folder_in_memory();
        for entry in fs::read_dir(fixture.join("data")).unwrap() {
            let path = entry.unwrap().path();
            let mut file = File::create(folder.path().join(path.file_stem().unwrap())).unwrap();
            file.write_all(&unpacked(&path)).unwrap();
        }
        let snapshot = folder.path().join("page-index.snapshot");
        assert!(snapshot.exists(), "{}", fixture.display());
        let mut running = Running::start_with(settings_in(folder.path())).await;
        let contents = running.assert_invariants().await;
        let table = running.stack.table().name().to_owned();
        assert_exports_are_equal(&fixture, &table, running.stack.dynamodb_url().unwrap()).await;
        let votes = contents
            .primary
            .iter()
            .filter(|item| item.contains_key("votes"))
            .count();
        assert_eq!(votes, 1, "what another tool added stays");
        write_to(&running.http).await;
        running.finish().await;
    }
}

#[tokio::test]
async fn a_table_of_an_earlier_version_is_audited_indexed_and_written_to() {
    for fixture in fixtures() {
        let stores = Stores::start().await;
        let scan = unpacked(&fixture.join("table.json.gz"));
        let scan: Value = serde_json::from_slice(&scan).unwrap();
        let is_whole = scan.get("LastEvaluatedKey").is_none();
        assert!(is_whole, "the fixture holds the whole table");
        for item in scan["Items"].as_array().unwrap() {
            let item: Item = serde_json::from_value(item.clone()).unwrap();
            stores.put_raw(item).await;
        }
        expect(0, job(&stores, true).rebuild(1).await);
        expect(0, job(&stores, true).audit(whole()).await);
        stores.assert_invariants().await;
        assert_exports_are_equal(&fixture, stores.table.name(), &stores.engine_url()).await;
        let api = Served::of(&stores);
        write_to(&api.http).await;
        api.finish().await;
        stores.deliver_all().await;
        let edited = stores.table.primary_item(&comment_id("tools")).await;
        assert!(
            edited.unwrap().unwrap().contains_key("votes"),
            "an edit keeps what another tool added"
        );
        stores.finish().await;
    }
}

/// Entries of the journal have named creation times since version 0.3. Until the last entry without
/// them is gone, `recent` looks for its comment at any time.
#[tokio::test]
async fn a_rank_that_a_journal_entry_of_an_earlier_version_names_is_removed() {
    let stores = Stores::start_ready_with_redis().await;
    let product = data::product("imported");
    stores.create_all(0..300, |_| product.clone()).await;
    stores.deliver_all().await;
    let ghost = comment_id("ghost");
    let entry = data::entry(&data::placement(&product, "en", 2), data::at_ms(5));
    let rank = data::index_comment(&ghost, &entry.placement, entry.created_at);
    stores.index.apply(&rank).await.unwrap();
    let revision = Revision::after(None, now(), 1);
    let deletion = JournalEntry {
        created_at: BTreeSet::new(),
        ..JournalEntry::change(ghost, revision, Some(entry), None)
    };
    let item = serde_dynamo::to_item(deletion.to_item()).unwrap();
    stores.put_raw(item).await;
    let report = expect(exit::DRIFT_FOUND, job(&stores, true).recent().await);
    assert_eq!(
        report.drifted.get(&DriftKind::OrphanRank),
        Some(&2),
        "{report}"
    );
    stores.finish().await;
}
