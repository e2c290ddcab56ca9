//! Walks during writes, and pages of which a part fails.

use four_index::{Error, FourIndexTable, KeepCounters};
use itertools::Itertools;
use model::Comment;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{Alone, comment, expected_pages, filter, next_page, product, query, walk, with_body};
use crate::fixture::faults::{Schedule, TableFault, faulty_table};

/// Some comments in three partitions, several at one instant. Ratings 3 and 4 have none.
fn some(count: i64) -> Vec<Comment> {
    let ratings = [5, 5, 1, 5, 5, 5, 2, 5];
    let numbered = (0..count).zip(ratings.into_iter().cycle());
    numbered.map(|(number, rating)| comment(&format!("c{number}"), &product("p"), "en", rating, number / 2)).collect()
}

#[tokio::test]
async fn comments_inserted_during_a_walk_repeat_and_hide_no_other() {
    let mut random = StdRng::seed_from_u64(7);
    let mut all = some(40);
    let alone = Alone::with(&all, true).await;
    let mut put_in = 0;
    let filters = [(None, None), (None, Some("1.2.5")), (Some("en"), Some("1.2.3.4")), (None, Some("3.5"))];
    for filter in filters.map(|(language, ratings)| filter(language, ratings)) {
        for skip_empty in [false, true] {
            let query = query(&product("p"), &filter, 3, skip_empty);
            let before = expected_pages(&all, &query).concat();
            let (mut seen, mut last) = (Vec::new(), None);
            while let Some(page) = next_page(&alone.table, &query, last.as_ref()).await.unwrap() {
                seen.extend(page.comments.clone());
                // The newest, one in between, one at an existing instant, and the oldest.
                let at = [100, random.random_range(0..20), 5, -10][put_in % 4];
                let rating = random.random_range(1..=5);
                let new = comment(&format!("new{put_in}"), &product("p"), "en", rating, at);
                alone.table.insert(&new, KeepCounters::Yes).await.unwrap();
                all.push(new);
                put_in += 1;
                last = Some(page);
                assert!(seen.len() <= all.len(), "{query:?}: the walk does not end");
            }
            assert!(seen.iter().map(|comment| &comment.id).all_unique(), "{query:?}");
            let old = seen.into_iter().filter(|comment| before.contains(comment)).collect_vec();
            assert_eq!(old, before, "{query:?}");
        }
    }
    alone.finish().await;
}

#[tokio::test]
async fn a_walk_continues_after_a_deleted_comment() {
    let all = some(24);
    let alone = Alone::with(&all, true).await;
    let query = query(&product("p"), &filter(None, Some("1.2.5")), 3, false);
    let (mut seen, mut last) = (Vec::new(), None);
    while let Some(page) = next_page(&alone.table, &query, last.as_ref()).await.unwrap() {
        // Delete the whole page, including every comment that the cursor names.
        for shown in &page.comments {
            alone.table.delete(shown, KeepCounters::Yes).await.unwrap();
        }
        seen.extend(page.comments.clone());
        last = Some(page);
    }
    assert_eq!(seen, expected_pages(&all, &query).concat());
    assert_eq!(alone.table.stats(&product("p"), None).await.unwrap().total, 0);
    alone.finish().await;
}

#[tokio::test]
async fn empty_partitions_are_not_queried_on_any_page() {
    let alone = Alone::with(&some(24), true).await;
    for (skip_empty, first, second) in [(false, 4, 2), (true, 3, 2)] {
        // Two of the partitions 2, 3, 4 and 5 are empty.
        let query = query(&product("p"), &filter(None, Some("2.3.4.5")), 3, skip_empty);
        let page = next_page(&alone.table, &query, None).await.unwrap().unwrap();
        assert_eq!(page.cost.requests, first, "the statistics are one");
        let page = next_page(&alone.table, &query, Some(&page)).await.unwrap().unwrap();
        assert_eq!(page.cost.requests, second);
    }
    // A query of a single partition reads no counters.
    let query = query(&product("p"), &filter(Some("en"), Some("5")), 3, true);
    assert_eq!(next_page(&alone.table, &query, None).await.unwrap().unwrap().cost.requests, 1);
    alone.finish().await;
}

#[tokio::test]
async fn a_page_is_complete_or_an_error_under_any_faults() {
    let all = some(40);
    let alone = Alone::with(&all, true).await;
    let query = query(&product("p"), &filter(None, Some("1.2.5")), 4, true);
    let expected = walk(&alone.table, &query).await;
    assert_eq!(expected, expected_pages(&all, &query));
    let faults = [TableFault::Drop, TableFault::DropAnswer, TableFault::Truncate, TableFault::ServerError];
    let faulty = faulty_table(&alone.plain, &alone.engine.url(), Schedule::new(11, 45, &faults)).await;
    let table = FourIndexTable::new(faulty.client().clone(), faulty.name());
    let mut failed = 0;
    let mut last = None;
    for page in &expected {
        // Each partition fails a few dozen times at most.
        let read = loop {
            match next_page(&table, &query, last.as_ref()).await {
                Ok(read) => break read.unwrap(),
                Err(Error::Store(error)) => assert!(error.is_unavailable(), "{error}"),
                Err(error) => panic!("{error}"),
            }
            failed += 1;
            assert!(failed < 500);
        };
        assert_eq!(read.comments, *page);
        last = Some(read);
    }
    assert!(failed > 0, "nothing failed");
    alone.finish().await;
}

#[tokio::test]
async fn comments_too_large_for_one_answer_are_read_by_several_queries() {
    let alone = Alone::start().await;
    let all = (0..12).map(|number| {
        let comment = comment(&format!("c{number:02}"), &product("p"), "en", 1 + 4 * (number as u64 % 2), number);
        with_body(comment, "x".repeat(300_000))
    });
    let all = all.collect_vec();
    for comment in &all {
        alone.table.insert(comment, KeepCounters::No).await.unwrap();
    }
    let query = query(&product("p"), &filter(None, Some("1.5")), 5, false);
    let pages = walk(&alone.table, &query).await;
    let cds = |page: &Vec<Comment>| page.iter().map(Comment::cd).collect_vec();
    assert_eq!(pages.iter().map(cds).collect_vec(), expected_pages(&all, &query).iter().map(cds).collect_vec());
    let page = alone.table.page(&query, None).await.unwrap();
    assert!(page.cost.requests > 2, "{:?}", page.cost);
    alone.finish().await;
}
