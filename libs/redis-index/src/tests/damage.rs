//! Keys that are lost, or wrong, or have not arrived yet.

use std::collections::BTreeMap;

use model::{
    Filter, Language, Order, Timestamp,
    plan::{IndexEdit, index_edits},
};
use page_index::{Contents, Edits, IndexPart, RankedQuery, Reads, Rebuild};
use redis::Value;

use super::{LANGUAGES, OwnIndex, SMALL, additions, entry, id, key, product, removals};
use crate::{connection::Routed, scripts::Sizes};

/// Fills several groups. The open block has a single comment left, and the second block of the second
/// group too.
async fn filled() -> OwnIndex {
    let own = OwnIndex::start(&SMALL).await;
    fill(&own).await;
    own
}

const COMMENTS: i64 = 40;

async fn fill(own: &OwnIndex) {
    own.index.apply(&additions(0..COMMENTS)).await.unwrap();
    own.index.apply(&removals(15..17)).await.unwrap();
}

/// What the keys hold.
async fn contents(own: &OwnIndex) -> BTreeMap<String, Value> {
    let mut contents = BTreeMap::new();
    for key in own.keys().await {
        let held: Value = own.ask("DUMP", &key, &[]).await;
        contents.insert(key, held);
    }
    contents
}

/// An edit of each kind.
fn edits() -> Vec<(&'static str, Vec<IndexEdit>)> {
    vec![
        ("add to the open block, or close it", additions(100..101)),
        ("close the open block", additions(100..105)),
        ("add between others", additions(1..2)),
        ("cut a block", [removals(3..4), additions(3..4)].concat()),
        ("remove", removals(5..6)),
        ("empty a block", removals(17..18)),
        ("empty the open block", removals(36..40)),
        ("empty all", removals(0..40)),
    ]
}

/// As on a server to which the slot of a product moves: some keys have not arrived yet. A key that an
/// edit creates cannot arrive, and what it does without the key is not counted there.
#[tokio::test]
async fn counts_are_right_when_a_key_arrives_that_edits_have_missed() {
    let own = filled().await;
    for (what, edits) in edits() {
        for missing in own.keys().await {
            if missing.ends_with("/totals") {
                continue;
            }
            own.clear().await;
            fill(&own).await;
            let Value::BulkString(held) = own.ask("DUMP", &missing, &[]).await else {
                panic!("{missing} is no key");
            };
            own.ask::<()>("DEL", &missing, &[]).await;
            let mut refused = 0;
            for edit in &edits {
                let applied = own.index.apply(std::slice::from_ref(edit)).await;
                refused += usize::from(applied.is_err());
            }
            let arrived = Routed::new("RESTORE", &missing).arg(0).arg(held);
            let arrived: Result<(), _> = own.index.ask(arrived).await;
            arrived.unwrap_or_else(|error| panic!("{what} without {missing}: {error}"));
            let (wrong, _) = own.scan().await;
            assert_eq!(wrong, [], "{what} without {missing}, {refused} refused");
        }
        own.clear().await;
        fill(&own).await;
    }
}

/// Counts of a language that are lost, and counts that are cut off. A removal reads those of a group
/// and of the root, and a closing those of the root.
#[tokio::test]
async fn an_edit_that_finds_wrong_counts_changes_nothing_and_a_recount_repairs_them() {
    let own = filled().await;
    let cases: [(&str, &str, &[&str], Vec<IndexEdit>); 8] = [
        ("HDEL", "counts", &["en"], removals(5..6)),
        ("HDEL", "counts", &["~"], removals(5..6)),
        ("HDEL", "counts/,-inf", &["en"], removals(5..6)),
        ("HDEL", "counts/,-inf", &["~"], removals(5..6)),
        ("HSET", "counts", &["en", "abc"], removals(5..6)),
        ("HSET", "counts/,-inf", &["en", "abc"], removals(5..6)),
        ("HSET", "counts", &["en", "abc"], additions(100..101)),
        ("HSET", "counts", &["~", "abc"], additions(100..101)),
    ];
    for (command, counts, arguments, edits) in cases {
        own.clear().await;
        fill(&own).await;
        own.ask::<()>(command, &key(counts), arguments).await;
        let before = contents(&own).await;
        own.index.apply(&edits).await.unwrap_err();
        let what = format!("{command} {counts} {arguments:?}");
        assert_eq!(contents(&own).await, before, "{what}");
        let (wrong, _) = own.scan().await;
        assert!(wrong.contains(&IndexPart::Miscounted(product())), "{what}");
        own.index.recount(&product()).await.unwrap();
        own.index.apply(&edits).await.unwrap();
        assert_eq!(own.scan().await.0, [], "{what}");
    }
}

/// Strays are the blocks that a lost list named.
fn without_strays(mut wrong: Vec<IndexPart>) -> Vec<IndexPart> {
    wrong.retain(|part| !matches!(part, IndexPart::Unknown(_)));
    wrong
}

/// A lost group is in no list of keys that exist.
#[tokio::test]
async fn a_group_that_is_lost_with_its_counts_is_found_and_repaired() {
    let own = filled().await;
    let groups: Vec<String> = own.ask("ZRANGE", &key("groups"), &["0", "-1"]).await;
    assert!(groups.len() > 2, "{groups:?}");
    for group in groups {
        own.clear().await;
        fill(&own).await;
        for part in ["group", "counts"] {
            let lost = key(&format!("{part}/{group}"));
            assert_eq!(own.ask::<u64>("DEL", &lost, &[]).await, 1, "{lost}");
        }
        assert!(
            own.index.is_miscounted(&product()).await.unwrap(),
            "{group}"
        );
        own.index.recount(&product()).await.unwrap();
        assert_eq!(without_strays(own.scan().await.0), [], "{group}");
        fill(&own).await;
        assert!(
            !own.index.is_miscounted(&product()).await.unwrap(),
            "{group}"
        );
    }
}

/// While a slot moves, a block that has not arrived looks as if it were empty.
#[tokio::test]
async fn no_reader_takes_a_block_that_is_lost_for_an_empty_one() {
    let own = filled().await;
    let product = product();
    let mut filters = vec![Filter::ANY];
    for language in LANGUAGES {
        let language = Language::parse_stored(language).unwrap();
        filters.push(Filter::new(Some(language), None));
    }
    let mut queries = Vec::new();
    for filter in &filters {
        for order in [Order::Newest, Order::Oldest] {
            for skip in 0..8 {
                queries.push(RankedQuery {
                    order,
                    skip,
                    count: 1,
                    settled_at: Timestamp::from_epoch_ms(20).ok(),
                    ..RankedQuery::new(&product, filter)
                });
            }
        }
    }
    let mut right = Vec::new();
    for query in &queries {
        right.push(own.index.ranked(&[*query]).await.unwrap());
    }
    for lost in own.keys().await {
        if !lost.contains("/block/") {
            continue;
        }
        own.clear().await;
        fill(&own).await;
        own.ask::<()>("DEL", &lost, &[]).await;
        for (query, right) in queries.iter().zip(&right) {
            if let Ok(found) = own.index.ranked(&[*query]).await {
                assert_eq!(found, *right, "{query:?} without {lost}");
            }
        }
    }
}

#[tokio::test]
async fn a_full_server_still_compares_counts() {
    let own = filled().await;
    own.ask::<()>("HSET", &key("counts"), &["~", "abc"]).await;
    own.ask::<()>("CONFIG", "SET", &["maxmemory", "1"]).await;
    assert!(own.index.is_miscounted(&product()).await.unwrap());
    let error = own.index.recount(&product()).await.unwrap_err();
    assert!(error.to_string().contains("OOM"), "{error}");
    own.ask::<()>("CONFIG", "SET", &["maxmemory", "0"]).await;
    own.index.recount(&product()).await.unwrap();
    assert!(!own.index.is_miscounted(&product()).await.unwrap());
}

#[tokio::test]
async fn whichever_key_is_lost_a_scan_ends_and_a_recount_repairs_the_product() {
    let own = filled().await;
    for lost in own.keys().await {
        own.clear().await;
        fill(&own).await;
        own.ask::<()>("DEL", &lost, &[]).await;
        let (wrong, _) = own.scan().await;
        assert!(
            wrong.contains(&IndexPart::Miscounted(product())),
            "{lost}: {wrong:?}"
        );
        own.index.recount(&product()).await.unwrap();
        let (wrong, _) = own.scan().await;
        assert_eq!(without_strays(wrong), [], "{lost}");
        // An audit then adds the comments that it misses.
        fill(&own).await;
        let (wrong, _) = own.scan().await;
        assert_eq!(without_strays(wrong), [], "{lost}");
        let product = product();
        let query = RankedQuery {
            count: 100,
            ..RankedQuery::new(&product, &Filter::ANY)
        };
        let (_, found) = own.index.ranked(&[query]).await.unwrap().remove(0);
        assert_eq!(found.comments.len(), 38, "{lost}");
    }
}

/// The members of the open block are counted in the totals.
#[tokio::test]
async fn one_recount_removes_what_is_no_comment_and_counts_the_others() {
    let own = filled().await;
    own.ask::<()>("ZADD", &key("open"), &["5", "nobody,5,en,3"])
        .await;
    own.index.check(&product(), "open", true).await.unwrap();
    own.index.apply(&additions(100..101)).await.unwrap();
    assert_eq!(own.scan().await.0, []);
}

#[tokio::test]
async fn an_open_block_that_was_closed_before_stays_compact() {
    let own = OwnIndex::start(&Sizes::STORED).await;
    own.index.apply(&additions(0..129)).await.unwrap();
    for number in 0..16 {
        let between = entry(50, "en", 5);
        let edits = index_edits(&id(&format!("b{number}")), Some(&between), &[]);
        own.index.apply(&edits).await.unwrap();
    }
    // The closed block is full now. The last comment leaves the open one.
    own.index.apply(&removals(112..129)).await.unwrap();
    let open = key("open");
    assert_eq!(own.ask::<u64>("ZCARD", &open, &[]).await, 128);
    assert_eq!(
        own.ask::<String>("OBJECT", "ENCODING", &[&open]).await,
        "listpack"
    );
    assert_eq!(own.scan().await, (Vec::new(), 128));
}

/// A live edit may add a product's first comment meanwhile.
#[tokio::test]
async fn a_product_of_which_a_rebuild_removes_any_key_begins_anew() {
    let own = filled().await;
    let keys = own.keys().await;
    let partition = own.index.keys.partition_of(&product());
    let rebuild = Rebuild {
        token: "token".to_owned(),
        servers: Default::default(),
        partitions: [partition].into(),
    };
    for removed in keys {
        own.clear().await;
        fill(&own).await;
        let token = own.index.keys.rebuild_token(partition);
        own.ask::<()>("SET", &token, &[&rebuild.token]).await;
        let walked = vec![removed.clone()];
        own.index.remove(walked, Some(&rebuild)).await.unwrap();
        let applied = own.index.apply(&additions(0..COMMENTS)).await;
        applied.unwrap_or_else(|error| panic!("{removed}: {error}"));
        assert!(
            !own.index.is_miscounted(&product()).await.unwrap(),
            "{removed}"
        );
    }
}

/// The blocks that the walk has not come to yet are in no list.
#[tokio::test]
async fn a_recount_during_a_rebuild_brings_nothing_back_that_the_rebuild_removes() {
    let own = filled().await;
    let partition = own.index.keys.partition_of(&product());
    let rebuild = Rebuild {
        token: "token".to_owned(),
        servers: Default::default(),
        partitions: [partition].into(),
    };
    let token = own.index.keys.rebuild_token(partition);
    own.ask::<()>("SET", &token, &[&rebuild.token]).await;
    let walked = vec![key("open")];
    own.index.remove(walked, Some(&rebuild)).await.unwrap();
    own.index.apply(&additions(100..101)).await.unwrap();
    own.index.recount(&product()).await.unwrap();
    let product = product();
    let query = RankedQuery {
        count: 100,
        ..RankedQuery::new(&product, &Filter::ANY)
    };
    let (_, found) = own.index.ranked(&[query]).await.unwrap().remove(0);
    assert_eq!((found.all, found.comments.len()), (1, 1));
}
