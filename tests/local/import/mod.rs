//! An import takes valid lines, names invalid ones, and changes nothing when it is repeated.

mod foreign;
mod process;

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use itertools::Itertools;
use local_stack::import::{
    ImportOptions, ImportReport, ImportSource, ReadingArgs, import, to_line,
};
use model::{AuthorId, Comment, CommentAttributes, CommentId, CommentText, SiteData};
use serde_json::{Value, json};
use table::{NewComment, Table, TableConfig};
use tempfile::NamedTempFile;

use crate::fixture::{
    data::{self, body, product},
    gate::{self, Gate},
    invariants::{self, Contents},
    reviews,
    stores::Stores,
};

fn line(comment: &NewComment) -> Value {
    json!({
        "id": comment.id,
        "product": comment.product,
        "language": comment.language,
        "rating": comment.rating,
        "created_at": comment.created_at,
        "title": comment.text.title,
        "body": comment.text.body,
        "author": comment.text.author,
        "status": comment.status,
    })
}

fn lines(comments: &[NewComment]) -> String {
    comments
        .iter()
        .map(|comment| format!("{}\n", line(comment)))
        .collect()
}

/// The outcome of an import to its end.
async fn imported(
    stores: &Stores,
    content: impl AsRef<[u8]>,
    options: &ImportOptions,
) -> ImportReport {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(content.as_ref()).unwrap();
    let source = ImportSource::open(file.path(), &ReadingArgs::default()).unwrap();
    let (report, ended) = import(&stores.table, source, options).await;
    ended.map(|()| report).unwrap()
}

fn creating() -> ImportOptions {
    ImportOptions::default()
}

fn updating() -> ImportOptions {
    ImportOptions {
        update: true,
        ..ImportOptions::default()
    }
}

fn some_comments(count: usize) -> Vec<NewComment> {
    data::generated_comments(count.try_into().unwrap())
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// The first two thirds of a compressed file.
fn cut_off_gzip(content: &str) -> Vec<u8> {
    let mut compressed = gzip(content.as_bytes());
    compressed.truncate(compressed.len() * 2 / 3);
    compressed
}

async fn all_items(stores: &Stores) -> Vec<String> {
    let items = invariants::all_items(&stores.table).await;
    items
        .iter()
        .map(|item| serde_json::to_value(item).unwrap().to_string())
        .sorted()
        .collect()
}

#[tokio::test]
async fn the_same_file_again_changes_nothing() {
    let stores = Stores::start().await;
    // A third of a sample: fewer on DynamoDB Local, which takes long to write their items.
    let count = 150.min(reviews::sample_size() / 3);
    let comments = some_comments(count);
    let content = lines(&comments);
    let first = imported(&stores, &content, &creating()).await;
    assert_eq!(first.created, count as u64, "{first:?}");
    assert_eq!(first.unchanged, 0, "{first:?}");
    assert_eq!(first.differing, 0, "{first:?}");
    assert_eq!(first.bad, 0, "{first:?}");
    stores.deliver_all().await;
    let before = all_items(&stores).await;
    assert_eq!(
        before.len(),
        count * (32 + 1),
        "32 items and a journal entry each"
    );

    // Import again: plain, compressed, and with other line ends in a different order.
    let shuffled: String = content
        .lines()
        .rev()
        .map(|line| format!("\n{line}\r\n"))
        .collect();
    for again in [
        content.as_bytes().to_vec(),
        gzip(content.as_bytes()),
        shuffled.into_bytes(),
    ] {
        let second = imported(&stores, &again, &creating()).await;
        assert_eq!(second.created, 0, "{second:?}");
        assert_eq!(second.unchanged, count as u64, "{second:?}");
        assert_eq!(second.differing, 0, "{second:?}");
        assert_eq!(second.bad, 0, "{second:?}");
    }
    assert_eq!(all_items(&stores).await, before);

    let kept = Contents::read(&stores.table).await.comments();
    for comment in &comments {
        let found = kept.iter().find(|kept| kept.id == comment.id).unwrap();
        assert_eq!(found.product, comment.product);
        assert_eq!(found.created_at, comment.created_at);
        assert_eq!(found.text, comment.text);
    }
    stores.finish().await;
}

#[tokio::test]
async fn a_second_product_for_one_id_and_a_date_ahead_are_refused_and_a_differing_comment_is_kept()
{
    let stores = Stores::start().await;
    let comments = some_comments(2);
    imported(&stores, lines(&comments), &creating()).await;
    stores.deliver_all().await;
    let before = all_items(&stores).await;

    let mut elsewhere = line(&comments[0]);
    elsewhere["product"] = "another/product".into();
    let mut changed = line(&comments[1]);
    changed["body"] = "Something else".into();
    let mut ahead = line(&comments[1]);
    (ahead["id"], ahead["created_at"]) = ("ahead".into(), "2999-01-01T00:00:00Z".into());
    let report = imported(
        &stores,
        format!("{elsewhere}\n{changed}\n{ahead}\n"),
        &creating(),
    )
    .await;
    assert_eq!(report.created, 0, "{report:?}");
    assert_eq!(report.differing, 1, "{report:?}");
    assert_eq!(report.bad, 2, "{report:?}");
    assert_eq!(
        [report.mistakes[0].number, report.mistakes[1].number],
        [1, 3]
    );
    assert!(
        report.mistakes[0]
            .reason
            .contains(comments[0].product.as_str()),
        "{report:?}"
    );
    assert!(
        report.mistakes[1].reason.contains("ahead of the present"),
        "{report:?}"
    );
    assert_eq!(all_items(&stores).await, before);

    // This also holds when both lines are in one file and the table has neither.
    let mut twice = [line(&comments[0]), line(&comments[0])];
    for (number, line) in twice.iter_mut().enumerate() {
        line["id"] = "twice".into();
        line["product"] = format!("product {number}").into();
    }
    let report = imported(
        &stores,
        format!("{}\n{}\n", twice[0], twice[1]),
        &creating(),
    )
    .await;
    assert_eq!(report.created, 1, "{report:?}");
    assert_eq!(report.bad, 1, "{report:?}");
    assert_eq!(report.mistakes[0].number, 2, "{report:?}");
    stores.finish().await;
}

#[tokio::test]
async fn an_update_changes_what_differs_and_refuses_what_never_changes() {
    let stores = Stores::start().await;
    let comments = some_comments(6);
    imported(&stores, lines(&comments), &creating()).await;
    let before = Contents::read(&stores.table).await.comments();
    let mut lines: Vec<Value> = comments.iter().map(line).collect();
    lines[1]["body"] = "Something else".into();
    lines[2]["title"] = "A title".into();
    lines[2]["rating"] = json!(if comments[2].rating.get() == 1 { 2 } else { 1 });
    lines[2]["language"] = "xx".into();
    lines[3]["created_at"] = "2001-01-01T00:00:00.000Z".into();
    lines[4]["product"] = "another/product".into();
    lines[5]["author"] = if comments[5].text.author.is_none() {
        "Someone".into()
    } else {
        Value::Null
    };
    lines[5]["title"] = Value::Null;
    let content: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let report = imported(&stores, &content, &updating()).await;
    assert_eq!(report.created, 0, "{report:?}");
    assert_eq!(report.unchanged, 1, "{report:?}");
    assert_eq!(report.updated, 3, "{report:?}");
    assert_eq!(report.bad, 2, "{report:?}");
    let reasons: Vec<&str> = report
        .mistakes
        .iter()
        .map(|line| line.reason.as_str())
        .collect();
    assert!(
        reasons[0].contains("created_at: ") && reasons[0].contains("which never changes"),
        "{reasons:?}"
    );
    assert!(
        reasons[1].contains("is in use by a comment of product"),
        "{reasons:?}"
    );
    let after = Contents::read(&stores.table).await.comments();
    let find = |all: &[Comment], id: &CommentId| {
        all.iter()
            .find(|comment| comment.id == *id)
            .unwrap()
            .clone()
    };
    for (number, imported) in comments.iter().enumerate() {
        let (before, after) = (find(&before, &imported.id), find(&after, &imported.id));
        assert_eq!(
            before == after,
            ![1, 2, 5].contains(&number),
            "{number}: {before:?} {after:?}"
        );
        let mut shown = if before == after {
            line(imported)
        } else {
            lines[number].clone()
        };
        shown["status"] = "published".into();
        shown["attributes"] = Value::Null;
        shown["author_id"] = Value::Null;
        assert_eq!(to_line(after).unwrap().parse::<Value>().unwrap(), shown);
    }
    // Again, there is nothing left to change.
    let report = imported(&stores, &content, &updating()).await;
    assert_eq!(report.unchanged, 4, "{report:?}");
    assert_eq!(report.updated, 0, "{report:?}");
    assert_eq!(report.bad, 2, "{report:?}");
    stores.finish().await;
}

#[tokio::test]
async fn an_update_leaves_what_a_row_does_not_name_and_empties_what_it_names_as_empty() {
    let stores = Stores::start().await;
    let text = |name: &str| Some(name.to_owned());
    let whole = NewComment {
        text: CommentText::new(text("Title"), "Body".to_owned(), text("Author")).unwrap(),
        site: SiteData {
            attributes: Some(CommentAttributes::parse(r#"{"verified":true}"#).unwrap()),
            author_id: Some(AuthorId::parse("customer-17").unwrap()),
        },
        ..some_comments(1).remove(0)
    };
    stores
        .table
        .create_comment(whole.clone(), None)
        .await
        .unwrap();
    let optional = ["title", "author", "attributes", "author_id", "status"];
    let mut row = line(&whole);
    row["body"] = "Another".into();
    let fields = row.as_object_mut().unwrap();
    optional
        .iter()
        .for_each(|field| drop(fields.remove(*field)));
    let report = imported(&stores, row.to_string(), &updating()).await;
    assert_eq!(report.updated, 1, "{report:?}");
    assert_eq!(report.bad, 0, "{report:?}");
    let kept = stores.table.comment(&whole.id).await.unwrap().unwrap();
    let expected = CommentText {
        body: "Another".to_owned(),
        ..whole.text.clone()
    };
    assert_eq!(kept.text, expected);
    assert_eq!(kept.site, whole.site);

    optional.iter().for_each(|field| row[*field] = Value::Null);
    for dry_run in [true, false] {
        let options = ImportOptions {
            dry_run,
            ..updating()
        };
        let report = imported(&stores, row.to_string(), &options).await;
        assert_eq!(report.updated, 1, "{report:?}");
        assert_eq!(report.emptied, 4, "{report:?}");
        assert_eq!(report.bad, 0, "{report:?}");
    }
    let emptied = stores.table.comment(&whole.id).await.unwrap().unwrap();
    assert_eq!(emptied.text, body("Another"));
    assert_eq!(emptied.site, SiteData::default());
    stores.deliver_all().await;
    stores.finish().await;
}

#[tokio::test]
async fn an_update_does_not_change_a_comment_that_took_the_id_meanwhile() {
    let stores = Stores::start().await;
    let mut comment = some_comments(1).remove(0);
    imported(&stores, lines(std::slice::from_ref(&comment)), &creating()).await;
    comment.text = body("Something else");
    let gate = Gate::holding(&stores.engine_url(), gate::COMMENTS, 1).await;
    let table = Table::connect(&TableConfig::new(
        stores.table.name(),
        Some(gate.url.clone()),
    ))
    .await;
    // The import has read the comment; the gate holds what it does then.
    let source = ImportSource::of_comments(vec![comment.clone()]);
    let options = updating();
    let update = import(&table, source, &options);
    let elsewhere = NewComment {
        product: product("another/product"),
        ..some_comments(1).remove(0)
    };
    let meanwhile = async {
        gate.wait_until_holding("the change of the comment").await;
        stores
            .table
            .delete_comment(&comment.id, |_| true)
            .await
            .unwrap();
        stores
            .table
            .create_comment(elsewhere.clone(), None)
            .await
            .unwrap();
        gate.open();
    };
    let ((report, ended), ()) = tokio::join!(update, meanwhile);
    ended.unwrap();
    assert_eq!(report.updated, 0, "{report:?}");
    assert_eq!(report.bad, 1, "{report:?}");
    assert!(
        report.mistakes[0].reason.contains("another/product"),
        "{report:?}"
    );
    let kept = stores.table.comment(&comment.id).await.unwrap().unwrap();
    assert_eq!(kept.product, elsewhere.product);
    assert_eq!(kept.text, elsewhere.text);
    stores.deliver_all().await;
    stores.finish().await;
}
