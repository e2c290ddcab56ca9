//! `quarantine`: repairs every comment in a batch according to the comment's current state, and
//! removes the batch when all are in order.

use functions::Quarantine;
use model::CommentId;
use repair_job::exit;
use serde_json::{Value, json};

use super::{assert_clean, expect, job, product, quarantine_batch, write_changes};
use crate::fixture::{
    data,
    s3::{BUCKET, S3},
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

#[tokio::test]
#[ignore = "needs Python packages"]
async fn a_bucket_is_repaired_from_the_comments_present_state() {
    let stores = Stores::start_ready().await;
    let s3 = S3::start().await;
    let destination = format!("s3://{BUCKET}/some/prefix").parse().unwrap();
    let quarantine = Quarantine::connect(&destination, Some(&s3.url)).await;
    // The run ignores an object of a different application.
    s3.client
        .put_object()
        .bucket(BUCKET)
        .key("other/object")
        .body(Vec::new().into())
        .send()
        .await
        .unwrap();
    write_changes(&stores, 0..20).await;
    let records: Vec<Value> = stores.lambda_records().await;
    let batches: Vec<_> = records.chunks(7).collect();
    for batch in &batches {
        quarantine_batch(&quarantine, batch).await;
    }
    // The records are now old: replaying them would undo these changes.
    for number in [2, 3, 6, 7] {
        let id = data::comment_id(&format!("c{number:04}"));
        stores
            .table
            .patch_comment(&id, |_| true, &data::rate(5))
            .await
            .unwrap();
    }
    stores
        .table
        .delete_comment(&data::comment_id("c0011"), |_| true)
        .await
        .unwrap();
    assert_eq!(
        quarantine.list(None, 1_000).await.unwrap().len(),
        batches.len()
    );
    expect(
        exit::DRIFT_FOUND | exit::DRIFT_LEFT,
        job(&stores, false).quarantine(&quarantine).await,
    );
    assert_eq!(
        quarantine.list(None, 1_000).await.unwrap().len(),
        batches.len(),
        "a dry run removes nothing"
    );
    expect(
        exit::DRIFT_FOUND,
        job(&stores, true).quarantine(&quarantine).await,
    );
    assert_eq!(
        quarantine.list(None, 1_000).await.unwrap(),
        Vec::<String>::new()
    );
    assert_clean(&job(&stores, true).quarantine(&quarantine).await);
    // The handlers, or `recent`, see to changes after the batches.
    job(&stores, true).recent().await;
    stores.assert_invariants().await;
    let list = s3.client.list_objects_v2().bucket(BUCKET);
    let remaining = list.send().await.unwrap().contents.unwrap_or_default();
    assert_eq!(remaining.len(), 1);
    stores.finish().await;
}

fn records_of(records: &[Value], id: &CommentId) -> Vec<Value> {
    let pk = format!("COMMENT#{id}");
    let mut records = records.to_vec();
    records.retain(|record| record["dynamodb"]["Keys"]["pk"]["S"] == pk.as_str());
    records
}

#[tokio::test]
async fn a_batch_with_an_unresolved_comment_stays_in_quarantine() {
    let stores = Stores::start_ready().await;
    let quarantine = stores.quarantine();
    let comment = stores.create_numbered(1, data::product("p")).await;
    stores.make_too_large_for_some_duplicates(&comment.id).await;
    let fine = stores.create_numbered(2, product(2)).await;
    let records: Vec<Value> = stores.lambda_records().await;
    let of_comment = records_of(&records, &comment.id);
    let of_fine = records_of(&records, &fine.id);
    let with_malformed = vec![of_fine[0].clone(), json!({ "eventID": "x" })];
    for batch in [of_comment, of_fine, with_malformed] {
        quarantine_batch(&quarantine, &batch).await;
    }
    std::fs::write(
        stores.quarantine_folder().join("somebody-elses.txt"),
        "no JSON",
    )
    .unwrap();
    let report = job(&stores, true).quarantine(&quarantine).await;
    // Rejected data counts as a remaining difference.
    assert_eq!(
        report.exit_code(),
        exit::DRIFT_FOUND | exit::DRIFT_LEFT | exit::UNRESOLVED,
        "{report}"
    );
    assert!((1..31).contains(&report.left), "{report}");
    assert_eq!(report.repaired + report.left, 2 * (31 + 2 + 2), "{report}");
    assert_eq!(report.unresolved_count, 3, "{report}");
    assert_eq!(
        quarantine.list(None, 10).await.unwrap().len(),
        3,
        "the batch of which everything is right has gone"
    );
    // A duplicate that cannot be written does not stop the repair of its comment's rank entries.
    stores.assert_index().await;
    assert_clean(&job(&stores, false).check(&fine.id, None).await);
    // Make the comment smaller. The other two batches stay until a person removes them.
    stores
        .break_primary_item(&comment.id, "padding", None)
        .await;
    expect(
        exit::DRIFT_FOUND | exit::UNRESOLVED,
        job(&stores, true).quarantine(&quarantine).await,
    );
    assert_eq!(quarantine.list(None, 10).await.unwrap().len(), 2);
    stores.assert_invariants().await;
    stores.index.clear().await.unwrap();
}
