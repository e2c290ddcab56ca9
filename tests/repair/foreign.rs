//! Primary items that another tool wrote or broke. The repair job takes over an item that lacks
//! only its revision. Any other such item implies nothing, and the report names it for a person.
//! Functions, API and repair job agree on the distinction.

use model::{
    CommentId, FilterKey,
    item::{attribute, incomplete},
    journal::JournalEntry,
    plan::reconcile::DriftKind,
};
use repair_job::{Report, exit};
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use table::Transacted;
use tokio::time::{Duration, Instant};

use super::{assert_clean, expect, job, product, whole};
use crate::fixture::{
    api::Served,
    damage,
    data::{self, text_value},
    http::{Http, ids, product_path},
    invariants::journal,
    stores::Stores,
};

/// Puts a comment without a revision and without the keys of the index `primaries` by a plain
/// PutItem, as a foreign tool does.
async fn put_incomplete(stores: &Stores, number: u64) -> CommentId {
    let model = stores.create_numbered(1_000, product(1)).await;
    let mut item = stores
        .table
        .primary_item(&model.id)
        .await
        .unwrap()
        .unwrap()
        .into_inner();
    stores
        .table
        .delete_comment(&model.id, |_| true)
        .await
        .unwrap();
    let id = data::comment_id(&format!("foreign-{number}"));
    let cd = format!("{}#{id}", model.created_at);
    let key = [("pk", format!("COMMENT#{id}")), ("cd", cd)];
    item.extend(key.map(|(name, value)| (name.to_owned(), AttributeValue::S(value))));
    item.insert("votes".to_owned(), AttributeValue::N("7".to_owned()));
    for name in [attribute::REVISION, attribute::SHARD, attribute::PCD] {
        item.remove(name);
    }
    stores.put_raw(item.into()).await;
    id
}

async fn entries_about(stores: &Stores, id: &CommentId) -> Vec<JournalEntry> {
    let entries = journal(&stores.table).await;
    entries
        .into_iter()
        .filter(|entry| entry.id == *id)
        .collect()
}

/// What the API shows: the comment's status, the ids on the product's first page, and its total.
async fn shown(http: &Http, id: &CommentId) -> (u16, Vec<String>, Value) {
    let comment = http.get(&format!("/api/v1/comments/{id}")).await.status;
    let page = http
        .get(&format!("{}/comments", product_path(product(1).as_str())))
        .await
        .expect(200);
    (comment, ids(&page), page["total"].clone())
}

fn reasons(stores: &Stores) -> Vec<String> {
    let batches = stores.quarantined_batches();
    batches
        .iter()
        .map(|batch| {
            batch["responseContext"]["functionError"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

fn assert_names(report: &Report, id: &CommentId, attribute: &str) {
    let pk =
        format!("pk \"COMMENT#{id}\", sk \"PRODUCT#product%2F1/~/~\", attribute {attribute}: ");
    assert!(
        report.unresolved.iter().all(|what| what.contains(&pk)),
        "{report}"
    );
}

#[tokio::test]
async fn an_item_without_a_revision_is_hidden_until_the_repair_job_takes_it_over() {
    for is_found_by_audit in [false, true] {
        let stores = Stores::start_ready().await;
        let fine = stores.create_numbered(1, product(1)).await;
        let id = put_incomplete(&stores, 1).await;
        stores.deliver_all().await;
        let [one, other] = &reasons(&stores)[..] else {
            panic!("one batch of each function")
        };
        let named =
            format!("pk \"COMMENT#{id}\", sk \"PRODUCT#product%2F1/~/~\", attribute revision: ");
        assert!(one == other && one.contains(&named), "{one}");
        stores.assert_invariants_beside(&[&id]).await;

        let api = Served::of(&stores);
        let http = &api.http;
        assert_eq!(
            shown(http, &id).await,
            (404, vec![fine.id.to_string()], json!(1))
        );
        assert_eq!(
            http.patch(id.as_str(), &json!({ "rating": 5 }))
                .await
                .status,
            404
        );
        assert_eq!(http.delete(id.as_str()).await.status, 404);

        let quarantine = stores.quarantine();
        let run = async |apply| match is_found_by_audit {
            true => job(&stores, apply).audit(whole()).await,
            false => job(&stores, apply).quarantine(&quarantine).await,
        };
        let looked = run(false).await;
        assert_eq!(
            looked.drifted,
            [(DriftKind::IncompleteItem, 1)].into(),
            "{looked}"
        );
        assert_eq!(
            looked.exit_code(),
            exit::DRIFT_FOUND | exit::DRIFT_LEFT,
            "{looked}"
        );
        assert_eq!(
            shown(http, &id).await.0,
            404,
            "a dry run takes nothing over"
        );
        let taken_over = expect(exit::DRIFT_FOUND, run(true).await);
        assert_eq!(
            taken_over.drifted[&DriftKind::IncompleteItem],
            1,
            "{taken_over}"
        );
        assert_clean(&run(true).await);

        let (status, listed, total) = shown(http, &id).await;
        assert_eq!((status, listed.len(), total), (200, 2, json!(2)));
        let item = stores.table.primary_item(&id).await.unwrap().unwrap();
        assert_eq!(
            item["votes"],
            AttributeValue::N("7".to_owned()),
            "what the tool wrote stays"
        );
        let [entry] = entries_about(&stores, &id).await.try_into().unwrap();
        let placement = stores
            .table
            .comment(&id)
            .await
            .unwrap()
            .unwrap()
            .placement();
        assert_eq!(
            entry.after,
            Some(placement),
            "the journal names where the comment stands"
        );
        assert_eq!(
            http.patch(id.as_str(), &json!({ "rating": 5 }))
                .await
                .status,
            200
        );
        api.finish().await;
        job(&stores, true).quarantine(&quarantine).await;
        assert_eq!(stores.quarantined_batches().len(), 0);
        stores.finish().await;
    }
}

#[tokio::test]
async fn a_take_over_loses_against_any_edit_and_writes_nothing() {
    let stores = Stores::start_ready().await;
    let id = put_incomplete(&stores, 1).await;
    let item = stores.table.primary_item(&id).await.unwrap().unwrap();
    let placed = incomplete(&item).unwrap();
    let take_over = async || {
        let soon = Instant::now() + Duration::from_secs(60);
        stores.table.take_over(&placed, &item, soon).await.unwrap()
    };
    for (name, value) in [
        (attribute::RATING, Some(AttributeValue::N("2".to_owned()))),
        (attribute::LANGUAGE, text_value("fr")),
        (
            attribute::CD,
            text_value(format!("2001-01-01T00:00:00.000Z#{id}")),
        ),
        (attribute::COMMENT_BLOB, None),
        (
            attribute::REVISION,
            text_value("01HQTBRNKV0000000000000007"),
        ),
        (attribute::AUTO, Some(AttributeValue::Bool(true))),
        (attribute::SHARD, text_value("07")),
        (attribute::PCD, text_value("p")),
    ] {
        stores.put_raw(item.clone()).await;
        stores.break_primary_item(&id, name, value).await;
        let edited = stores.table.items_of(&id).await.unwrap();
        assert!(
            matches!(take_over().await, Transacted::ConditionsFailed(_)),
            "{name}"
        );
        assert_eq!(stores.table.items_of(&id).await.unwrap(), edited, "{name}");
    }
    damage::delete(&stores.table, &id, &FilterKey::primary(product(1))).await;
    assert!(matches!(take_over().await, Transacted::ConditionsFailed(_)));
    assert_eq!(stores.table.items_of(&id).await.unwrap(), []);
    assert_eq!(entries_about(&stores, &id).await, []);
    stores.finish().await;
}

#[tokio::test]
async fn an_item_that_becomes_invalid_is_left_out_everywhere_by_the_functions() {
    let stores = Stores::start_ready().await;
    let (broken, fine) = (
        stores.create_numbered(1, product(1)).await,
        stores.create_numbered(6, product(1)).await,
    );
    stores.deliver_all().await;
    let api = Served::of(&stores);
    // The repair job cannot repair these.
    for (name, value) in [
        (attribute::LANGUAGE, text_value("?")),
        (
            attribute::CD,
            text_value("2001-01-01T00:00:00.000Z#another"),
        ),
        (
            attribute::COMMENT_BLOB,
            Some(AttributeValue::B(b"\x07said in confidence".to_vec())),
        ),
    ] {
        let before = stores.quarantined_batches().len();
        let right = stores.break_primary_item(&broken.id, name, value).await;
        let records = stores.records().await;
        stores.deliver(&records[records.len() - 1..]).await;
        stores.assert_invariants_beside(&[&broken.id]).await;
        assert_eq!(stores.quarantined_batches().len(), before + 2, "{name}");
        let named = format!("attribute {name}: ");
        let reasons = reasons(&stores);
        assert!(
            reasons
                .iter()
                .filter(|reason| reason.contains(&named))
                .count()
                >= 2,
            "{reasons:?}"
        );
        assert_eq!(
            shown(&api.http, &broken.id).await,
            (404, vec![fine.id.to_string()], json!(1)),
            "{name}"
        );
        let filtered = format!(
            "{}/comments?language={}",
            product_path("product/1"),
            broken.language
        );
        assert_eq!(
            api.http.get(&filtered).await.expect(200)["total"],
            0,
            "{name}"
        );
        // The item needs a person, and nothing is left to remove.
        let report = job(&stores, false).audit(whole()).await;
        assert_eq!(
            (report.exit_code(), report.unresolved_count),
            (exit::UNRESOLVED, 1),
            "{name}: {report}"
        );
        assert_names(&report, &broken.id, name);
        // A rebuild also leaves the item out and reports it.
        let report = job(&stores, true).rebuild(1).await;
        assert!(report.exit_code() == exit::UNRESOLVED, "{name}: {report}");
        assert_names(&report, &broken.id, name);
        stores.assert_invariants_beside(&[&broken.id]).await;
        stores.put_raw(right).await;
        stores.deliver_all().await;
        stores.assert_invariants().await;
    }
    assert!(
        reasons(&stores)
            .iter()
            .all(|reason| !reason.contains("confidence"))
    );
    api.finish().await;
    job(&stores, true).quarantine(&stores.quarantine()).await;
    assert_clean(&job(&stores, true).recent().await);
    stores.finish().await;
}
