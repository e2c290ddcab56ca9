//! The format of `comment_blob` is a setting of those who write; everybody reads every format, and a text that nobody
//! can read does no harm beyond the answers that would have to show it.

use itertools::Itertools;
use local_stack::stack::StackSettings;
use model::{BlobFormat, CommentId, CommentText, Instant, Language, ProductId, Rating};
use serde_dynamo::{AttributeValue, Item};
use serde_json::{Value, json};
use stores::{
    StoreError, Table,
    table::{CommentPatch, NewComment, TableConfig, WriteError},
};

use crate::fixture::{
    http::{Http, ids, page_path, product_path},
    stack::{Running, settings},
};

const PRODUCT: &str = "a/b";

/// A text that zstd makes smaller, recognisable by `mark`.
fn long_text(mark: &str) -> CommentText {
    let body = format!("{mark}, and again and again. ").repeat(20);
    CommentText::new(Some(format!("On {mark}")), body, Some("Ann".to_owned())).unwrap()
}

fn comment(number: u32, text: CommentText) -> NewComment {
    NewComment {
        id: CommentId::parse(&format!("c{number}")).unwrap(),
        product: ProductId::parse(PRODUCT).unwrap(),
        language: Language::parse("en").unwrap(),
        rating: Rating::new(u64::from(1 + number % 5)).unwrap(),
        created_at: Instant::parse(&format!("2024-02-29T12:00:{number:02}Z")).unwrap(),
        text,
    }
}

fn comment_id(number: u32) -> CommentId {
    CommentId::parse(&format!("c{number}")).unwrap()
}

/// A stack that writes in this format.
async fn stack_of(comment_blob: BlobFormat) -> Running {
    Running::start_with(StackSettings { comment_blob, ..settings() }).await
}

/// The stack's table for a writer with another setting.
async fn table_of(running: &Running, comment_blob: BlobFormat) -> Table {
    let table = TableConfig::new(running.stack.table().name(), Some(running.stack.dynamodb_url().to_owned()));
    Table::connect(&TableConfig { comment_blob, ..table }).await
}

/// The primary item of a comment as it is stored.
async fn stored(running: &Running, number: u32) -> Item {
    let mut collection = running.stack.table().item_collection(&comment_id(number)).await.unwrap();
    collection.primary.pop().unwrap()
}

async fn format_of(running: &Running, number: u32) -> BlobFormat {
    match stored(running, number).await.get("comment_blob") {
        Some(AttributeValue::M(_)) => BlobFormat::Map,
        Some(AttributeValue::B(_)) => BlobFormat::Zstd,
        other => panic!("comment_blob is {other:?}"),
    }
}

async fn list(http: &Http, query: &str) -> Value {
    http.get(&format!("{}/comments?{query}", product_path(PRODUCT))).await.expect(200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comments_of_all_formats_are_shown_changed_and_deleted_alike_whatever_the_setting() {
    for setting in [BlobFormat::Zstd, BlobFormat::Map] {
        let mut running = stack_of(setting).await;
        let (maps, zstds) = (table_of(&running, BlobFormat::Map).await, table_of(&running, BlobFormat::Zstd).await);
        for number in 0..10 {
            let table = if number % 2 == 0 { &maps } else { &zstds };
            table.create_comment(comment(number, long_text(&format!("mark {number}"))), None).await.unwrap();
        }
        // Too short to get smaller.
        let short = CommentText::new(None, "mark 10".to_owned(), None).unwrap();
        zstds.create_comment(comment(10, short), None).await.unwrap();
        running.assert_invariants().await;
        for number in 0..11 {
            let expected = if number % 2 == 0 { BlobFormat::Map } else { BlobFormat::Zstd };
            assert_eq!(format_of(&running, number).await, expected);
        }

        // Pages for programs and for people, and single comments, show every text.
        let page = list(&running.http, "page_size=20").await;
        assert_eq!(ids(&page), (0..11).rev().map(|number| format!("c{number}")).collect_vec());
        let html = running.http.get(&page_path(PRODUCT)).await;
        for number in 0..11_u32 {
            let shown = &page["comments"][10 - number as usize];
            assert!(shown["body"].as_str().unwrap().starts_with(&format!("mark {number}")), "{shown}");
            assert!(html.body.contains(&format!("mark {number}")), "{number}: {}", html.body);
            let single = running.http.get(&format!("/api/v1/comments/c{number}")).await.expect(200);
            assert_eq!(&single, shown);
        }

        // A change of nothing leaves even the format; any other writes the text anew, in the writer's own format.
        for number in [0, 1] {
            let before = stored(&running, number).await;
            let same = long_text(&format!("mark {number}"));
            running.http.patch(&format!("c{number}"), &json!({ "title": same.title })).await.expect(200);
            assert_eq!(stored(&running, number).await, before);
            let changed = running.http.patch(&format!("c{number}"), &json!({ "rating": 5 })).await.expect(200);
            assert_eq!(changed["body"], same.body);
            assert_eq!(format_of(&running, number).await, setting);
        }
        let patch = CommentPatch { author: Some(None), ..CommentPatch::default() };
        for (number, table) in [(2, &zstds), (3, &maps)] {
            let patched = table.patch_comment(&comment_id(number), None, &patch).await.unwrap();
            let expected = CommentText { author: None, ..long_text(&format!("mark {number}")) };
            assert_eq!(patched.text, expected);
            assert_eq!(running.stack.table().comment(&patched.id).await.unwrap(), Some(patched));
        }
        assert_eq!((format_of(&running, 2).await, format_of(&running, 3).await), (BlobFormat::Zstd, BlobFormat::Map));
        running.http.delete("c4").await.expect(204);
        running.http.delete("c5").await.expect(204);

        let contents = running.assert_invariants().await;
        assert_eq!(contents.primary.len(), 9);
        assert_eq!(list(&running.http, "rating=5&page_size=20").await["total"], 3, "c0, c1 and c9");
        running.finish().await;
    }
}

/// Replaces the text of a stored comment by something else.
async fn damage(running: &Running, number: u32, blob: AttributeValue) {
    let mut item = stored(running, number).await.into_inner();
    item.insert("comment_blob".to_owned(), blob);
    let table = running.stack.table();
    table.client().put_item().table_name(table.name()).set_item(Some(Item::from(item).into())).send().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_nobody_can_read_is_copied_and_indexed_left_out_of_pages_and_can_be_deleted() {
    const SECRET: &str = "What the author wrote";
    let mut running = stack_of(BlobFormat::Zstd).await;
    let table = running.stack.table().clone();
    for number in 0..4 {
        table.create_comment(comment(number, long_text("fine")), None).await.unwrap();
    }
    let garbage = [b"".as_slice(), &[7], b"\x01What the author wrote", &[1, 0x28, 0xb5, 0x2f, 0xfd, 0xff]];
    for blob in garbage.map(|bytes| AttributeValue::B(bytes.to_vec())) {
        damage(&running, 2, blob).await;
        // The handlers make its duplicates and rank entries as of any other.
        running.assert_invariants().await;

        let answer = running.http.get("/api/v1/comments/c2").await;
        assert_eq!((answer.status, answer.problem()["type"].as_str()), (500, Some("urn:pagemark:problem:internal")));
        assert!(!answer.body.contains(SECRET), "{}", answer.body);
        // Everybody else's comments are still there, on every page.
        for (query, shown) in [("", &["c3", "c1", "c0"][..]), ("rating=3", &[]), ("rating=1&rating=4", &["c3", "c0"])] {
            let listed = list(&running.http, query).await;
            assert!(ids(&listed) == shown && !listed.to_string().contains(SECRET), "{query}: {listed}");
        }
        let html = running.http.get("/product/a%2Fb/comments").await;
        assert!(html.status == 200 && html.body.contains("comment-c3") && !html.body.contains(SECRET), "{html:?}");
        let refused = running.http.patch("c2", &json!({ "rating": 1 })).await;
        assert_eq!(refused.status, 500, "a change would have to keep a text that it cannot read");
        let error = table.comment(&comment_id(2)).await.unwrap_err();
        assert!(matches!(error, StoreError::Malformed(_)), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("c2") && !message.contains(SECRET), "{message}");
    }
    let other = table.comment(&comment_id(1)).await.unwrap().unwrap();
    let stale = table.delete_comment(&comment_id(2), Some(other.revision)).await;
    assert!(matches!(stale, Err(WriteError::RevisionMismatch { .. })), "{stale:?}");
    running.http.delete("c2").await.expect(204);
    running.settle().await;
    assert_eq!(ids(&list(&running.http, "").await), ["c3", "c1", "c0"]);
    let left = table.item_collection(&comment_id(2)).await.unwrap();
    assert!(left.primary.is_empty() && left.duplicates.is_empty(), "{left:?}");
    running.finish().await;
}
