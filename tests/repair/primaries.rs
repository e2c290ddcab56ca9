//! A rebuild reads the table's index `primaries` and nothing else of the comments, and still misses
//! none. Comments that change meanwhile are in `tests/simulator`.
//!
//! A rebuild also reads the journal of the last minutes, which would hide comments that it
//! otherwise missed. So most comments here are put directly into the table, without the writers.

use aws_sdk_dynamodb::types::BillingMode;
use model::{
    Revision,
    item::{PRIMARY_ONLY, attribute},
    journal::JournalEntry,
    primaries::{PRIMARIES_SHARDS, PrimariesKey, primaries_shard},
};
use process::now;
use repair_job::{Job, exit};
use serde_dynamo::AttributeValue;
use table::{PRIMARIES, Table, TableConfig, definition};

use super::{
    HeldRun, assert_clean, expect, is_ready, job, job_of, no_overlap, product, settings, whole,
    write_changes,
};
use crate::fixture::{
    damage::{Damage, inflict_all},
    data::{self, text_value, with_attribute},
    engine::delete_table,
    gate,
    invariants::entries,
    reviews::{reviews, sample_size},
    stores::{Stores, rebuild},
    unique_name,
};

const _: crate::Engines = crate::Engines::Both;

#[tokio::test]
#[ignore = "takes long"]
async fn a_rebuild_passes_over_a_duplicate_in_the_index_and_an_audit_removes_it() {
    let stores = Stores::start_ready().await;
    let comment = stores.create_numbered(2, product(2)).await;
    stores.deliver_all().await;
    let item = stores.table.primary_item(&comment.id).await;
    let item = item.unwrap().unwrap();
    let key = comment.placement().duplicate_keys().next().unwrap();
    let stray = with_attribute(&item, attribute::SK, text_value(key.to_string()));
    let auto = Some(AttributeValue::Bool(true));
    stores
        .put_raw(with_attribute(&stray, attribute::AUTO, auto))
        .await;
    assert_eq!(entries(&stores.table, PRIMARIES).await.len(), 2);
    let rebuilt = job(&stores, true).rebuild(1).await;
    assert_eq!(
        (rebuilt.exit_code(), rebuilt.unresolved_count),
        (0, 0),
        "{rebuilt}"
    );
    expect(exit::DRIFT_FOUND, job(&stores, true).audit(whole()).await);
    assert_eq!(entries(&stores.table, PRIMARIES).await.len(), 1);
    stores.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long"]
async fn rebuilds_in_any_number_of_parts_read_each_comment_once_and_give_the_same_index() {
    let stores = Stores::start().await;
    let comments = reviews(sample_size() / 4);
    let count = u64::try_from(comments.len()).unwrap();
    stores.put_primary_items(comments).await;
    for segments in [1, 5, PRIMARIES_SHARDS + 1] {
        let report = rebuild(&stores.table, &stores.index, segments).await;
        let note =
            format!("{count} comments read; 0 checks of changes since shortly before it began");
        assert_eq!(
            (&report.notes, report.items),
            (&vec![note], count),
            "{report}"
        );
        // The next rebuild removes damage to the index.
        let comments = stores.assert_index().await.comments();
        let kinds = Damage::OF_INDEX.into_iter().cycle();
        let damages = comments.iter().step_by(97).zip(kinds);
        inflict_all(&stores, damages).await;
    }
    assert_clean(&job(&stores, true).rebuild(2).await);
    stores.finish().await;
}

async fn table_without_primaries(stores: &Stores) -> Table {
    let config = TableConfig::new(unique_name("without"), Some(stores.engine_url()));
    let table = Table::connect(&config).await;
    let mut attributes = definition::attribute_definitions().unwrap();
    attributes.retain(|named| !PRIMARY_ONLY.contains(&named.attribute_name()));
    let key_schema = definition::key_schema(attribute::PK, attribute::SK).unwrap();
    let first_index = definition::indexes().unwrap().remove(0);
    let create = table
        .client()
        .create_table()
        .table_name(table.name())
        .set_attribute_definitions(Some(attributes))
        .set_key_schema(Some(key_schema))
        .global_secondary_indexes(first_index)
        .billing_mode(BillingMode::PayPerRequest);
    create.send().await.unwrap();
    table
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_rebuild_of_a_table_without_the_index_fails_and_leaves_the_page_index_as_it_is() {
    let stores = Stores::start_ready().await;
    let without = table_without_primaries(&stores).await;
    let job = job_of(without.clone(), stores.index.clone(), settings(true));
    let report = job.rebuild(1).await;
    let failure = report.failure.unwrap();
    assert!(failure.contains("has no index `primaries`"), "{failure}");
    assert!(is_ready(&stores, now()).await);
    delete_table(&without).await;
    stores.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn the_journal_names_a_comment_that_a_lagging_index_lacked() {
    let stores = Stores::start().await;
    // Neither the minimum age nor the overlap reaches back.
    let queries_before_last_shard = usize::try_from(PRIMARIES_SHARDS).unwrap() - 1;
    let run = HeldRun::start(
        &stores,
        (gate::PRIMARIES, queries_before_last_shard),
        no_overlap(),
        async |job: Job| job.rebuild(1).await,
    )
    .await;
    // The entry appears in a shard that has been read, nine minutes after its write.
    let late = (0..).map(data::varied_comment).find(|comment| {
        let key = PrimariesKey::of(&comment.product, &data::stored(comment).cd());
        key.shard != primaries_shard(PRIMARIES_SHARDS - 1)
    });
    let late = late.unwrap();
    let placement = data::stored(&late).placement();
    let revision = Revision::after(None, now().plus_ms(-9 * 60_000), 1);
    let entry = JournalEntry {
        id: late.id.clone(),
        revision,
        before: None,
        after: Some(placement),
        is_report: false,
        by: None,
        follows: None,
    };
    stores
        .put_raw(serde_dynamo::to_item(entry.to_item()).unwrap())
        .await;
    stores.put_primary_items(vec![late]).await;
    let report = run.finish().await;
    assert_eq!((report.exit_code(), report.checked), (0, 1), "{report}");
    assert_eq!(stores.assert_index().await.primary.len(), 1);
    stores.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn an_unreadable_journal_entry_is_counted_once_and_all_comments_are_indexed() {
    let stores = Stores::start_ready().await;
    let comment = stores.create_numbered(0, product(0)).await;
    expect(exit::DRIFT_FOUND, job(&stores, true).recent().await);
    let entry = JournalEntry {
        id: data::comment_id("c1"),
        revision: Revision::after(None, now(), 1),
        before: None,
        after: Some(comment.placement()),
        is_report: false,
        by: None,
        follows: None,
    };
    let entry = serde_dynamo::to_item(entry.to_item()).unwrap();
    let unreadable = with_attribute(&entry, "revision", text_value("no revision"));
    stores.put_raw(unreadable).await;
    for _ in 0..2 {
        let report = job(&stores, true).recent().await;
        assert_eq!(
            (report.unresolved_count, report.exit_code()),
            (1, exit::UNRESOLVED),
            "{report}"
        );
    }
    // A pass over the journal overlaps the previous one. Entries counted before are not counted
    // again.
    let report = job(&stores, true).rebuild(1).await;
    assert_eq!(
        (report.unresolved_count, report.exit_code()),
        (1, exit::UNRESOLVED),
        "{report}"
    );
    assert!(is_ready(&stores, now()).await);
    stores.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_rebuild_marks_the_index_up_to_what_it_has_reconciled_however_long_it_took() {
    let stores = Stores::start().await;
    write_changes(&stores, 0..20).await;
    // The first query only checks that the table has the index. Then the page index is emptied.
    let run = HeldRun::start(
        &stores,
        (gate::PRIMARIES, 1),
        settings(true),
        async |job: Job| job.rebuild(1).await,
    )
    .await;
    write_changes(&stores, 20..40).await;
    let meanwhile = now();
    assert_clean(&run.finish().await);
    let table_id = stores.table_id().await;
    let marks = stores.index.marks(&table_id).await.unwrap();
    assert_eq!(marks.len(), stores.index.partitions().count());
    assert!(
        marks
            .iter()
            .all(|(_, mark)| (meanwhile..=now()).contains(&mark.watermark)),
        "{meanwhile} {marks:?}"
    );
    stores.deliver_all().await;
    stores.finish().await;
}
