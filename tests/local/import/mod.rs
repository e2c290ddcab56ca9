//! An import takes valid lines, names invalid ones, and changes nothing when it is repeated.

mod foreign;
mod process;

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use local_stack::import::{
    EarlierRows, ImportOptions, ImportReport, ImportSource, ReadingArgs, import, to_line,
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

const _: crate::Engines = crate::Engines::Both;

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
    let (report, ended) = import(
        &stores.table,
        source,
        options,
        &mut EarlierRows::new().unwrap(),
    )
    .await;
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
    let mut items = Vec::new();
    for item in invariants::all_items(&stores.table).await {
        items.push(serde_json::to_value(item).unwrap().to_string());
    }
    items.sort();
    items
}

#[tokio::test]
async fn the_same_file_again_changes_nothing() {
    let stores = Stores::start().await;
    // A third of a sample: fewer on ministack, which takes long to write their items.
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
    let mut reversed = String::new();
    for line in content.lines().rev() {
        reversed.push_str(&format!("\n{line}\r\n"));
    }
    for again in [
        content.as_bytes().to_vec(),
        gzip(content.as_bytes()),
        reversed.into_bytes(),
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
async fn another_review_of_an_id_and_a_date_ahead_are_refused() {
    let stores = Stores::start().await;
    let comments = some_comments(2);
    imported(&stores, lines(&comments), &creating()).await;
    stores.deliver_all().await;
    let before = all_items(&stores).await;

    let mut elsewhere = line(&comments[0]);
    elsewhere["product"] = "another/product".into();
    let mut changed = line(&comments[1]);
    changed["rating"] = (comments[1].rating.get() % 5 + 1).into();
    let mut ahead = line(&comments[1]);
    ahead["id"] = "ahead".into();
    ahead["created_at"] = "2999-01-01T00:00:00Z".into();
    let mut rows = vec![elsewhere, changed, ahead];
    for (field, value) in OF_ANOTHER_REVIEW {
        let mut other = line(&comments[1]);
        other[field] = value.into();
        rows.push(other);
    }
    let content: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let report = imported(&stores, content, &creating()).await;
    assert_eq!(report.created, 0, "{report:?}");
    assert_eq!(report.differing, 1, "{report:?}");
    assert_eq!(report.bad, 6, "{report:?}");
    for (mistake, number, why) in [
        (&report.mistakes[0], 1, comments[0].product.as_str()),
        (&report.mistakes[1], 3, "ahead of the present"),
        (&report.mistakes[2], 4, "with another created_at"),
        (&report.mistakes[3], 5, "with another author"),
        (&report.mistakes[4], 6, "with another title"),
        (&report.mistakes[5], 7, "with another body"),
    ] {
        assert_eq!(mistake.number, number);
        assert!(mistake.reason.contains(why), "{report:?}");
    }
    // The comment that differs is kept.
    assert_eq!(all_items(&stores).await, before);

    stores.finish().await;
}

/// Values of fields by which a row is another review.
const OF_ANOTHER_REVIEW: [(&str, &str); 4] = [
    ("created_at", "2001-01-01T00:00:00Z"),
    ("author", "Another author"),
    ("title", "Another title"),
    ("body", "Another body"),
];

/// Files with ids that repeat, of comments of which the table has the first ones.
fn files_with_repeated_ids(comments: &[NewComment]) -> Vec<String> {
    let mut changes: Vec<(&str, Value)> = vec![
        ("product", "another/product".into()),
        ("rating", 1.into()),
        ("rating", 5.into()),
        ("status", "hidden".into()),
        ("attributes", json!({"verified": true})),
        ("author", Value::Null),
        ("id", " ".into()),
    ];
    for (field, value) in OF_ANOTHER_REVIEW {
        changes.push((field, value.into()));
    }
    let mut files = Vec::new();
    for comment in comments {
        let same = line(comment);
        files.push(format!("{same}\n{same}\n"));
        for (field, value) in &changes {
            let mut other = same.clone();
            other[*field] = value.clone();
            files.push(format!("{same}\n{other}\n{same}\n{other}\n{other}\n"));
        }
    }
    files
}

#[tokio::test]
async fn a_dry_run_of_repeated_ids_reports_what_the_import_does() {
    let stores = Stores::start().await;
    let comments = some_comments(2);
    for update in [false, true] {
        for content in files_with_repeated_ids(&comments) {
            let dry_run = ImportOptions {
                update,
                dry_run: true,
                ..ImportOptions::default()
            };
            let options = ImportOptions {
                dry_run: false,
                ..dry_run.clone()
            };
            imported(&stores, lines(&comments[..1]), &options).await;
            let expected = imported(&stores, &content, &dry_run).await;
            let found = imported(&stores, &content, &options).await;
            assert_eq!(found, expected, "{content}");
            let total = found.created + found.repeated + found.unchanged + found.differing;
            let rows = content.lines().count() as u64;
            assert_eq!(total + found.updated + found.bad, rows, "{found:?}");
            for comment in &comments {
                let removed = stores.table.delete_comment(&comment.id, |_| true).await;
                removed.ok();
            }
            stores.deliver_all().await;
        }
    }
    stores.finish().await;
}

#[tokio::test]
async fn a_second_review_of_an_id_in_one_file_is_refused_and_the_same_row_again_is_counted() {
    let stores = Stores::start().await;
    let comments = some_comments(1);
    let first = line(&comments[0]);
    let content = format!("{first}\n{first}\n");
    let report = imported(&stores, content, &creating()).await;
    assert_eq!((report.created, report.repeated), (1, 1), "{report:?}");
    assert_eq!(report.bad, 0, "{report:?}");
    for (field, value) in [
        ("rating", Value::from(comments[0].rating.get() % 5 + 1)),
        ("product", "another/product".into()),
        ("body", "Another body".into()),
    ] {
        let mut other = first.clone();
        other[field] = value;
        let content = format!("{first}\n{other}\n");
        let report = imported(&stores, content, &creating()).await;
        assert_eq!((report.unchanged, report.bad), (1, 1), "{report:?}");
        let mistake = &report.mistakes[0];
        assert_eq!(mistake.number, 2, "{report:?}");
        assert!(mistake.reason.contains("in line 1"), "{report:?}");
    }
    stores.deliver_all().await;
    stores.finish().await;
}

/// Products' records of which a file names one twice.
#[tokio::test]
async fn a_second_record_of_a_product_in_one_file_is_refused() {
    let stores = Stores::start().await;
    let content = r#"{"product":"p","name":"One"}
{"product":"p","name":"One"}
{"product":"p","name":"Two"}
"#;
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    for dry_run in [true, false] {
        let options = ImportOptions {
            dry_run,
            ..ImportOptions::default()
        };
        let source = ImportSource::of_products(file.path()).unwrap();
        let mut earlier = EarlierRows::new().unwrap();
        let (report, ended) = import(&stores.table, source, &options, &mut earlier).await;
        ended.unwrap();
        assert_eq!((report.created, report.repeated), (1, 1), "{report:?}");
        assert_eq!(report.mistakes[0].number, 3, "{report:?}");
        assert!(
            report.mistakes[0].reason.contains("in line 2"),
            "{report:?}"
        );
    }
    stores.finish().await;
}

fn with_id<'all>(comments: &'all [Comment], id: &CommentId) -> &'all Comment {
    let found = comments.iter().find(|comment| comment.id == *id);
    found.unwrap()
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
    let other_time = report.mistakes[0].reason.as_str();
    assert!(other_time.contains("created_at: "), "{other_time}");
    assert!(other_time.contains("which never changes"), "{other_time}");
    let other_product = report.mistakes[1].reason.as_str();
    assert!(
        other_product.contains("is in use by a comment of product"),
        "{other_product}"
    );
    let after = Contents::read(&stores.table).await.comments();
    for (number, imported) in comments.iter().enumerate() {
        let before = with_id(&before, &imported.id);
        let after = with_id(&after, &imported.id);
        let is_changed = [1, 2, 5].contains(&number);
        assert_eq!(
            before != after,
            is_changed,
            "{number}: {before:?} {after:?}"
        );
        let mut expected = if is_changed {
            lines[number].clone()
        } else {
            line(imported)
        };
        expected["status"] = "published".into();
        expected["attributes"] = Value::Null;
        expected["author_id"] = Value::Null;
        let exported: Value = to_line(after.clone()).unwrap().parse().unwrap();
        assert_eq!(exported, expected);
    }
    // Again, there is nothing more to change.
    let report = imported(&stores, &content, &updating()).await;
    assert_eq!(report.unchanged, 4, "{report:?}");
    assert_eq!(report.updated, 0, "{report:?}");
    assert_eq!(report.bad, 2, "{report:?}");
    stores.finish().await;
}

#[tokio::test]
async fn an_update_leaves_what_a_row_does_not_name_and_empties_what_it_names_as_empty() {
    let stores = Stores::start().await;
    let whole = NewComment {
        text: CommentText {
            title: Some("Title".to_owned()),
            author: Some("Author".to_owned()),
            ..body("Body")
        },
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
    for field in optional {
        fields.remove(field);
    }
    let report = imported(&stores, row.to_string(), &updating()).await;
    assert_eq!(report.updated, 1, "{report:?}");
    assert_eq!(report.bad, 0, "{report:?}");
    let kept = stores.table.comment(&whole.id).await.unwrap().unwrap();
    let expected = CommentText {
        body: Some("Another".to_owned()),
        ..whole.text.clone()
    };
    assert_eq!(kept.text, expected);
    assert_eq!(kept.site, whole.site);

    for field in optional {
        row[field] = Value::Null;
    }
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
    let through_gate = TableConfig::new(stores.table.name(), Some(gate.url.clone()));
    let table = Table::connect(&through_gate).await;
    // The import has read the comment; the gate holds what it does then.
    let source = ImportSource::of_comments(vec![comment.clone()]);
    let options = updating();
    let mut earlier = EarlierRows::new().unwrap();
    let update = import(&table, source, &options, &mut earlier);
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
