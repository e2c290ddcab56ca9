//! `quarantine`: repairs every comment in a batch according to the comment's current state, and removes the batch when
//! all are in order.

use functions::Quarantine;
use model::{CommentId, item::attribute, plan::reconcile::DriftKind};
use rand::{SeedableRng, rngs::StdRng};
use repair_job::exit;
use serde_json::{Value, json};

use super::{assert_clean, expect, job, product, quarantine_batch};
use crate::{
    fixture::{
        api::Served,
        data::{self, text_value, with_attribute},
        http::{Http, good_comment},
        invariants::collection,
        program::run_tool,
        python,
        s3::{BUCKET, S3},
        stores::Stores,
    },
    replay::write_history,
};

/// Puts every record into quarantine in unprocessed batches, changes comments again, and repairs the batches.
async fn give_up_and_repair_everything(stores: &Stores, quarantine: &Quarantine) {
    let mut random = StdRng::seed_from_u64(61);
    write_history(stores, &mut random, 40).await;
    let records: Vec<Value> = stores.lambda_records().await;
    let batches: Vec<_> = records.chunks(7).collect();
    for batch in &batches {
        quarantine_batch(quarantine, batch).await;
    }
    // The records are now old: replaying them would undo these changes.
    write_history(stores, &mut random, 15).await;
    assert_eq!(quarantine.list(None, 1_000).await.unwrap().len(), batches.len());
    expect(exit::DRIFT_FOUND | exit::DRIFT_LEFT, job(stores, false).quarantine(quarantine).await);
    assert_eq!(quarantine.list(None, 1_000).await.unwrap().len(), batches.len(), "a dry run removes nothing");
    expect(exit::DRIFT_FOUND, job(stores, true).quarantine(quarantine).await);
    assert_eq!(quarantine.list(None, 1_000).await.unwrap(), Vec::<String>::new());
    assert_clean(&job(stores, true).quarantine(quarantine).await);
    // Changes after the batches are left to the handlers, or to `recent`.
    job(stores, true).recent().await;
    stores.assert_invariants().await;
}

#[tokio::test]
async fn a_folder_is_repaired_from_the_comments_present_state() {
    let stores = Stores::start_ready().await;
    give_up_and_repair_everything(&stores, &stores.quarantine()).await;
    stores.finish().await;
}

#[tokio::test]
async fn a_bucket_is_repaired_from_the_comments_present_state() {
    let stores = Stores::start_ready().await;
    let s3 = S3::start().await;
    let place = format!("s3://{BUCKET}/some/prefix").parse().unwrap();
    let quarantine = Quarantine::connect(&place, Some(&s3.url)).await;
    // The run ignores an object of a different application.
    s3.client.put_object().bucket(BUCKET).key("other/object").body(Vec::new().into()).send().await.unwrap();
    give_up_and_repair_everything(&stores, &quarantine).await;
    let left: Vec<_> = s3.client.list_objects_v2().bucket(BUCKET).send().await.unwrap().contents.unwrap_or_default();
    assert_eq!(left.len(), 1);
    stores.finish().await;
}

#[tokio::test]
async fn a_batch_with_an_unresolved_comment_stays_in_quarantine() {
    let stores = Stores::start_ready().await;
    let quarantine = stores.quarantine();
    let comment = stores.create_numbered(1, data::product("p")).await;
    stores.make_too_large_for_some_duplicates(&comment.id).await;
    let fine = stores.create_numbered(2, product(2)).await;
    let records: Vec<Value> = stores.lambda_records().await;
    let of = |id: &CommentId| -> Vec<Value> {
        let pk = format!("COMMENT#{id}");
        records.iter().filter(|record| record["dynamodb"]["Keys"]["pk"]["S"] == pk.as_str()).cloned().collect()
    };
    let with_malformed = vec![of(&fine.id)[0].clone(), json!({ "eventID": "x" })];
    for batch in [of(&comment.id), of(&fine.id), with_malformed] {
        quarantine_batch(&quarantine, &batch).await;
    }
    std::fs::write(stores.quarantine_folder().join("somebody-elses.txt"), "no JSON").unwrap();
    let report = job(&stores, true).quarantine(&quarantine).await;
    // Rejected data counts as a remaining difference.
    assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::DRIFT_LEFT | exit::UNRESOLVED, "{report}");
    assert!((1..31).contains(&report.left), "{report}");
    assert_eq!(report.repaired + report.left, 2 * (31 + 4 + 2), "{report}");
    assert_eq!(report.unresolved_count, 3, "{report}");
    assert_eq!(quarantine.list(None, 10).await.unwrap().len(), 3, "the batch of which everything is right has gone");
    // A duplicate that cannot be written does not stop the repair of its comment's rank entries.
    stores.assert_index().await;
    let checked = job(&stores, false).check(&fine.id, None).await;
    assert_clean(&checked.report);
    // Make the comment smaller. The other two batches stay until a person removes them.
    stores.break_primary_item(&comment.id, "padding", None).await;
    expect(exit::DRIFT_FOUND | exit::UNRESOLVED, job(&stores, true).quarantine(&quarantine).await);
    assert_eq!(quarantine.list(None, 10).await.unwrap().len(), 2);
    stores.assert_invariants().await;
    stores.index.clear().await.unwrap();
}

/// Puts an item as the Python SDK does, with numbers as it writes them.
const PUT_BY_PYTHON: &str = r#"
import boto3, decimal, sys, urllib.parse
url, table = sys.argv[1:]
parts = urllib.parse.urlsplit(url)
resource = boto3.resource("dynamodb", endpoint_url=f"http://{parts.hostname}:{parts.port}", region_name="local",
                          aws_access_key_id=parts.username or "local", aws_secret_access_key="local")
resource.Table(table).put_item(Item={
    "pk": "COMMENT#by-python", "sk": "PRODUCT#product%2F1/~/~", "cd": "2024-02-29T12:00:00.123Z#by-python",
    "language": "en", "rating": decimal.Decimal("4"), "comment_blob": {"body": "Put by Python.", "photos": {"a", "b"}},
    "verified": True, "seen": None,
})
"#;

/// Writes comments through the API until told to stop, and returns how many.
async fn write_on(http: &Http, stop: &std::sync::atomic::AtomicBool) -> u64 {
    let mut written = 0;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        http.post(product(1).as_str(), &good_comment("en", written % 5 + 1, "Meanwhile.")).await.expect(201);
        written += 1;
    }
    written
}

/// A restore brings a comment back as an earlier version wrote it, duplicates included and without the keys of the index
/// `primaries`. A console changes the date alone, so the other keys no longer fit.
#[tokio::test]
async fn items_of_another_sdk_a_restore_and_a_console_are_taken_over_while_writes_go_on() {
    let stores = Stores::start_ready().await;
    let [restored, edited] = [1, 2].map(|number| stores.create_numbered(number, product(1)));
    let (restored, edited) = (restored.await, edited.await);
    stores.deliver_all().await;
    let (primary, duplicates) = collection(&stores.table, &restored.id).await;
    stores.table.delete_comment(&restored.id, None).await.unwrap();
    stores.deliver_all().await;
    let api = Served::of(&stores);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let foreign = async {
        let mut python = python::command("python");
        python.args(["-", &stores.engine_url(), stores.table.name()]);
        run_tool(python, PUT_BY_PYTHON).await;
        for item in duplicates {
            stores.put_raw(item).await;
        }
        let without = |item, name| with_attribute(&item, name, None);
        let item = primary.into_iter().next().unwrap();
        stores.put_raw(without(without(item, attribute::SHARD), attribute::PCD)).await;
        let cd = format!("2001-01-01T00:00:00.000Z#{}", edited.id);
        stores.break_primary_item(&edited.id, attribute::CD, text_value(cd)).await;
        stores.deliver_all().await;
        for batch in stores.quarantined_batches() {
            let reason = batch["responseContext"]["functionError"].as_str().unwrap();
            assert!(reason.contains("pk \"COMMENT#") && reason.contains("sk \"PRODUCT#product%2F1/~/~\""), "{reason}");
            assert!(reason.contains("attribute "), "{reason}");
        }
        let report = job(&stores, true).quarantine(&stores.quarantine()).await;
        assert_eq!(report.drifted[&DriftKind::IncompleteItem], 3, "{report}");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(write_on(&api.http, &stop), foreign);
    assert!(written > 0);
    stores.deliver_all().await;
    stores.assert_invariants().await;
    let kept = stores.table.primary_item(&data::comment_id("by-python")).await.unwrap().unwrap();
    assert!(kept.contains_key("verified"), "{kept:?}");
    for id in ["by-python", restored.id.as_str(), edited.id.as_str()] {
        assert_eq!(api.http.get(&format!("/api/v1/comments/{id}")).await.expect(200)["id"], id);
        assert_eq!(api.http.patch(id, &json!({ "rating": 2 })).await.status, 200, "{id}");
        assert_eq!(api.http.delete(id).await.status, 204, "{id}");
    }
    api.finish().await;
    stores.deliver_all().await;
    job(&stores, true).quarantine(&stores.quarantine()).await;
    assert_eq!(stores.quarantined_batches().len(), 0);
    stores.finish().await;
}
