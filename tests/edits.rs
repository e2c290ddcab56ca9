//! After thousands of concurrent edits through the API in any order, duplicates and base sets are exactly what the
//! comments imply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use futures_util::{StreamExt, stream};
use itertools::Itertools;
use model::{Comment, Filter};
use rand::{
    RngExt, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom, IteratorRandom},
};
use serde_json::{Value, json};
use table::NewComment;

use crate::fixture::{
    engine::{self, EngineKind},
    http::{Http, good_comment},
    invariants::journal,
    reviews,
    stack::Running,
};

/// Total number of edits, and number of comments before the first edit.
fn edits_and_comments() -> (usize, usize) {
    match engine::kind() {
        EngineKind::Embedded => (2_000, 400),
        EngineKind::DynamoDbLocal => (500, 100),
    }
}

const CONCURRENCY: usize = 16;

const PRODUCTS: [&str; 5] = ["plain", "with/slashes/and.dots", "50% ☕ {mug} #2 ~", "שולחן", "..."];
const LANGUAGES: [&str; 4] = ["en", "ko", "pt-BR", "zh-Hant"];

/// An edit, drawn in advance. The comment that it changes is chosen when it runs.
#[derive(Debug, Clone)]
enum Edit {
    Create { product: &'static str, comment: Value },
    Change { pick: usize, change: Value },
    Delete { pick: usize },
}

fn edits(random: &mut StdRng, count: usize) -> Vec<Edit> {
    (0..count)
        .map(|number| {
            let language = *LANGUAGES.choose(random).unwrap();
            let rating = random.random_range(1..=5);
            let pick = random.random_range(0..usize::MAX);
            match random.random_range(0..100) {
                0..30 => Edit::Create {
                    product: PRODUCTS.choose(random).unwrap(),
                    comment: good_comment(language, rating, &format!("New {number} 😀")),
                },
                30..50 => Edit::Change { pick, change: json!({ "rating": rating }) },
                50..65 => Edit::Change { pick, change: json!({ "language": language }) },
                65..70 => Edit::Change { pick, change: json!({ "language": language, "rating": rating }) },
                70..80 => Edit::Change { pick, change: json!({ "body": format!("Changed {number}"), "author": null }) },
                _ => Edit::Delete { pick },
            }
        })
        .collect()
}

#[derive(Default)]
struct Known {
    /// The acknowledged state of each comment: the latest answer about it.
    states: Mutex<BTreeMap<String, Value>>,
    deleting: Mutex<BTreeSet<String>>,
}

/// Makes an edit and stores the answer. Another edit may run on the same comment.
async fn make(http: &Http, known: &Known, edit: Edit) {
    let pick_id = |pick: usize| {
        let known = known.states.lock().unwrap();
        known.keys().nth(pick % known.len().max(1)).cloned()
    };
    let (id, answer, status) = match edit {
        Edit::Create { product, comment } => {
            let created = http.post(product, &comment).await.expect(201);
            let id = created["id"].as_str().unwrap().to_owned();
            return known.keep(id, created);
        }
        Edit::Change { pick, change } => {
            let Some(id) = pick_id(pick) else { return };
            let answer = http.patch(&id, &change).await;
            (id, answer, 200)
        }
        Edit::Delete { pick } => {
            let Some(id) = pick_id(pick) else { return };
            known.deleting.lock().unwrap().insert(id.clone());
            let answer = http.delete(&id).await;
            (id, answer, 204)
        }
    };
    if answer.status == 404 {
        // Another request may observe a deletion before the deletion's own request is acknowledged. So this rules out that
        // a comment is missing whose deletion nobody has requested. At the end, the test compares the table with the
        // acknowledged state.
        assert!(known.deleting.lock().unwrap().contains(&id), "nobody has deleted it: {answer:?}");
    } else {
        known.keep(id, answer.expect(status));
    }
}

impl Known {
    /// Answers about one comment may arrive in a different order than its writes happened. The revision gives the order.
    fn keep(&self, id: String, state: Value) {
        let mut states = self.states.lock().unwrap();
        let is_newer = states.get(&id).is_none_or(|present| {
            !present.is_null() && (state.is_null() || present["revision"].as_str() < state["revision"].as_str())
        });
        if is_newer {
            states.insert(id, state);
        }
    }
}

/// Asserts that the journal holds every change of every comment: each entry continues where the previous one ended. It also
/// holds reports.
async fn assert_unbroken_journal(running: &Running, comments: &[Comment], reports_max: usize) {
    let mut journal = journal(running.stack.table()).await;
    let passed = running.stack.mapping_states().map(|state| state.journal_entries);
    assert_eq!(passed, [journal.len() as u64; 2], "the mappings have counted all of them");
    let reports = journal.extract_if(.., |entry| entry.is_report).count();
    assert!((1..=reports_max).contains(&reports), "{reports}");
    let mut by_id = journal.into_iter().map(|entry| (entry.id.clone(), entry)).into_group_map();
    for entries in by_id.values_mut() {
        entries.sort_by_key(|entry| entry.revision);
        assert_eq!(entries[0].before, None, "{entries:?}");
        assert!(entries.iter().tuple_windows().all(|(a, b)| a.after.is_some() && a.after == b.before), "{entries:?}");
    }
    for comment in comments {
        let last = by_id.remove(&comment.id).and_then(|mut entries| entries.pop()).unwrap();
        assert_eq!((last.revision, last.after), (comment.revision, Some(comment.placement())));
    }
    for (id, entries) in by_id {
        assert_eq!(entries.last().unwrap().after, None, "{id} is gone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_concurrent_edits_leave_exactly_what_was_acknowledged() {
    let mut random = StdRng::seed_from_u64(21);
    let mut running = Running::start().await;
    let (edit_count, comment_count) = edits_and_comments();
    let before = reviews::reviews(comment_count).into_iter().sample(&mut random, comment_count);
    running.import(&before).await;
    let http = running.http.clone();
    let known = Known::default();
    for comment in &before {
        let state = http.get(&format!("/api/v1/comments/{}", comment.id)).await.expect(200);
        known.keep(comment.id.to_string(), state);
    }

    let edits = stream::iter(edits(&mut random, edit_count));
    let edits = edits.for_each_concurrent(CONCURRENCY, |edit| make(&http, &known, edit));
    // Reports of readers change nothing, also when they meet a change of their millisecond.
    let reports = async {
        for NewComment { id, product, .. } in &before {
            running.stack.table().report(id, &Filter::ANY.placement_in(product)).await.unwrap();
        }
    };
    tokio::join!(edits, reports);
    let contents = running.assert_invariants().await;

    // No acknowledged comment is lost, no deleted one is back, and each has its last acknowledged state.
    let mut expected = known.states.into_inner().unwrap();
    expected.retain(|_, state| !state.is_null());
    let comments = contents.comments();
    let ids = comments.iter().map(|comment| comment.id.to_string()).sorted();
    assert_eq!(ids.collect_vec(), expected.keys().cloned().collect_vec());
    for comment in &comments {
        let state = &expected[comment.id.as_str()];
        assert_eq!(state["revision"], comment.revision.to_string(), "{state}");
        assert_eq!(state["rating"], comment.rating.get());
        assert_eq!(state["language"], comment.language.as_str());
        assert_eq!(state["body"], comment.text.body.as_str());
    }

    assert_unbroken_journal(&running, &comments, before.len()).await;

    running.finish().await;
}
