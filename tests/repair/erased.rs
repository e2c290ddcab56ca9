//! `erase` deletes all comments of an author, also after it was killed at any of its writes. Server: the killed process
//! needs an index outside of it.

use model::{AuthorId, CommentId, item::attribute};
use repair_job::exit;
use serde_json::Value;
use table::{NewComment, Table};

use super::{
    job,
    process::{kill_at, run},
    product,
};
use crate::fixture::{
    data,
    gate::{self, Gate},
    invariants::{all_items, text},
    stores::Stores,
};

const AUTHOR: &str = "user 7/é";

const COMMENTS: u64 = 5;

fn author(id: &str) -> AuthorId {
    AuthorId::parse(id).unwrap()
}

async fn create(table: &Table, run: u64) {
    for number in run * 2 * COMMENTS..(run + 1) * 2 * COMMENTS {
        let mut comment = data::varied_comment(number);
        comment.site.author_id = [Some(author(AUTHOR)), None, Some(author(AUTHOR)), Some(author("user 7"))]
            [usize::try_from(number % 4).unwrap()]
        .clone();
        table.create_comment(NewComment { product: product(number), ..comment }, None).await.unwrap();
    }
}

/// The comments of which the table still has items, primary or duplicates, and those that are still the author's.
async fn left(table: &Table) -> (usize, Vec<String>) {
    let items = all_items(table).await;
    let primary = |item: &&serde_dynamo::Item| item.contains_key(attribute::PCD);
    let of_author = |item: &&serde_dynamo::Item| {
        item.contains_key(attribute::AUTHOR_ID) && text(item, attribute::AUTHOR_ID) == AUTHOR
    };
    let comments = items.iter().filter(primary);
    (comments.clone().count(), comments.filter(of_author).map(|item| text(item, attribute::PK)).collect())
}

#[tokio::test]
async fn an_erasure_that_was_killed_is_completed_and_leaves_nothing_of_the_author() {
    let stores = Stores::start_ready_with_redis().await;
    let deletions = Gate::start(&stores.engine_url(), gate::TRANSACTIONS).await;
    let arguments = ["erase", "--apply", "--json", "--author", AUTHOR];
    for run in 0..3 {
        create(&stores.table, run).await;
        stores.deliver_all().await;
        let through = [("PAGEMARK_DYNAMODB_URL", &*deletions.url)];
        let is_killed = kill_at(&stores, &through, &deletions, 1 + usize::try_from(run).unwrap(), &arguments).await;
        assert!(is_killed, "it ended before its deletions");
    }
    let (comments, of_author) = left(&stores.table).await;
    assert!(!of_author.is_empty(), "a killed run leaves some");

    // Looking changes nothing, and says what is there.
    let dry = job(&stores, false).erase(&author(AUTHOR)).await;
    assert_eq!((dry.found, dry.deleted, dry.left), (of_author.len() as u64, 0, of_author.len() as u64), "{dry}");
    assert_eq!(left(&stores.table).await.1, of_author);

    stores.deliver_all().await;
    let report = run(&stores, &arguments).await.expect(exit::DRIFT_FOUND).json();
    assert_eq!((&report["deleted"], &report["left"]), (&of_author.len().into(), &0.into()), "{report}");
    stores.deliver_all().await;
    assert_eq!(left(&stores.table).await, (comments - of_author.len(), Vec::new()));
    for id in &of_author {
        let id = CommentId::parse(id.strip_prefix("COMMENT#").unwrap()).unwrap();
        assert_eq!(stores.table.items_of(&id).await.unwrap(), [], "no duplicate is left");
    }
    let again = job(&stores, true).erase(&author(AUTHOR)).await;
    assert_eq!((again.found, again.exit_code()), (0, 0));
    // The fixture's end checks that the page index and all other comments are as they must be.
    stores.finish().await;
}

#[tokio::test]
async fn an_erasure_names_what_it_cannot_delete_and_what_it_does_not_reach() {
    let stores = Stores::start_ready().await;
    create(&stores.table, 0).await;
    let (_, of_author) = left(&stores.table).await;
    // Another tool breaks one of the comments.
    let id = CommentId::parse(of_author[0].strip_prefix("COMMENT#").unwrap()).unwrap();
    let right = stores.table.primary_item(&id).await.unwrap().unwrap();
    let mut broken = right.clone().into_inner();
    broken.remove("comment_blob");
    stores.put_raw(broken.into()).await;
    let erasure = job(&stores, true).erase(&author(AUTHOR)).await;
    let expected = (of_author.len() as u64, of_author.len() as u64 - 1, 1);
    assert_eq!((erasure.found, erasure.deleted, erasure.left), expected, "{erasure}");
    assert_eq!(erasure.exit_code(), exit::DRIFT_FOUND | exit::DRIFT_LEFT | exit::UNRESOLVED);
    let report = erasure.to_string();
    assert!(report.contains(id.as_str()) && report.contains("comment_blob"), "{report}");
    for place in ["backups", "point-in-time recovery", "quarantine", "idempotency", "journal", "logs"] {
        assert!(report.contains(place), "{place}: {report}");
    }
    let json: Value = serde_json::to_value(&erasure).unwrap();
    assert!(json["beyond"].as_array().unwrap().iter().all(|beyond| beyond["until"].is_string()), "{json}");
    // Corrected, it goes too.
    stores.put_raw(right).await;
    assert_eq!(job(&stores, true).erase(&author(AUTHOR)).await.deleted, 1);
    stores.finish().await;
}
