//! Counters equal a count of the comments after any writes, including repeated and concurrent ones.

use std::collections::BTreeMap;

use four_index::{Counters, Error, FourIndexTable, KeepCounters, comment_item};
use futures_util::future::join_all;
use itertools::Itertools;
use model::Comment;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::{Alone, comment, items, later, product};
use crate::fixture::{
    data,
    faults::{Schedule, TableFault, faulty_table},
};

const LANGUAGES: [&str; 3] = ["en", "de", "pt-BR"];

fn edited(old: &Comment, language: &str, rating: u64, random: &mut StdRng) -> Comment {
    let body = format!("Edited {}.", random.random::<u32>());
    later(old, language, rating, body, random.random())
}

async fn assert_counted(alone: &Alone, comments: &[Comment]) {
    let stored = items(&alone.plain).await;
    let (stored, statistics): (Vec<_>, Vec<_>) = stored.into_iter().partition(|item| item.contains_key("GSISK"));
    let by_key = |items: Vec<serde_dynamo::Item>| {
        let keyed = items.into_iter().map(|item| (format!("{:?}", item.get("PK")), item));
        keyed.collect::<BTreeMap<_, _>>()
    };
    let stored = by_key(stored.into_iter().map(Into::into).collect());
    assert_eq!(stored, by_key(comments.iter().map(comment_item).collect()));
    assert_counters(&alone.table, comments).await;
    for item in statistics {
        assert!(item.keys().all(|name| !name.starts_with("GSI")), "{item:?}: statistics are in no index");
    }
}

async fn assert_counters(table: &FourIndexTable, comments: &[Comment]) {
    for language in LANGUAGES.map(Some).into_iter().chain([None]) {
        let mut counted = Counters::default();
        for comment in comments.iter().filter(|comment| language.is_none_or(|tag| comment.language.as_str() == tag)) {
            counted.by_rating[usize::from(comment.rating.get()) - 1] += 1;
            counted.total += 1;
        }
        let language = language.map(data::language);
        assert_eq!(table.stats(&product("p"), language.as_ref()).await.unwrap(), counted, "{language:?}");
    }
}

#[tokio::test]
async fn counters_are_exact_after_repeated_writes() {
    let alone = Alone::start().await;
    let (table, mut random) = (&alone.table, StdRng::seed_from_u64(3));
    let mut all: Vec<Comment> = Vec::new();
    for number in 0..150 {
        let (language, rating) = (*LANGUAGES.choose(&mut random).unwrap(), random.random_range(1..=5));
        let old = all.choose(&mut random).cloned();
        match (random.random_range(0..10), old) {
            (0..4, _) | (_, None) => {
                let new = comment(&format!("c{number}"), &product("p"), language, rating, number);
                table.insert(&new, KeepCounters::Yes).await.unwrap();
                assert!(matches!(table.insert(&new, KeepCounters::Yes).await, Err(Error::Exists)));
                all.push(new);
            }
            (4..6, Some(old)) => {
                table.delete(&old, KeepCounters::Yes).await.unwrap();
                assert!(matches!(table.delete(&old, KeepCounters::Yes).await, Err(Error::Changed)));
                let again = edited(&old, language, rating, &mut random);
                assert!(matches!(table.edit(&old, &again, KeepCounters::Yes).await, Err(Error::Changed)));
                all.retain(|comment| comment.id != old.id);
            }
            (kind, Some(old)) => {
                let new = match kind {
                    6 => edited(&old, old.language.as_str(), old.rating.get().into(), &mut random),
                    7 => edited(&old, old.language.as_str(), rating, &mut random),
                    8 => edited(&old, language, old.rating.get().into(), &mut random),
                    _ => edited(&old, language, rating, &mut random),
                };
                table.edit(&old, &new, KeepCounters::Yes).await.unwrap();
                assert!(matches!(table.edit(&old, &new, KeepCounters::Yes).await, Err(Error::Changed)));
                assert!(matches!(table.delete(&old, KeepCounters::Yes).await, Err(Error::Changed)));
                all.retain(|comment| comment.id != old.id);
                all.push(new);
            }
        }
    }
    assert_counted(&alone, &all).await;
    alone.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_several_concurrent_changes_happens_and_is_counted() {
    let alone = Alone::start().await;
    let (table, mut random) = (&alone.table, StdRng::seed_from_u64(4));
    let mut all: Vec<Comment> = Vec::new();
    for number in 0..20 {
        let new = |language, rating| comment(&format!("c{number}"), &product("p"), language, rating, number);
        let rivals = [new("en", 5), new("de", 1), new("en", 2)];
        let inserts = rivals.iter().map(|rival| table.insert(rival, KeepCounters::Yes));
        let won = join_all(inserts).await.into_iter().positions(|done| done.is_ok()).collect_vec();
        assert_eq!(won.len(), 1);
        let old = rivals[won[0]].clone();
        let rivals = [("en", 1), ("de", 5), ("pt-BR", 3)];
        let rivals = rivals.map(|(language, rating)| edited(&old, language, rating, &mut random));
        let edits = join_all(rivals.iter().map(|rival| table.edit(&old, rival, KeepCounters::Yes)));
        let (edits, deleted) = tokio::join!(edits, table.delete(&old, KeepCounters::Yes));
        let won = edits.iter().positions(Result::is_ok).collect_vec();
        assert_eq!(won.len() + usize::from(deleted.is_ok()), 1, "{edits:?} {deleted:?}");
        let lost = edits.into_iter().chain([deleted]).filter_map(Result::err);
        assert!(lost.into_iter().all(|error| matches!(error, Error::Changed)));
        all.extend(won.first().map(|won| rivals[*won].clone()));
    }
    assert_counted(&alone, &all).await;
    alone.finish().await;
}

/// Answers get lost, the service fails, transactions conflict. The outcome of a write may be unknown, but it is never
/// half done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_are_exact_when_stores_fail() {
    let alone = Alone::start().await;
    let mut random = StdRng::seed_from_u64(5);
    let faults = [TableFault::Drop, TableFault::DropAnswer, TableFault::ServerError, TableFault::Conflict];
    let faulty = faulty_table(&alone.plain, &alone.engine.url(), Schedule::new(12, 35, &faults)).await;
    let faulty = FourIndexTable::new(faulty.client().clone(), faulty.name());
    let mut happened = [0, 0];
    for number in 0..40 {
        let new = comment(&format!("c{number}"), &product("p"), LANGUAGES[number % 3], 1 + number as u64 % 5, 0);
        let edit = edited(&new, LANGUAGES[(number + 1) % 3], 5, &mut random);
        let done = [
            faulty.insert(&new, KeepCounters::Yes).await,
            faulty.edit(&new, &edit, KeepCounters::Yes).await,
            if number % 4 == 0 { faulty.delete(&edit, KeepCounters::Yes).await } else { Ok(Default::default()) },
        ];
        for done in done {
            happened[usize::from(done.is_ok())] += 1;
        }
    }
    assert!(happened.iter().all(|count| *count > 0), "{happened:?}");
    let stored = items(&alone.plain).await.into_iter().filter(|item| item.contains_key("GSISK"));
    let stored = stored.map(|item| {
        let text = |name: &str| item[name].as_s().unwrap().clone();
        let (id, rating) = (text("PK"), item["rating"].as_n().unwrap().parse().unwrap());
        comment(id.strip_prefix("COMMENT#").unwrap(), &product("p"), &text("language"), rating, 0)
    });
    assert_counters(&alone.table, &stored.collect_vec()).await;
    alone.finish().await;
}
