//! The format of `comment_blob` is a setting of each writer, and all readers read every format. An
//! edit loses nothing that others wrote.

use std::collections::HashMap;

use itertools::Itertools;
use local_stack::settings::StackSettings;
use model::{BlobFormat, CommentId, CommentText};
use serde_dynamo::{AttributeValue, Item};
use serde_json::{Value, json};
use table::{CommentBlobArgs, CommentPatch, NewComment, Table, TableConfig};

use crate::fixture::{
    data::{self, PRODUCT},
    engine::patient_config,
    gate::{self, Gate},
    http::{Http, ids, listing, page_path},
    stack::{Running, settings},
    stores::put_raw,
};

const _: crate::Engines = crate::Engines::Both;

fn long_text(mark: &str) -> CommentText {
    let body = format!("{mark}, and again and again. ").repeat(20);
    CommentText::new(Some(format!("On {mark}")), body, Some("Ann".to_owned())).unwrap()
}

fn comment(number: u32, text: CommentText) -> NewComment {
    let created_at = data::at_ms(data::CREATED_MS + 1_000 * i64::from(number));
    let stars = u64::from(1 + number % 5);
    NewComment {
        created_at,
        text,
        ..data::new_comment(&format!("c{number}"), &data::product(PRODUCT), "en", stars)
    }
}

fn comment_id(number: u32) -> CommentId {
    data::comment_id(&format!("c{number}"))
}

async fn stack_of(comment_blob: BlobFormat) -> Running {
    Running::start_with(StackSettings {
        comment_blob: CommentBlobArgs { comment_blob },
        ..settings()
    })
    .await
}

async fn table_of(running: &Running, comment_blob: BlobFormat) -> Table {
    let table = TableConfig::new(
        running.stack.table().name(),
        Some(running.stack.dynamodb_url().unwrap().to_owned()),
    );
    Table::connect(&TableConfig {
        comment_blob,
        ..table
    })
    .await
}

async fn stored(running: &Running, number: u32) -> Item {
    running
        .stack
        .table()
        .primary_item(&comment_id(number))
        .await
        .unwrap()
        .unwrap()
}

async fn format_of(running: &Running, number: u32) -> BlobFormat {
    match stored(running, number).await.get("comment_blob") {
        Some(AttributeValue::M(_)) => BlobFormat::Map,
        Some(AttributeValue::B(_)) => BlobFormat::Zstd,
        other => panic!("comment_blob is {other:?}"),
    }
}

async fn list(http: &Http, query: &str) -> Value {
    http.get(&listing(query)).await.expect(200)
}

/// JSON listings, pages for people and single comments show the texts of all eleven comments.
async fn assert_all_shown(http: &Http) {
    let page = list(http, "page_size=20").await;
    let expected_ids = (0..11).rev().map(|number| format!("c{number}"));
    assert_eq!(ids(&page), expected_ids.collect_vec());
    let html = http.get(&page_path(PRODUCT)).await.body;
    for number in 0..11_usize {
        let mark = format!("mark {number}");
        let shown = &page["comments"][10 - number];
        assert!(
            shown["body"].as_str().unwrap().starts_with(&mark),
            "{shown}"
        );
        assert!(html.contains(&mark), "{number}: {html}");
        let address = format!("/api/v1/comments/c{number}");
        assert_eq!(&http.get(&address).await.expect(200), shown);
    }
}

/// A change that changes nothing keeps even the format. Any other change writes the text again, in
/// the format of the API's setting.
async fn assert_changes_by_api(running: &Running, number: u32, setting: BlobFormat) {
    let id = format!("c{number}");
    let before = stored(running, number).await;
    let same = long_text(&format!("mark {number}"));
    let no_change = json!({ "title": same.title });
    running.http.patch(&id, &no_change).await.expect(200);
    assert_eq!(stored(running, number).await, before);

    let change = json!({ "rating": 5 });
    let changed = running.http.patch(&id, &change).await.expect(200);
    assert_eq!(changed["body"], json!(same.body));
    assert_eq!(format_of(running, number).await, setting);
}

/// A change by another writer takes the author's name away and keeps all else.
async fn assert_change_by_table(running: &Running, number: u32, table: &Table) {
    let patch = CommentPatch {
        author: Some(None),
        ..CommentPatch::default()
    };
    let patched = table
        .patch_comment(&comment_id(number), |_| true, &patch)
        .await
        .unwrap();
    let expected = CommentText {
        author: None,
        ..long_text(&format!("mark {number}"))
    };
    assert_eq!(patched.text, expected);
    let read = running.stack.table().comment(&patched.id).await.unwrap();
    assert_eq!(read, Some(patched));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comments_of_all_formats_are_shown_changed_and_deleted_alike() {
    for setting in [BlobFormat::Zstd, BlobFormat::Map] {
        let mut running = stack_of(setting).await;
        let maps = table_of(&running, BlobFormat::Map).await;
        let zstds = table_of(&running, BlobFormat::Zstd).await;
        for number in 0..10 {
            let table = if number % 2 == 0 { &maps } else { &zstds };
            let comment = comment(number, long_text(&format!("mark {number}")));
            table.create_comment(comment, None).await.unwrap();
        }
        // This text is too short for compression.
        let short = comment(10, data::body("mark 10"));
        zstds.create_comment(short, None).await.unwrap();
        running.assert_invariants().await;
        for number in 0..11 {
            let expected = if number % 2 == 0 {
                BlobFormat::Map
            } else {
                BlobFormat::Zstd
            };
            assert_eq!(format_of(&running, number).await, expected);
        }

        assert_all_shown(&running.http).await;
        assert_changes_by_api(&running, 0, setting).await;
        assert_changes_by_api(&running, 1, setting).await;
        assert_change_by_table(&running, 2, &zstds).await;
        assert_eq!(format_of(&running, 2).await, BlobFormat::Zstd);
        assert_change_by_table(&running, 3, &maps).await;
        assert_eq!(format_of(&running, 3).await, BlobFormat::Map);
        running.http.delete("c4").await.expect(204);
        running.http.delete("c5").await.expect(204);

        let contents = running.assert_invariants().await;
        assert_eq!(contents.primary.len(), 9);
        let rated_5 = list(&running.http, "rating=5&page_size=20").await;
        assert_eq!(rated_5["total"], 3, "c0, c1 and c9");
        running.finish().await;
    }
}

fn fields_of(item: &mut HashMap<String, AttributeValue>) -> &mut HashMap<String, AttributeValue> {
    match item.get_mut("comment_blob") {
        Some(AttributeValue::M(fields)) => fields,
        other => panic!("comment_blob is {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_keeps_what_another_tool_writes_during_it() {
    let mut running = stack_of(BlobFormat::Map).await;
    let maps = table_of(&running, BlobFormat::Map).await;
    maps.create_comment(comment(1, long_text("mark")), None)
        .await
        .unwrap();
    // The tool adds an attribute, a key inside of the text, or both. It leaves the revision as it
    // is.
    for (round, adds_attribute, adds_key) in [(0, true, false), (1, false, true), (2, true, true)] {
        let attribute = format!("votes{round}");
        let key = format!("reply{round}");
        let body = format!("Edit {round}.");
        let gate = Gate::start(running.stack.dynamodb_url().unwrap(), gate::TRANSACTIONS).await;
        let held = Table::connect(&patient_config(running.stack.table(), &gate.url)).await;
        gate.hold_after(0);
        let patch = CommentPatch {
            body: Some(Some(body.clone())),
            ..CommentPatch::default()
        };
        let edit =
            tokio::spawn(async move { held.patch_comment(&comment_id(1), |_| true, &patch).await });
        gate.wait_until_holding("the edit").await;
        let mut item = stored(&running, 1).await.into_inner();
        if adds_attribute {
            item.insert(attribute.clone(), AttributeValue::S("1".to_owned()));
        }
        if adds_key {
            let reply = AttributeValue::S("Thanks!".to_owned());
            fields_of(&mut item).insert(key.clone(), reply);
        }
        put_raw(running.stack.table(), item.into()).await;
        gate.open();
        edit.await.unwrap().unwrap();
        let mut after = stored(&running, 1).await.into_inner();
        assert_eq!(after.contains_key(&attribute), adds_attribute, "{after:?}");
        let fields = fields_of(&mut after);
        assert_eq!(fields.get("body"), Some(&AttributeValue::S(body)));
        assert_eq!(fields.contains_key(&key), adds_key, "{fields:?}");
    }
    let after = stored(&running, 1).await;
    for attribute in ["votes0", "votes2"] {
        assert!(after.contains_key(attribute), "{after:?}");
    }
    running.assert_invariants().await;
    running.finish().await;
}
