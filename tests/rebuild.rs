//! A rebuild of the page index ends with exactly what the table holds, even when comments change meanwhile.

use model::{Language, ProductId, Rating};
use page_index::{PageIndex, PageIndexConfig};
use process::now;
use table::CommentPatch;

use crate::fixture::{gate::Gate, redis_server, stores::Stores, wait_for};

const COMMENTS: u64 = 40;

fn product(number: u64) -> ProductId {
    ProductId::parse(&format!("product {}", number % 7)).unwrap()
}

async fn assert_ready(stores: &Stores) {
    let table_id = stores.table.describe().await.unwrap().id;
    let readiness = stores.index.readiness(&table_id, now()).await.unwrap();
    assert!(readiness.iter().all(|(_, answer)| answer.is_ok()), "{readiness:?}");
}

#[tokio::test]
async fn a_rebuild_fills_an_index_that_is_empty_or_wrong() {
    let stores = Stores::start().await;
    for number in 0..COMMENTS {
        stores.create_numbered(number, product(number)).await;
    }
    stores.deliver_all().await;
    for segments in [1, 3] {
        let report = repair_job::rebuild(&stores.table, &stores.index, segments).await.unwrap();
        assert_eq!((report.comments, report.items), (COMMENTS, COMMENTS), "{report:?}");
        assert!(report.unresolved.is_empty(), "{report:?}");
        assert_ready(&stores).await;
        stores.assert_invariants().await;
        // The next rebuild removes entries that the table does not imply.
        let mut raw = redis_server::connection(&stores.redis_url).await;
        let keys = stores.index.key_names().await.unwrap();
        let set = keys.iter().find(|key| key.ends_with(":~/~")).unwrap();
        redis::cmd("ZADD").arg(&[set, "1", "nobody"]).exec_async(&mut raw).await.unwrap();
        let other = set.replace(":~/~", ":xx/~");
        redis::cmd("ZADD").arg(&[&other, "1", "nobody"]).exec_async(&mut raw).await.unwrap();
    }
    repair_job::rebuild(&stores.table, &stores.index, 2).await.unwrap();
    stores.finish().await;
}

#[tokio::test]
async fn comments_that_change_between_the_scan_and_its_writes_are_indexed_as_they_are() {
    let stores = Stores::start().await;
    let mut comments = Vec::new();
    for number in 0..COMMENTS {
        comments.push(stores.create_numbered(number, product(number)).await);
    }
    // The rebuild has read the table. Hold its first write to the index.
    let gate = Gate::for_edits(&stores.redis_url).await;
    let config = PageIndexConfig { url: gate.url.clone(), ..stores.index_config.clone() };
    let config = PageIndexConfig { timeout: std::time::Duration::from_secs(10), ..config };
    let held = PageIndex::connect(&config).unwrap();
    gate.hold_after(0);
    let rebuild = tokio::spawn({
        let table = stores.table.clone();
        async move { repair_job::rebuild(&table, &held, 1).await }
    });
    wait_for("the rebuild's first write", async || if gate.is_holding() { Ok(()) } else { Err(()) }).await;

    // Every comment changes, and the page indexer processes that before the rebuild continues.
    for (number, comment) in comments.iter().enumerate() {
        let patch = match number % 4 {
            0 => CommentPatch { rating: Some(Rating::new(1 + (number as u64 + 1) % 5).unwrap()), ..Default::default() },
            1 => CommentPatch { language: Some(Language::parse("fr").unwrap()), ..Default::default() },
            2 => CommentPatch { body: Some("Changed.".to_owned()), ..Default::default() },
            _ => {
                stores.table.delete_comment(&comment.id, None).await.unwrap();
                continue;
            }
        };
        stores.table.patch_comment(&comment.id, None, &patch).await.unwrap();
    }
    for number in COMMENTS..COMMENTS + 8 {
        stores.create_numbered(number, product(number)).await;
    }
    stores.deliver_all().await;
    gate.open();
    let report = rebuild.await.unwrap().unwrap();
    assert!(report.changed_meanwhile >= COMMENTS, "{report:?}");
    assert_ready(&stores).await;
    stores.assert_invariants().await;
    stores.finish().await;
}
