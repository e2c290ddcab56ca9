//! What an earlier version left works with this one: its data folder with the snapshot of its page
//! index, and its table.
//!
//! `scripts/upgrade-fixture.sh` wrote the folders beside this file, one a version, before the
//! version was tagged. A fixture never changes: a version that cannot use one needs a way to
//! upgrade it.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use serde_dynamo::Item;
use serde_json::{Value, json};

use crate::{
    fixture::{
        api::Served,
        data::comment_id,
        folder_in_memory,
        http::Http,
        pagemark,
        stack::{Running, settings_in},
        stores::Stores,
    },
    repair::{expect, job, whole},
};

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("local/upgrade");
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let fixtures: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
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

async fn assert_exports_are_equal(fixture: &Path, table: &str, url: &str) {
    let folder = folder_in_memory();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (comments, products) = (path("comments.jsonl"), path("products.jsonl"));
    let to = [
        "--output",
        comments.as_str(),
        "--products",
        products.as_str(),
    ];
    pagemark::run(
        &[
            &["export", "--table", table, "--dynamodb-url", url],
            &to[..],
        ]
        .concat(),
    )
    .await
    .expect(0);
    for name in ["comments.jsonl", "products.jsonl"] {
        let lines = |path: &Path| -> Vec<Value> {
            fs::read_to_string(path)
                .unwrap()
                .lines()
                .map(|line| line.parse().unwrap())
                .collect()
        };
        for (found, written) in lines(&folder.path().join(name))
            .iter()
            .zip(lines(&fixture.join(name)))
        {
            // A later version may have more fields.
            for (field, value) in written.as_object().unwrap() {
                assert_eq!(found[field], *value, "{name}: {field} of {written}");
            }
        }
        assert_eq!(
            lines(&folder.path().join(name)).len(),
            lines(&fixture.join(name)).len(),
            "{name}"
        );
    }
}

async fn write_to(http: &Http) {
    for id in ["first", "compressed", "tools"] {
        assert_eq!(
            http.patch(id, &json!({ "rating": 1 })).await.expect(200)["rating"],
            1,
            "{id}"
        );
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
        assert_exports_are_equal(&fixture, &table, running.stack.dynamodb_url()).await;
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
        let scanned: Value =
            serde_json::from_slice(&unpacked(&fixture.join("table.json.gz"))).unwrap();
        assert_eq!(
            scanned.get("LastEvaluatedKey"),
            None,
            "the fixture holds the whole table"
        );
        for item in scanned["Items"].as_array().unwrap() {
            stores
                .put_raw(serde_json::from_value::<Item>(item.clone()).unwrap())
                .await;
        }
        expect(0, job(&stores, true).rebuild(1).await);
        expect(0, job(&stores, true).audit(whole()).await);
        stores.assert_invariants().await;
        assert_exports_are_equal(&fixture, stores.table.name(), &stores.engine_url()).await;
        let api = Served::of(&stores);
        write_to(&api.http).await;
        api.finish().await;
        stores.deliver_all().await;
        let edited = stores
            .table
            .primary_item(&comment_id("tools"))
            .await
            .unwrap()
            .unwrap();
        assert!(
            edited.contains_key("votes"),
            "an edit keeps what another tool added"
        );
        stores.finish().await;
    }
}
