//! A rebuild of the page index ends with exactly what the table holds, even when comments change meanwhile.

use model::ProductId;
use process::now;
use rand::{SeedableRng, rngs::StdRng};
use table::CommentPatch;

use crate::fixture::{
    damage::{Damage, inflict_all},
    data,
    gate::{self, Gate},
    stores::Stores,
};

const COMMENTS: u64 = 40;

fn product(number: u64) -> ProductId {
    data::product(&format!("product {}", number % 7))
}

async fn assert_ready(stores: &Stores) {
    let table_id = stores.table.describe().await.unwrap().id;
    let readiness = stores.index.readiness(&table_id, now()).await.unwrap();
    assert!(readiness.iter().all(|(_, answer)| answer.is_ok()), "{readiness:?}");
}

#[tokio::test]
async fn a_rebuild_fills_an_index_that_is_empty_or_wrong() {
    let stores = Stores::start().await;
    let mut random = StdRng::seed_from_u64(1);
    let comments = stores.create_all(0..COMMENTS, product).await;
    stores.deliver_all().await;
    for segments in [1, 3] {
        let report = repair_job::rebuild(&stores.table, &stores.index, segments).await.unwrap();
        let note = format!("{COMMENTS} comments, of which {} changed meanwhile", report.checked - COMMENTS);
        assert_eq!((&report.notes, report.items), (&vec![note], COMMENTS), "{report}");
        assert!(report.unresolved.is_empty(), "{report}");
        assert_ready(&stores).await;
        stores.assert_invariants().await;
        // The next rebuild removes entries that the table does not imply.
        let damages = Damage::all(&stores).into_iter().filter(|damage| damage.is_of_index());
        inflict_all(&stores, &mut random, comments.iter().zip(damages)).await;
    }
    repair_job::rebuild(&stores.table, &stores.index, 2).await.unwrap();
    stores.finish().await;
}

#[tokio::test]
async fn comments_that_change_during_a_rebuild_are_indexed_in_their_latest_state() {
    let stores = Stores::start_with_redis().await;
    let comments = stores.create_all(0..COMMENTS, product).await;
    // The rebuild has read the table. Hold its first write to the index.
    let gate = Gate::start(&stores.redis().url, gate::EDITS).await;
    let held = stores.index_at(&gate.url);
    gate.hold_after(0);
    let table = stores.table.clone();
    let rebuild = tokio::spawn(async move { repair_job::rebuild(&table, &held, 1).await });
    gate.wait_until_holding("the rebuild's first write").await;

    // Every comment changes, and the page indexer processes that before the rebuild continues.
    for (number, comment) in comments.iter().enumerate() {
        let patch = match number % 4 {
            0 => data::rate(1 + (number as u64 + 1) % 5),
            1 => CommentPatch { language: Some(data::language("fr")), ..Default::default() },
            2 => CommentPatch { body: Some("Changed.".to_owned()), ..Default::default() },
            _ => {
                stores.table.delete_comment(&comment.id, None).await.unwrap();
                continue;
            }
        };
        stores.table.patch_comment(&comment.id, None, &patch).await.unwrap();
    }
    stores.create_all(COMMENTS..COMMENTS + 8, product).await;
    stores.deliver_all().await;
    gate.open();
    let report = rebuild.await.unwrap().unwrap();
    let changed_meanwhile = report.checked - report.items;
    assert!(changed_meanwhile >= COMMENTS, "{report}");
    assert_ready(&stores).await;
    stores.assert_invariants().await;
    stores.finish().await;
}
