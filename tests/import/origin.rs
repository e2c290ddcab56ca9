//! Another DynamoDB table: by a scan, with the same options as files; and the articles' table.

use itertools::Itertools;
use model::{Placement, RatingSet};
use serde_json::{Value, json};
use table::NewComment;

use super::{
    foreign::{FOREIGN, foreign},
    imported, some_reviews,
};
use crate::fixture::{
    WAIT_MAX,
    data::{body, comment_id, product},
    folder_in_memory,
    invariants::Contents,
    old_table::OldTable,
    pagemark,
    program::{Ended, Program},
    stores::Stores,
    wait_within,
};

/// Starts an import of another table of the same engine.
async fn start_import(stores: &Stores, old: &OldTable, options: &[&str]) -> Program {
    let url = stores.engine_url();
    let from = ["import", "--from-table", &old.name, "--from-endpoint", &url];
    let to = ["--table", stores.table.name(), "--dynamodb-url", &url];
    pagemark::start(&[&from[..], &to, options].concat()).await
}

pub(crate) async fn import(stores: &Stores, old: &OldTable, options: &[&str]) -> Ended {
    start_import(stores, old, options).await.end().await
}

/// A table of another program with these comments.
pub(crate) async fn foreign_table(stores: &Stores, comments: &[NewComment]) -> OldTable {
    let old = OldTable::create(stores.table.client()).await;
    old.put_all(comments.iter().map(|comment| Value::from(foreign(comment)))).await;
    old
}

#[tokio::test]
async fn a_scan_that_is_killed_goes_on_after_what_its_checkpoint_holds() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments = some_reviews(1_500).into_iter().sorted_by(|a, b| a.id.cmp(&b.id)).collect_vec();
    let old = foreign_table(&stores, &comments).await;
    let before = old.items().await;
    let checkpoint = folder.path().join("checkpoint");
    // It takes ten seconds, because the checkpoint is stored once a second.
    let slow = ["--write-units", "10000", "--from-segments", "1", "--checkpoint", checkpoint.to_str().unwrap()];
    let options = [&FOREIGN[..], &slow].concat();
    let program = start_import(&stores, &old, &options).await;
    let look = async || {
        let kept = std::fs::read_to_string(&checkpoint).map_err(|error| error.to_string())?;
        if kept.contains("\"After\"") { Ok(()) } else { Err(kept) }
    };
    wait_within(WAIT_MAX, "a checkpoint within the table", look).await;
    program.kill().await;
    let done = imported(&stores).await.len();
    assert!(done < comments.len(), "it was killed too late");

    let ended = import(&stores, &old, &options).await.expect(0);
    let seen: usize = ["new", "unchanged"].map(|word| counted(&ended.stdout, word)).iter().sum();
    assert!(seen <= comments.len() - 500, "an answer of the scan was read again: {ended:?}");
    assert!(ended.stderr.contains("follow --since "), "{ended:?}");
    assert_eq!(imported(&stores).await, comments);
    assert_eq!(old.items().await, before);
    let again = import(&stores, &old, &options).await.expect(0);
    assert!(again.stdout.contains(": 0 new, 0 unchanged"), "{again:?}");
    old.drop_it().await;
    stores.finish().await;
}

/// The number before a word of a report.
fn counted(stdout: &str, word: &str) -> usize {
    let before = stdout.split(&format!(" {word}")).next().unwrap();
    before.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap_or_else(|_| panic!("{word}: {stdout}"))
}

#[tokio::test]
async fn a_refused_item_is_named_by_its_key_and_tried_again() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments = some_reviews(30);
    let old = foreign_table(&stores, &comments).await;
    let mut broken = foreign(&comments[7]);
    broken.insert("score".to_owned(), 101.into());
    old.put(&broken.clone().into()).await;
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (checkpoint, rejects) = (path("checkpoint"), path("rejects"));
    let more = ["--checkpoint", checkpoint.as_str(), "--rejects", rejects.as_str(), "--from-segments", "3"];
    let options = [&FOREIGN[..], &more].concat();
    let ended = import(&stores, &old, &options).await.expect(1);
    let named = format!("item {{\"number\":{{\"S\":\"{}\"}}}}: rating: 101 is outside the scale", comments[7].id);
    assert!(ended.stdout.contains("29 new") && ended.stdout.contains(&named), "{ended:?}");
    let rejected: Value = std::fs::read_to_string(&rejects).unwrap().parse().unwrap();
    assert_eq!(rejected["row"]["Item"]["score"], json!({"N": "101"}));
    old.put(&foreign(&comments[7]).into()).await;
    let ended = import(&stores, &old, &options).await.expect(0);
    assert!(ended.stdout.contains(": 1 new, 0 unchanged"), "{ended:?}");
    assert_eq!(Contents::read(&stores.table).await.primary.len(), comments.len());
    old.drop_it().await;
    stores.finish().await;
}

#[tokio::test]
async fn write_units_are_counted_with_the_duplicates_and_a_table_is_not_imported_into_itself() {
    let stores = Stores::start().await;
    let old = OldTable::create(stores.table.client()).await;
    let short = some_reviews(3).into_iter().map(|comment| NewComment { text: body("Short."), ..comment });
    old.put_all(short.map(|comment| Value::from(foreign(&comment)))).await;
    for (options, says) in
        [(&[][..], Some("about 204 write units")), (&["--update"], None), (&["--dry-run", "--update"], None)]
    {
        let options = [&FOREIGN[..], &["--write-units", "1000000"], options].concat();
        let ended = import(&stores, &old, &options).await.expect(0);
        assert_eq!(ended.stderr.contains("write units"), says.is_some(), "{ended:?}");
        assert!(says.is_none_or(|says| ended.stderr.contains(says)), "{ended:?}");
    }
    let url = stores.engine_url();
    let name = stores.table.name();
    let itself = ["import", "--from-table", name, "--from-endpoint", &url, "--table", name, "--dynamodb-url", &url];
    assert!(pagemark::run(&itself).await.expect(1).stderr.contains("is the table to import into"));
    old.drop_it().await;
    stores.finish().await;
}

/// The items of a comment as the articles print them: under every set of ratings, also that of all five, and under no set.
pub(crate) fn items_of_the_articles(id: u64, cd: &str, language: &str, rating: u64, blob: &Value) -> Vec<Value> {
    let item = |sk: String, auto: Option<bool>| {
        let mut item = json!({
            "pk": format!("COMMENT#{id}"), "sk": sk, "cd": cd, "language": language, "rating": rating,
            "comment_blob": blob
        });
        item.as_object_mut().unwrap().extend(auto.map(|auto| ("auto".to_owned(), auto.into())));
        item
    };
    let has = |ratings: &RatingSet| ratings.iter().any(|each| u64::from(each.get()) == rating);
    let sets = RatingSet::every().filter(has).map(|ratings| ratings.to_string()).chain(["~".to_owned()]);
    let keys = sets.cartesian_product(["~", language]).map(|(ratings, language)| (language.to_owned(), ratings));
    let keys = keys.filter(|(language, ratings)| (language.as_str(), ratings.as_str()) != ("~", "~"));
    let duplicates = keys.map(|(language, ratings)| item(format!("PRODUCT#42/{language}/{ratings}"), Some(true)));
    std::iter::once(item("PRODUCT#42/~/~".to_owned(), None)).chain(duplicates).collect()
}

#[tokio::test]
async fn the_articles_table_is_adopted_without_its_duplicates() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let old = OldTable::of_the_articles(stores.table.client()).await;
    let blob = json!({"title": "Good", "body": "Fine.", "author": "Ada"});
    let as_text = Value::from(json!({"body": "Merci."}).to_string());
    for items in [
        items_of_the_articles(100_001, "2020-11-09 12:00:00.123", "en", 5, &blob),
        // Two comments of one instant.
        items_of_the_articles(100_002, "2020-11-09 12:00:00.123", "fr", 1, &as_text),
    ] {
        assert_eq!(items.len(), 34);
        old.put_all(items).await;
    }
    // An orphan of a comment that was deleted, and an item of another kind.
    let orphan = items_of_the_articles(100_003, "2020-11-09 12:00:00.123", "en", 3, &blob).swap_remove(5);
    old.put_all([orphan, json!({"pk": "PRODUCT#42", "sk": "STATISTICS", "comments": 2})]).await;
    let before = old.items().await;

    let (url, new) = (stores.engine_url(), stores.table.name());
    let checkpoint = folder.path().join("checkpoint");
    let adopt = async |more: &[&str]| {
        pagemark::run(&[&["adopt", "--table", &old.name, "--dynamodb-url", &url][..], more].concat()).await
    };
    let dry = adopt(&["--dry-run"]).await.expect(0);
    assert!(dry.stdout.contains("nothing was written; an import would find 2 new"), "{dry:?}");
    let missing = stores.table.client().describe_table().table_name(format!("{}-pagemark", old.name)).send().await;
    assert!(missing.is_err(), "a dry run creates no table");

    let options = ["--into", new, "--checkpoint", checkpoint.to_str().unwrap()];
    let ended = adopt(&options).await.expect(0);
    assert!(ended.stdout.contains(": 2 new, 0 unchanged"), "{ended:?}");
    assert!(ended.stderr.contains("left out, because they are no comments: 68 items"), "{ended:?}");
    assert!(adopt(&options).await.expect(0).stdout.contains(": 0 new, 0 unchanged"));
    assert!(adopt(&options[..2]).await.expect(0).stdout.contains(": 0 new, 2 unchanged"));
    assert!(adopt(&[]).await.expect(0).stdout.contains(": 2 new"), "into a new table by default");

    stores.deliver_all().await;
    let contents = stores.assert_invariants().await;
    assert_eq!(contents.primary.len(), 2);
    let first = stores.table.comment(&comment_id("100001")).await.unwrap().unwrap();
    let placement = Placement { product: product("42"), ..first.placement() };
    assert_eq!((first.placement(), first.created_at.to_string()), (placement, "2020-11-09T12:00:00.123Z".to_owned()));
    assert_eq!((first.text.title.as_deref(), first.text.author.as_deref()), (Some("Good"), Some("Ada")));
    let second = stores.table.comment(&comment_id("100002")).await.unwrap().unwrap();
    assert_eq!((second.text.body.as_str(), second.language.as_str()), ("Merci.", "fr"));
    assert_eq!(old.items().await, before, "the old table is only read");
    old.drop_it().await;
    stores.finish().await;
}
