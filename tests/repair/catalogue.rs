//! The product catalogue: a rebuild from it gives the same index as a rebuild from a scan, and its recorded coverage is
//! always true.
//!
//! A rebuild also reads the journal of the last minutes, which would hide comments that it otherwise missed. So most
//! comments here are put directly into the table, without the writers, before the catalogue is made.

use std::{collections::BTreeMap, time::Duration};

use model::{
    ProductId, Rating, Revision,
    catalogue::Catalogue,
    journal::{JOURNAL_RETENTION_DAYS, JournalEntry},
};
use page_index::{PageIndex, PageIndexConfig};
use process::now;
use rand::{SeedableRng, rngs::StdRng};
use repair_job::{AuditOptions, Job, JobSettings, Report, Stop, Which, exit};
use serde_dynamo::AttributeValue;
use table::{CommentPatch, NewComment, Table, TableConfig, capacity::Meter};

use super::{assert_clean, job, job_with, settings, whole};
use crate::{
    fixture::{
        WAIT_MAX,
        damage::{Damage, inflict},
        data,
        gate::{self, Gate},
        invariants::{assert_catalogue, listed_products},
        redis_server,
        reviews::{reviews, sample_size},
        stores::Stores,
    },
    replay::write_history,
};

const DAY_MS: i64 = 24 * 3_600_000;

/// The page index without its markers, byte by byte.
async fn dump(stores: &Stores) -> BTreeMap<String, Vec<u8>> {
    let mut raw = redis_server::connection(&stores.redis_url).await;
    let mut values = BTreeMap::new();
    for key in stores.index.key_names().await.unwrap().into_iter().filter(|key| !key.ends_with("}:marker")) {
        // Compares members in order, because the bytes of a set depend on the order in which it was filled.
        let sorted = key.contains(":PRODUCT#") && !key.ends_with(":languages");
        let mut command = redis::cmd(if sorted { "ZRANGE" } else { "SORT" });
        command.arg(&key);
        let command = if sorted { command.arg(&["0", "-1", "WITHSCORES"]) } else { command.arg("ALPHA") };
        let members: Vec<String> = command.query_async(&mut raw).await.unwrap();
        values.insert(key, members.join("\n").into_bytes());
    }
    values
}

fn by_catalogue(report: &Report) -> bool {
    let ways = ["products of the product catalogue were read", "the whole table was scanned"];
    let told = ways.map(|way| report.notes.iter().any(|note| note.contains(way)));
    assert!(told[0] != told[1], "{report}");
    told[0]
}

/// Comments that only a read of the table finds.
fn comments(count: u64) -> Vec<NewComment> {
    (0..count).map(super::rebuild::comment).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_by_the_catalogue_gives_the_same_index_as_one_by_a_scan() {
    let stores = Stores::start().await;
    let comments = reviews(sample_size() / 4);
    let count = u64::try_from(comments.len()).unwrap();
    stores.put_primary_items(comments).await;
    let first = repair_job::rebuild(&stores.table, &stores.index, 1).await.unwrap();
    assert_eq!((first.comments, first.products, first.changed_meanwhile), (count, None, 0));
    let by_scan = dump(&stores).await;
    let products = u64::try_from(listed_products(&stores.table).await.len()).unwrap();
    let mut random = StdRng::seed_from_u64(91);
    for segments in [1, 5] {
        let report = repair_job::rebuild(&stores.table, &stores.index, segments).await.unwrap();
        assert_eq!((report.comments, report.items, report.products), (count, count, Some(products)), "{report:?}");
        assert_eq!(report.changed_meanwhile, 0);
        assert!(dump(&stores).await == by_scan, "in {segments} segments the index is another");
        // The next rebuild removes damage to the index.
        for comment in stores.assert_index().await.comments().iter().step_by(97) {
            for damage in [Damage::DropRanks, Damage::AddRankElsewhere, Damage::GhostRanks] {
                inflict(&stores, &mut random, comment, damage).await;
            }
        }
    }
    let report = job(&stores, true).rebuild_by_scan(1).await;
    assert!(!by_catalogue(&report), "{report}");
    assert!(dump(&stores).await == by_scan, "the index is another");
    stores.finish().await;
}

#[tokio::test]
async fn comments_and_products_that_come_during_a_rebuild_by_the_catalogue_are_indexed_as_they_are() {
    let stores = Stores::start().await;
    stores.put_primary_items(comments(60)).await;
    assert_clean(&job(&stores, true).rebuild(1).await);
    stores.deliver_all().await;
    // Some products are read but not yet written. Another product is about to be read.
    let queries = Gate::start(&stores.engine_url(), gate::INDEX_QUERIES).await;
    let edits = Gate::start(&stores.redis_url, gate::EDITS).await;
    let table = TableConfig::new(stores.table.name(), Some(queries.url.clone()));
    let table = TableConfig { attempt_timeout: WAIT_MAX, call_timeout: WAIT_MAX, ..table };
    let index = PageIndexConfig { url: edits.url.clone(), timeout: WAIT_MAX, ..stores.index_config.clone() };
    let (table, index) = (Table::connect(&table).await, PageIndex::connect(&index).unwrap());
    let rebuild = Job::new(table, index, settings(true), Meter::default(), Stop::default());
    queries.hold_after(20);
    edits.hold_after(0);
    let run = tokio::spawn(async move { rebuild.rebuild(1).await });
    queries.wait_until_holding("a query").await;
    for number in 0..60 {
        let id = &super::rebuild::comment(number).id;
        if number % 3 == 0 {
            stores.table.delete_comment(id, None).await.unwrap();
        } else {
            let patch = CommentPatch { rating: Rating::new(1 + (number + 2) % 5).ok(), ..Default::default() };
            stores.table.patch_comment(id, None, &patch).await.unwrap();
        }
    }
    for number in 0..10 {
        stores.create_numbered(number, data::product(&format!("new/{number}"))).await;
    }
    stores.deliver_all().await;
    queries.open();
    edits.wait_until_holding("the edits").await;
    edits.open();
    let report = run.await.unwrap();
    assert_clean(&report);
    assert!(by_catalogue(&report), "{report}");
    let table_id = stores.table.describe().await.unwrap().id;
    let readiness = stores.index.readiness(&table_id, now()).await.unwrap();
    assert!(readiness.iter().all(|(_, answer)| answer.is_ok()), "{readiness:?}");
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
async fn recent_lists_the_products_that_the_journal_names() {
    let stores = Stores::start_ready().await;
    write_history(&stores, &mut StdRng::seed_from_u64(92), 60).await;
    assert_eq!(listed_products(&stores.table).await.len(), 0);
    // A dry run lists nothing.
    job(&stores, false).recent().await;
    assert_eq!(listed_products(&stores.table).await.len(), 0);
    let before = now();
    job(&stores, true).recent().await;
    let named: Vec<String> = listed_products(&stores.table).await.iter().map(ToString::to_string).collect();
    assert_eq!(named, ["a/b", "c"]);
    let catalogue = stores.table.catalogue().await.unwrap().unwrap();
    assert!(catalogue.is_whole && catalogue.to >= before, "{catalogue:?}");
    assert!(by_catalogue(&job(&stores, true).rebuild(2).await));
    stores.assert_invariants().await;
    stores.finish().await;
}

/// Puts a comment with a new product directly into the table, without the writers.
async fn put_behind_the_backs(stores: &Stores) -> ProductId {
    let product = data::product("by the back door");
    let number = 7_000;
    stores.put_primary_items(vec![NewComment { product: product.clone(), ..super::rebuild::comment(number) }]).await;
    product
}

#[tokio::test]
async fn a_product_put_there_behind_the_writers_backs_is_found_by_a_scan() {
    let stores = Stores::start_ready().await;
    let product = put_behind_the_backs(&stores).await;
    let by_list = job(&stores, true).rebuild(1).await;
    assert!(by_catalogue(&by_list) && !listed_products(&stores.table).await.contains(&product), "{by_list}");
    let by_scan = job(&stores, true).rebuild_by_scan(1).await;
    assert!(!by_catalogue(&by_scan) && by_scan.checked == 1, "{by_scan}");
    assert!(listed_products(&stores.table).await.contains(&product));
    let by_list = job(&stores, true).rebuild(1).await;
    assert!(by_catalogue(&by_list) && by_list.checked == 1, "{by_list}");
    stores.finish().await;
}

#[tokio::test]
async fn an_audit_lists_the_products_that_it_meets_and_one_of_all_segments_makes_the_catalogue_whole() {
    let stores = Stores::start_ready().await;
    let product = put_behind_the_backs(&stores).await;
    let options = AuditOptions { segments: 3, ..AuditOptions::default() };
    assert_eq!(job(&stores, true).audit(options).await.exit_code(), exit::DRIFT_FOUND);
    assert!(listed_products(&stores.table).await.contains(&product));
    let by_list = job(&stores, true).rebuild(1).await;
    assert!(by_catalogue(&by_list) && by_list.checked == 1, "{by_list}");
    // A catalogue that `recent` has maintained for an hour and a half, without any scan of the table: the state after
    // an update.
    let kept = |found: Catalogue| Catalogue { from: found.from.plus_ms(-5_400_000), is_whole: false, ..found };
    let found = stores.table.catalogue().await.unwrap();
    let before = found.clone().map(kept).unwrap();
    assert!(stores.table.replace_catalogue(found.as_ref(), &before).await.unwrap());
    let is_whole = async || stores.table.catalogue().await.unwrap().unwrap().is_whole;
    // Two old states: a segment last checked by a version that listed nothing, and a segment resumed from a position
    // left by such a version.
    let name = "3/000001";
    let done: serde_json::Value = stores.table.state("audit", name).await.unwrap().unwrap();
    for lists_nothing in [("last_lists", false), ("lists", true)] {
        let mut old = done.as_object().unwrap().clone();
        old.insert(lists_nothing.0.to_owned(), false.into());
        if lists_nothing.1 {
            old.insert("began".to_owned(), now().to_string().into());
            old.insert("position".to_owned(), serde_json::json!({ "pk": "COMMENT#0", "sk": "PRODUCT#p/~/~" }));
            old.remove("last_began");
        }
        stores.table.put_state("audit", name, &serde_json::Value::Object(old)).await.unwrap();
        let which = if lists_nothing.1 { Which::One(1) } else { Which::One(0) };
        assert_clean(&job(&stores, true).audit(AuditOptions { which, sweep: false, ..options }).await);
        assert!(!is_whole().await, "{lists_nothing:?}");
    }
    assert_clean(&job(&stores, true).audit(AuditOptions { restart: true, ..options }).await);
    assert!(is_whole().await);
    assert!(by_catalogue(&job(&stores, true).rebuild(1).await));
    stores.finish().await;
}

#[tokio::test]
async fn a_catalogue_that_is_not_whole_is_not_read_by() {
    let stores = Stores::start().await;
    stores.put_primary_items(comments(40)).await;
    assert_clean(&job(&stores, true).rebuild(1).await);
    stores.deliver_all().await;
    let found = stores.table.catalogue().await.unwrap().unwrap();
    let present = now();
    let old = present.plus_ms(-(JOURNAL_RETENTION_DAYS + 1) * DAY_MS);
    let doubtful = [
        // The state of the table from which this one was restored.
        (Catalogue { table: "another".to_owned(), ..found.clone() }, "of this table"),
        (Catalogue { is_whole: false, ..found.clone() }, "goes back to"),
        (Catalogue { from: old, to: old, ..found.clone() }, "does not reach back"),
        (Catalogue { to: present.plus_ms(DAY_MS), ..found.clone() }, "later than the present"),
    ];
    for (doubtful, why) in doubtful {
        let before = stores.table.catalogue().await.unwrap();
        assert!(stores.table.replace_catalogue(before.as_ref(), &doubtful).await.unwrap());
        let looked = job(&stores, false).rebuild(1).await;
        assert!(!by_catalogue(&looked) && looked.notes.iter().any(|note| note.contains(why)), "{why}: {looked}");
        assert_eq!(stores.table.catalogue().await.unwrap().as_ref(), Some(&doubtful), "a dry run has written");
        // `recent` starts anew, but what it lists is not complete.
        write_history(&stores, &mut StdRng::seed_from_u64(93), 10).await;
        job(&stores, true).recent().await;
        let again = stores.table.catalogue().await.unwrap().unwrap();
        assert!(!again.is_whole && again.table == found.table && again.to >= present, "{why}: {again:?}");
        let scanned = job(&stores, true).rebuild(1).await;
        assert!(!by_catalogue(&scanned), "{why}: {scanned}");
        let whole = job(&stores, true).rebuild(1).await;
        assert!(by_catalogue(&whole), "{why}: {whole}");
        assert_eq!(stores.table.catalogue().await.unwrap().unwrap().to, again.to, "{why}");
        stores.deliver_all().await;
        stores.assert_invariants().await;
    }
    stores.finish().await;
}

#[tokio::test]
async fn two_that_say_what_the_list_is_worth_do_not_undo_each_other() {
    let stores = Stores::start().await;
    let at = |ms| data::at_ms(ms);
    let first = Catalogue { table: "t".to_owned(), from: at(1), to: at(1), is_whole: true };
    let second = Catalogue { to: at(2), ..first.clone() };
    let table = &stores.table;
    assert!(table.replace_catalogue(None, &first).await.unwrap());
    assert!(!table.replace_catalogue(None, &second).await.unwrap());
    assert!(table.replace_catalogue(Some(&first), &second).await.unwrap());
    assert!(!table.replace_catalogue(Some(&first), &Catalogue { is_whole: false, ..first.clone() }).await.unwrap());
    assert_eq!(table.catalogue().await.unwrap(), Some(second));
    // More products than fit into one batch or into one answer of a shard, some of them twice.
    let products: Vec<ProductId> = (0..230).map(|number| data::product(&format!("a/b {number}~"))).collect();
    assert_eq!(table.list_products(&products[..130]).await.unwrap(), 130);
    assert_eq!(table.list_products(&products).await.unwrap(), 100);
    assert_eq!(listed_products(table).await, products.into_iter().collect());
    stores.finish().await;
}

#[tokio::test]
async fn a_recent_that_ends_before_its_products_are_listed_vouches_for_nothing() {
    let stores = Stores::start_ready().await;
    let before = stores.table.catalogue().await.unwrap();
    let began = now();
    stores.create_all(0..20, super::product).await;
    stores.deliver_all().await;
    // The run first asks which products are listed, then lists the others.
    for count in 0..2 {
        let gate = Gate::start(&stores.engine_url(), gate::CATALOGUE).await;
        gate.hold_after(count);
        let impatient = TableConfig {
            attempt_timeout: Duration::from_millis(300),
            call_timeout: Duration::from_millis(300),
            max_attempts: 1,
            ..TableConfig::new(stores.table.name(), Some(gate.url.clone()))
        };
        let table = Table::connect(&impatient).await;
        let report = Job::new(table, stores.index.clone(), settings(true), Meter::default(), Stop::default());
        let report = report.recent().await;
        assert_eq!(report.exit_code() & exit::FAILURE, exit::FAILURE, "{report}");
        assert_eq!(stores.table.catalogue().await.unwrap(), before, "{report}");
        // A slow run moves it through the empty hours before.
        assert!(stores.table.watermark().await.unwrap().is_none_or(|watermark| watermark <= began), "{report}");
        assert_catalogue(&stores.assert_invariants().await, &stores.table).await;
        gate.open();
    }
    assert_clean(&job(&stores, true).recent().await);
    assert!(by_catalogue(&job(&stores, true).rebuild(3).await));
    assert_clean(&job(&stores, true).audit(whole()).await);
    stores.finish().await;
}

#[tokio::test]
async fn an_entry_of_the_journal_that_cannot_be_read_is_counted_once_and_ends_what_the_catalogue_vouches_for() {
    let stores = Stores::start_ready().await;
    let comment = stores.create_numbered(0, super::product(0)).await;
    assert_eq!(job(&stores, true).recent().await.exit_code(), exit::DRIFT_FOUND);
    let revision = Revision::after(None, now(), 1);
    let entry = JournalEntry { id: data::comment_id("c1"), revision, before: None, after: Some(comment.placement()) };
    let entry: serde_dynamo::Item = serde_dynamo::to_item(entry.to_item()).unwrap();
    let mut broken = entry.into_inner();
    broken.insert("revision".to_owned(), AttributeValue::S("no revision".to_owned()));
    stores.put_raw(broken.into()).await;
    for _ in 0..2 {
        let report = job(&stores, true).recent().await;
        assert_eq!((report.unresolved_count, report.exit_code()), (1, exit::UNRESOLVED), "{report}");
        assert!(!stores.table.catalogue().await.unwrap().unwrap().is_whole);
    }
    // A scan that began later makes the catalogue whole again, although the run reads the entry again.
    let no_overlap = JobSettings { overlap: Duration::ZERO, ..settings(true) };
    assert!(!by_catalogue(&job_with(&stores, no_overlap, Stop::default()).rebuild(1).await));
    // A pass over the journal overlaps the previous one. Entries counted before are not counted again.
    let report = job(&stores, true).rebuild(1).await;
    assert!(by_catalogue(&report) && report.unresolved_count == 1, "{report}");
    let report = job(&stores, true).recent().await;
    assert_eq!(report.exit_code(), exit::UNRESOLVED, "{report}");
    assert!(by_catalogue(&job(&stores, true).rebuild(1).await));
    stores.finish().await;
}

#[tokio::test]
async fn a_rebuild_that_meets_an_entry_of_an_unknown_product_marks_nothing_ready() {
    let stores = Stores::start_ready().await;
    let comment = stores.create_numbered(0, super::product(0)).await;
    stores.deliver_all().await;
    assert_clean(&job(&stores, true).recent().await);
    // After the end of the catalogue's coverage, and before the next run of `recent`.
    let (id, revision) = (data::comment_id("c1"), Revision::after(None, now(), 1));
    let entry = JournalEntry { id, revision, before: None, after: Some(comment.placement()) };
    let entry: serde_dynamo::Item = serde_dynamo::to_item(entry.to_item()).unwrap();
    let mut broken = entry.into_inner();
    broken.insert("revision".to_owned(), AttributeValue::S("no revision".to_owned()));
    stores.put_raw(broken.into()).await;
    let report = job(&stores, true).rebuild(1).await;
    assert!(by_catalogue(&report), "{report}");
    assert_eq!(report.exit_code(), exit::UNRESOLVED | exit::SKIPPED, "{report}");
    assert_eq!(job(&stores, false).status(1, None).await.unwrap().index.unwrap().ready, 0);
    // A scan finds products without the journal.
    assert_eq!(job(&stores, true).rebuild_by_scan(1).await.exit_code(), exit::UNRESOLVED);
    stores.finish().await;
}

#[tokio::test]
async fn a_primary_item_that_cannot_be_read_is_reported_and_all_others_are_indexed() {
    let stores = Stores::start().await;
    stores.put_primary_items(comments(30)).await;
    assert_clean(&job(&stores, true).rebuild(1).await);
    let damaged = super::rebuild::comment(7);
    let whole = stores.table.items_of(&damaged.id).await.unwrap().pop().unwrap();
    let mut without_rating = whole.clone().into_inner();
    without_rating.remove("rating");
    stores.put_raw(without_rating.into()).await;
    let report = job(&stores, true).rebuild(2).await;
    assert!(by_catalogue(&report), "{report}");
    assert_eq!((report.exit_code(), report.checked), (exit::UNRESOLVED, 29), "{report}");
    assert!(report.unresolved.iter().any(|what| what.contains(damaged.id.as_str())), "{report}");
    stores.put_raw(whole).await;
    assert_clean(&job(&stores, true).rebuild(2).await);
    stores.index.clear().await.unwrap();
}
