//! `erase` deletes all comments of an author, also those that readers do not see.

use model::{AuthorId, CommentId, Status, item::attribute};
use repair_job::exit;
use table::Table;

use super::{job, product};
use crate::fixture::{
    data,
    invariants::{all_items, text},
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

const AUTHOR: &str = "user 7/é";

const COMMENTS: u64 = 5;

async fn create(table: &Table) {
    for number in 0..2 * COMMENTS {
        let author = match number % 4 {
            0 | 2 => Some(AUTHOR),
            1 => None,
            _ => Some("user 7"),
        };
        let mut comment = data::varied_comment(number);
        comment.product = product(number);
        comment.site.author_id = author.map(|id| AuthorId::parse(id).unwrap());
        if number % 4 == 2 {
            comment.status = Some(Status::Hidden);
        }
        table.create_comment(comment, None).await.unwrap();
    }
}

/// The keys of the comments that are still the author's.
async fn comments_of_author(table: &Table) -> Vec<String> {
    let mut items = all_items(table).await;
    items.retain(|item| {
        item.contains_key(attribute::AUTHOR_ID) && text(item, attribute::AUTHOR_ID) == AUTHOR
    });
    items.iter().map(|item| text(item, attribute::PK)).collect()
}

#[tokio::test]
async fn an_erasure_names_what_it_cannot_delete() {
    let stores = Stores::start_ready().await;
    let author = AuthorId::parse(AUTHOR).unwrap();
    create(&stores.table).await;
    let of_author = comments_of_author(&stores.table).await;
    // Looking changes nothing, and says what is there.
    let dry = job(&stores, false).erase(&author).await;
    let count = of_author.len() as u64;
    assert_eq!(
        (dry.checked, dry.repaired, dry.left),
        (count, 0, count),
        "{dry}"
    );
    assert_eq!(dry.exit_code(), exit::DRIFT_FOUND | exit::DRIFT_LEFT);
    let said = dry.to_string();
    assert!(
        said.contains(&format!("{count} comments of the author would be deleted")),
        "{said}"
    );
    assert!(
        said.contains("by the table's indexes, which no audit has compared"),
        "{said}"
    );
    assert_eq!(comments_of_author(&stores.table).await, of_author);
    // Another tool breaks one of the comments.
    let id = CommentId::parse(of_author[0].strip_prefix("COMMENT#").unwrap()).unwrap();
    let right = stores.table.primary_item(&id).await.unwrap().unwrap();
    let mut broken = right.clone().into_inner();
    broken.remove("comment_blob");
    stores.put_raw(broken.into()).await;
    let erasure = job(&stores, true).erase(&author).await;
    let deleted = count - 1;
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
    assert_eq!(
        comments_of_author(&stores.table).await,
        Vec::<String>::new()
    );
    stores.finish().await;
}

/// Two sign-ins of one person, whose ids a site took from two forms.
#[tokio::test]
async fn an_erasure_names_other_spellings_of_the_id_and_leaves_their_comments() {
    let stores = Stores::start_ready().await;
    for (number, author) in ["ann@x.org", "Ann@X.org", "ANN@X.ORG", "anna@x.org"]
        .into_iter()
        .enumerate()
    {
        let mut comment = data::varied_comment(number as u64);
        comment.product = product(number as u64);
        comment.site.author_id = Some(AuthorId::parse(author).unwrap());
        stores.table.create_comment(comment, None).await.unwrap();
    }
    let author = AuthorId::parse("Ann@X.org").unwrap();
    for apply in [false, true] {
        let report = job(&stores, apply).erase(&author).await;
        assert_eq!(report.checked, 1, "{report}");
        let text = report.to_string();
        for (id, is_named) in [
            ("ann@x.org", true),
            ("ANN@X.ORG", true),
            ("anna@x.org", false),
        ] {
            let note = format!("there are comments of \"{id}\"");
            assert_eq!(text.contains(&note), is_named, "{text}");
        }
    }
    for (id, count) in [("ann@x.org", 1), ("ANN@X.ORG", 1), ("Ann@X.org", 0)] {
        let id = AuthorId::parse(id).unwrap();
        let left = stores.table.comments_of_author(&id, None, 2).await.unwrap();
        assert_eq!(left.rows.len(), count, "{id}");
    }
    stores.finish().await;
}
