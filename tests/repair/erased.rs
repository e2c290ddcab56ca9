//! `erase` deletes all comments of an author, also those that readers do not see.

use model::{AuthorId, CommentId, Status, item::attribute};
use repair_job::exit;
use table::{NewComment, Table};

use super::{job, product};
use crate::fixture::{
    data,
    invariants::{all_items, text},
    stores::Stores,
};

const AUTHOR: &str = "user 7/é";

const COMMENTS: u64 = 5;

async fn create(table: &Table) {
    for number in 0..2 * COMMENTS {
        let mut comment = data::varied_comment(number);
        comment.status = (number % 4 == 2).then_some(Status::Hidden);
        let author = [Some(AUTHOR), None, Some(AUTHOR), Some("user 7")]
            [usize::try_from(number % 4).unwrap()];
        comment.site.author_id = author.map(|id| AuthorId::parse(id).unwrap());
        table
            .create_comment(
                NewComment {
                    product: product(number),
                    ..comment
                },
                None,
            )
            .await
            .unwrap();
    }
}

/// The comments that are still the author's.
async fn left(table: &Table) -> Vec<String> {
    let items = all_items(table).await;
    let of_author = |item: &&serde_dynamo::Item| {
        item.contains_key(attribute::AUTHOR_ID) && text(item, attribute::AUTHOR_ID) == AUTHOR
    };
    items
        .iter()
        .filter(of_author)
        .map(|item| text(item, attribute::PK))
        .collect()
}

#[tokio::test]
async fn an_erasure_names_what_it_cannot_delete() {
    let (stores, author) = (
        Stores::start_ready().await,
        AuthorId::parse(AUTHOR).unwrap(),
    );
    create(&stores.table).await;
    let of_author = left(&stores.table).await;
    // Looking changes nothing, and says what is there.
    let dry = job(&stores, false).erase(&author).await;
    assert_eq!(
        (dry.checked, dry.repaired, dry.left),
        (of_author.len() as u64, 0, of_author.len() as u64),
        "{dry}"
    );
    assert_eq!(dry.exit_code(), exit::DRIFT_FOUND | exit::DRIFT_LEFT);
    assert_eq!(left(&stores.table).await, of_author);
    // Another tool breaks one of the comments.
    let id = CommentId::parse(of_author[0].strip_prefix("COMMENT#").unwrap()).unwrap();
    let right = stores.table.primary_item(&id).await.unwrap().unwrap();
    let mut broken = right.clone().into_inner();
    broken.remove("comment_blob");
    stores.put_raw(broken.into()).await;
    let erasure = job(&stores, true).erase(&author).await;
    let deleted = of_author.len() as u64 - 1;
    let counts = (
        erasure.checked,
        erasure.repaired,
        erasure.left,
        erasure.unresolved_count,
    );
    assert_eq!(counts, (deleted, deleted, 0, 1), "{erasure}");
    assert_eq!(erasure.exit_code(), exit::DRIFT_FOUND | exit::UNRESOLVED);
    let report = erasure.to_string();
    assert!(
        report.contains(id.as_str()) && report.contains("comment_blob"),
        "{report}"
    );
    assert!(
        report.contains(&format!("{deleted} comments of the author deleted")),
        "{report}"
    );
    // Corrected, it goes too.
    stores.put_raw(right).await;
    assert_eq!(job(&stores, true).erase(&author).await.repaired, 1);
    assert_eq!(left(&stores.table).await, Vec::<String>::new());
    stores.finish().await;
}
