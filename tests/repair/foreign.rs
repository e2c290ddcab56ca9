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
use serde_dynamo::{AttributeValue, Item};
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

const _: crate::Engines = crate::Engines::Both;

/// Puts a comment without a revision and without the keys of the index `primaries` by a plain
/// PutItem, as a foreign tool does.
async fn put_incomplete(stores: &Stores, number: u64) -> CommentId {
    let model = stores.create_numbered(1_000, product(1)).await;
    let item = stores.table.primary_item(&model.id).await.unwrap().unwrap();
    let mut item = item.into_inner();
    let deleted = stores.table.delete_comment(&model.id, |_| true).await;
    deleted.unwrap();
    let id = data::comment_id(&format!("foreign-{number}"));
    let pk = AttributeValue::S(format!("COMMENT#{id}"));
    let cd = AttributeValue::S(format!("{}#{id}", model.created_at));
    item.insert("pk".to_owned(), pk);
    item.insert("cd".to_owned(), cd);
    item.insert("votes".to_owned(), AttributeValue::N("7".to_owned()));
    for name in [attribute::REVISION, attribute::SHARD, attribute::PCD] {
        item.remove(name);
    }
    stores.put_raw(item.into()).await;
    id
}

async fn entries_about(stores: &Stores, id: &CommentId) -> Vec<JournalEntry> {
    let mut entries = journal(&stores.table).await;
    entries.retain(|entry| entry.id == *id);
    entries
}

/// What the API shows of a comment and of its product.
struct Shown {
    /// The status of the answer about the comment.
    status: u16,
    /// The ids on the product's first page.
    listed: Vec<String>,
    total: Value,
}

impl Shown {
    async fn read(http: &Http, id: &CommentId) -> Self {
        let comment = http.get(&format!("/api/v1/comments/{id}")).await;
        let listing = format!("{}/comments", product_path(product(1).as_str()));
        let page = http.get(&listing).await.expect(200);
        Self {
            status: comment.status,
            listed: ids(&page),
            total: page["total"].clone(),
        }
    }

    /// Asserts that the comment is hidden, and that the product has only this other one.
    fn assert_hidden_beside(&self, fine: &CommentId, why: &str) {
        assert_eq!(self.status, 404, "{why}");
        assert_eq!(self.listed, [fine.to_string()], "{why}");
        assert_eq!(self.total, 1, "{why}");
    }
}

/// Why the batches are in quarantine.
fn reasons(stores: &Stores) -> Vec<String> {
    let mut reasons = Vec::new();
    for batch in stores.quarantined_batches() {
        let reason = batch["responseContext"]["functionError"].as_str().unwrap();
        reasons.push(reason.to_owned());
    }
    reasons
}

async fn change_rating(http: &Http, id: &CommentId) -> u16 {
    let answer = http.patch(id.as_str(), &json!({ "rating": 5 })).await;
    answer.status
}

fn assert_names(report: &Report, id: &CommentId, attribute: &str) {
    let pk =
        format!("pk \"COMMENT#{id}\", sk \"PRODUCT#product%2F1/~/~\", attribute {attribute}: ");
    assert!(
        report.unresolved.iter().all(|what| what.contains(&pk)),
        "{report}"
    );
}

/// The command that finds an incomplete item.
#[derive(Clone, Copy)]
enum Finder {
    Audit,
    Quarantine,
}

impl Finder {
    async fn run(self, stores: &Stores, apply: bool) -> Report {
        let job = job(stores, apply);
        match self {
            Self::Audit => job.audit(whole()).await,
            Self::Quarantine => job.quarantine(&stores.quarantine()).await,
        }
    }
}

#[tokio::test]
async fn an_item_without_a_revision_is_hidden_until_the_repair_job_takes_it_over() {
    for finder in [Finder::Quarantine, Finder::Audit] {
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
        let shown = Shown::read(http, &id).await;
        shown.assert_hidden_beside(&fine.id, "before the take-over");
        assert_eq!(change_rating(http, &id).await, 404);
        assert_eq!(http.delete(id.as_str()).await.status, 404);

        let looked = finder.run(&stores, false).await;
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
        let shown = Shown::read(http, &id).await;
        assert_eq!(shown.status, 404, "a dry run takes nothing over");
        let taken_over = expect(exit::DRIFT_FOUND, finder.run(&stores, true).await);
        assert_eq!(
            taken_over.drifted[&DriftKind::IncompleteItem],
            1,
            "{taken_over}"
        );
        assert_clean(&finder.run(&stores, true).await);

        let shown = Shown::read(http, &id).await;
        assert_eq!(shown.status, 200);
        assert_eq!(shown.listed.len(), 2);
        assert_eq!(shown.total, 2);
        assert_taken_over(&stores, &id).await;
        assert_eq!(change_rating(http, &id).await, 200);
        api.finish().await;
        Finder::Quarantine.run(&stores, true).await;
        assert_eq!(stores.quarantined_batches().len(), 0);
        stores.finish().await;
    }
}

/// Asserts that the item keeps what the tool wrote, and that the journal names it once.
async fn assert_taken_over(stores: &Stores, id: &CommentId) {
    let item = stores.table.primary_item(id).await.unwrap().unwrap();
    assert_eq!(
        item["votes"],
        AttributeValue::N("7".to_owned()),
        "what the tool wrote stays"
    );
    let [entry] = entries_about(stores, id).await.try_into().unwrap();
    let comment = stores.table.comment(id).await.unwrap().unwrap();
    assert_eq!(
        entry.after,
        Some(comment.placement()),
        "the journal names where the comment stands"
    );
}

async fn take_over(stores: &Stores, item: &Item) -> Transacted {
    let comment = incomplete(item).unwrap();
    let soon = Instant::now() + Duration::from_secs(60);
    let transacted = stores.table.take_over(&comment, item, soon).await;
    transacted.unwrap()
}

#[tokio::test]
async fn a_take_over_loses_against_any_edit_and_writes_nothing() {
    let stores = Stores::start_ready().await;
    let id = put_incomplete(&stores, 1).await;
    let item = stores.table.primary_item(&id).await.unwrap().unwrap();
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
        let transacted = take_over(&stores, &item).await;
        assert!(
            matches!(transacted, Transacted::ConditionsFailed(_)),
            "{name}"
        );
        assert_eq!(stores.table.items_of(&id).await.unwrap(), edited, "{name}");
    }
    damage::delete(&stores.table, &id, &FilterKey::primary(product(1))).await;
    let transacted = take_over(&stores, &item).await;
    assert!(matches!(transacted, Transacted::ConditionsFailed(_)));
    assert_eq!(stores.table.items_of(&id).await.unwrap(), []);
    assert_eq!(entries_about(&stores, &id).await, []);
    stores.finish().await;
}

#[tokio::test]
async fn an_item_that_becomes_invalid_is_left_out_everywhere_by_the_functions() {
    let stores = Stores::start_ready().await;
    let broken = stores.create_numbered(1, product(1)).await;
    let fine = stores.create_numbered(6, product(1)).await;
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
        let naming = reasons.iter().filter(|reason| reason.contains(&named));
        assert!(naming.count() >= 2, "{reasons:?}");
        let shown = Shown::read(&api.http, &broken.id).await;
        shown.assert_hidden_beside(&fine.id, name);
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
        // The item needs a person, and there is nothing to remove.
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
