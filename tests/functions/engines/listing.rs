//! Queries of the index, which read pages.

use itertools::Itertools;

use super::{Item, Under, code, indexed, invalid, with_text};

async fn start() -> Under {
    let under = Under::start().await;
    for number in 0..10 {
        under
            .put(indexed(&format!("i{number}"), "F", &format!("c{number}")))
            .await
            .unwrap();
    }
    under
}

fn partition_key(item: &Item) -> String {
    item["pk"].as_s().unwrap().clone()
}

/// The items of a query, and the key from which it would continue; or the code of its error.
type Found = Result<(Vec<String>, Option<String>), String>;

async fn query(
    under: &Under,
    forward: bool,
    limit: Option<i32>,
    start: Option<(&str, &str, &str)>,
) -> Found {
    let query = under
        .query_index("F")
        .scan_index_forward(forward)
        .set_limit(limit);
    let query = query.set_exclusive_start_key(start.map(|(pk, sk, cd)| indexed(pk, sk, cd)));
    let answer = code(query.send().await)?;
    Ok((
        answer.items().iter().map(partition_key).collect(),
        answer.last_evaluated_key().map(partition_key),
    ))
}

fn found(ids: &[&str], last: Option<&str>) -> Found {
    Ok((
        ids.iter().map(|id| (*id).to_owned()).collect(),
        last.map(str::to_owned),
    ))
}

#[tokio::test]
async fn a_query_begins_after_its_start_key_even_if_no_item_has_it() {
    let under = start().await;
    let there = Some(("i5", "F", "c5"));
    assert_eq!(
        query(&under, false, Some(3), there).await,
        found(&["i4", "i3", "i2"], Some("i2"))
    );
    assert_eq!(
        query(&under, true, Some(3), there).await,
        found(&["i6", "i7", "i8"], Some("i8"))
    );
    // The start key may be a comment that was deleted after the page index named it.
    let between = Some(("deleted", "F", "c5 and a bit"));
    assert_eq!(
        query(&under, false, Some(3), between).await,
        found(&["i5", "i4", "i3"], Some("i3"))
    );
    assert_eq!(
        query(&under, true, Some(3), between).await,
        found(&["i6", "i7", "i8"], Some("i8"))
    );
    let before_all = Some(("deleted", "F", "b"));
    assert_eq!(
        query(&under, false, Some(3), before_all).await,
        found(&[], None)
    );
    assert_eq!(
        query(&under, true, Some(2), before_all).await,
        found(&["i0", "i1"], Some("i1"))
    );
    // The engine refuses a start key of a different filter.
    assert_eq!(
        query(&under, false, Some(3), Some(("i5", "G", "c5"))).await,
        invalid()
    );
    under.finish().await;
}

#[tokio::test]
async fn a_query_that_stops_at_its_limit_names_its_last_item_even_at_the_end() {
    let under = start().await;
    let all = (0..10)
        .rev()
        .map(|number| format!("i{number}"))
        .collect_vec();
    let all = all.iter().map(String::as_str).collect_vec();
    assert_eq!(
        query(&under, false, Some(10), None).await,
        found(&all, Some("i0"))
    );
    assert_eq!(
        query(&under, false, Some(11), None).await,
        found(&all, None)
    );
    under.finish().await;
}

#[tokio::test]
async fn an_answer_ends_at_a_megabyte() {
    let under = Under::start().await;
    for number in 0..6 {
        let item = indexed(&format!("i{number}"), "F", &format!("c{number}"));
        under.put(with_text(item, 300_000)).await.unwrap();
    }
    let (first, last) = query(&under, true, None, None).await.unwrap();
    // Three items make 0.9 MB.
    assert_eq!(first.len(), 3);
    assert_eq!(last.as_ref(), first.last());
    under.finish().await;
}
