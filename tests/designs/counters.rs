//! Counters equal a count of the comments after any writes, including repeated ones.

use std::collections::BTreeMap;

use four_index::{Counters, Error, FourIndexTable, KeepCounters, comment_item};
use model::Comment;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::{Alone, comment, items, later, product};
use crate::fixture::data;

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
