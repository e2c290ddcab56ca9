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
        Some(running.stack.dynamodb_url().to_owned()),
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comments_of_all_formats_are_shown_changed_and_deleted_alike() {
    for setting in [BlobFormat::Zstd, BlobFormat::Map] {
        let mut running = stack_of(setting).await;
        let (maps, zstds) = (
            table_of(&running, BlobFormat::Map).await,
            table_of(&running, BlobFormat::Zstd).await,
        );
        for number in 0..10 {
            let table = if number % 2 == 0 { &maps } else { &zstds };
            table
                .create_comment(comment(number, long_text(&format!("mark {number}"))), None)
                .await
                .unwrap();
        }
        // This text is too short for compression.
        zstds
            .create_comment(comment(10, data::body("mark 10")), None)
            .await
            .unwrap();
        running.assert_invariants().await;
        for number in 0..11 {
            let expected = if number % 2 == 0 {
                BlobFormat::Map
            } else {
                BlobFormat::Zstd
            };
            assert_eq!(format_of(&running, number).await, expected);
        }

        // JSON listings, pages for people and single comments show every text.
        let page = list(&running.http, "page_size=20").await;
        assert_eq!(
            ids(&page),
            (0..11)
                .rev()
                .map(|number| format!("c{number}"))
                .collect_vec()
        );
        let html = running.http.get(&page_path(PRODUCT)).await;
        for number in 0..11_u32 {
            let shown = &page["comments"][10 - number as usize];
            assert!(
                shown["body"]
                    .as_str()
                    .unwrap()
                    .starts_with(&format!("mark {number}")),
                "{shown}"
            );
            assert!(
                html.body.contains(&format!("mark {number}")),
                "{number}: {}",
                html.body
            );
            let single = running
                .http
                .get(&format!("/api/v1/comments/c{number}"))
                .await
                .expect(200);
            assert_eq!(&single, shown);
        }

        // A change that changes nothing keeps even the format. Any other change writes the text
        // again, in the writer's format.
        for number in [0, 1] {
            let before = stored(&running, number).await;
            let same = long_text(&format!("mark {number}"));
            running
                .http
                .patch(&format!("c{number}"), &json!({ "title": same.title }))
                .await
                .expect(200);
            assert_eq!(stored(&running, number).await, before);
            let changed = running
                .http
                .patch(&format!("c{number}"), &json!({ "rating": 5 }))
                .await
                .expect(200);
            assert_eq!(changed["body"], same.body);
            assert_eq!(format_of(&running, number).await, setting);
        }
        let patch = CommentPatch {
            author: Some(None),
            ..CommentPatch::default()
        };
        for (number, table) in [(2, &zstds), (3, &maps)] {
            let patched = table
                .patch_comment(&comment_id(number), |_| true, &patch)
                .await
                .unwrap();
            let expected = CommentText {
                author: None,
                ..long_text(&format!("mark {number}"))
            };
            assert_eq!(patched.text, expected);
            assert_eq!(
                running.stack.table().comment(&patched.id).await.unwrap(),
                Some(patched)
            );
        }
        assert_eq!(
            (format_of(&running, 2).await, format_of(&running, 3).await),
            (BlobFormat::Zstd, BlobFormat::Map)
        );
        running.http.delete("c4").await.expect(204);
        running.http.delete("c5").await.expect(204);

        let contents = running.assert_invariants().await;
        assert_eq!(contents.primary.len(), 9);
        assert_eq!(
            list(&running.http, "rating=5&page_size=20").await["total"],
            3,
            "c0, c1 and c9"
        );
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
    let text = |text: &str| AttributeValue::S(text.to_owned());
    // The tool adds an attribute, a key inside of the text, or both. It leaves the revision as it
    // is.
    for (round, (adds_attribute, adds_key)) in [(true, false), (false, true), (true, true)]
        .into_iter()
        .enumerate()
    {
        let gate = Gate::start(running.stack.dynamodb_url(), gate::TRANSACTIONS).await;
        let held = Table::connect(&patient_config(running.stack.table(), &gate.url)).await;
        gate.hold_after(0);
        let patch = CommentPatch {
            body: Some(format!("Edit {round}.")),
            ..CommentPatch::default()
        };
        let edit =
            tokio::spawn(async move { held.patch_comment(&comment_id(1), |_| true, &patch).await });
        gate.wait_until_holding("the edit").await;
        let mut item = stored(&running, 1).await.into_inner();
        if adds_attribute {
            item.insert(format!("votes{round}"), text("1"));
        }
        if adds_key {
            fields_of(&mut item).insert(format!("reply{round}"), text("Thanks!"));
        }
        put_raw(running.stack.table(), item.into()).await;
        gate.open();
        edit.await.unwrap().unwrap();
        let mut after = stored(&running, 1).await.into_inner();
        assert_eq!(
            after.contains_key(&format!("votes{round}")),
            adds_attribute,
            "{after:?}"
        );
        let fields = fields_of(&mut after);
        assert_eq!(fields.get("body"), Some(&text(&format!("Edit {round}."))));
        assert_eq!(
            fields.contains_key(&format!("reply{round}")),
            adds_key,
            "{fields:?}"
        );
    }
    let after = stored(&running, 1).await;
    assert!(
        ["votes0", "votes2"]
            .iter()
            .all(|name| after.contains_key(*name)),
        "{after:?}"
    );
    running.assert_invariants().await;
    running.finish().await;
}
