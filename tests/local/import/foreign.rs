//! Files of other programs: their columns, values and formats.

use std::path::Path;

use indicatif::HumanCount;
use model::Status;
use serde_json::{Map, Value, json};
use table::{NewComment, Table, TableConfig};
use tempfile::TempDir;

use super::{all_items, gzip, line, lines, process::write, some_comments};
use crate::fixture::{
    engine::delete_table,
    folder_in_memory, pagemark,
    program::{Ended, WHOLE_FILE_WITHIN},
    reviews,
    stores::Stores,
    unique_name,
};

async fn import(stores: &Stores, path: &Path, options: &[&str]) -> Ended {
    let (name, url) = (stores.table.name(), stores.engine_url());
    let place = [
        "import",
        path.to_str().unwrap(),
        "--table",
        name,
        "--dynamodb-url",
        &url,
    ];
    pagemark::run(&[&place, options].concat()).await
}

/// A comment as a row with the column names and dates of another program.
fn foreign(comment: &NewComment) -> Map<String, Value> {
    let row = json!({
        "number": comment.id,
        "sku": comment.product,
        "locale": comment.language,
        "score": comment.rating,
        "posted": comment.created_at.epoch_ms(),
        "headline": comment.text.title,
        "text": comment.text.body,
        "user": {"name": comment.text.author},
        "state": comment.status,
        "helpful": 3,
    });
    row.as_object().unwrap().clone()
}

const FOREIGN: [&str; 4] = [
    "--map=id=number,product=sku,language=locale,rating=score,created_at=posted,title=headline,body=text,status=state",
    "--map=author=user.name",
    "--date-format",
    "unix-ms",
];

/// A table whose columns have a separator between them.
fn separated(comments: &[NewComment], separator: u8) -> Vec<u8> {
    let mut table = csv::WriterBuilder::new()
        .delimiter(separator)
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    for (at, comment) in comments.iter().enumerate() {
        let mut row = foreign(comment);
        row.insert("user.name".to_owned(), comment.text.author.clone().into());
        row.remove("user");
        if at == 0 {
            table.write_record(row.keys()).unwrap();
        }
        let cell = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        table
            .write_record(row.values().map(|value| {
                if value.is_null() {
                    String::new()
                } else {
                    cell(value)
                }
            }))
            .unwrap();
    }
    table.into_inner().unwrap()
}

/// Imports into a new table of the same engine. Returns the outcome, and then the export of the
/// table.
async fn imported_anew(stores: &Stores, folder: &TempDir, source: &[&str]) -> (Ended, String) {
    let (url, name) = (stores.engine_url(), unique_name("new"));
    let table = Table::connect(&TableConfig::new(name.clone(), Some(url.clone()))).await;
    table.create_if_missing().await.unwrap();
    let place = ["--table", &name, "--dynamodb-url", &url];
    let run = async |command: &[&str]| {
        let program = pagemark::start(&[command, &place].concat()).await;
        program.end_within(WHOLE_FILE_WITHIN).await.expect(0)
    };
    let ended = run(&[&["import"], source].concat()).await;
    let output = folder.path().join("export");
    run(&["export", "--output", output.to_str().unwrap()]).await;
    delete_table(&table).await;
    (ended, std::fs::read_to_string(output).unwrap())
}

#[tokio::test]
async fn every_format_ends_in_the_same_export() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let mut comments = reviews::reviews(200);
    for (comment, status) in comments
        .iter_mut()
        .step_by(7)
        .zip(Status::UNPUBLISHED.into_iter().cycle())
    {
        comment.status = Some(status);
    }
    let count = HumanCount(u64::try_from(comments.len()).unwrap());
    let file =
        |name: &str, content: Vec<u8>| write(&folder, name, content).to_str().unwrap().to_owned();
    let own = file("own.jsonl", lines(&comments).into());
    let (ended, expected) = imported_anew(&stores, &folder, &[&own]).await;
    assert!(
        ended.stdout.contains(&format!("own.jsonl: {count} new")),
        "{ended:?}"
    );
    assert_eq!(expected.lines().count(), comments.len());
    let foreign_lines: String = comments
        .iter()
        .map(|comment| Value::from(foreign(comment)).to_string() + "\n")
        .collect();
    for (path, format) in [
        (file("foreign.jsonl", foreign_lines.into()), "json-lines"),
        (
            file("foreign.csv.gz", gzip(&separated(&comments, b','))),
            "csv",
        ),
        (
            file("foreign.txt", separated(&comments, b';')),
            "semicolons",
        ),
        (file("foreign.tsv", separated(&comments, b'\t')), "tsv"),
    ] {
        let (ended, found) = imported_anew(
            &stores,
            &folder,
            &[&[path.as_str(), "--format", format], &FOREIGN[..]].concat(),
        )
        .await;
        assert!(
            ended
                .stdout
                .contains(&format!(": {count} new, 0 unchanged, 0 differ")),
            "{ended:?}"
        );
        // Only a table names its columns before its rows.
        let says = ended
            .stderr
            .contains("left out, because no field takes them: helpful");
        assert_eq!(says, format != "json-lines", "{ended:?}");
        assert!(found == expected, "{format} ends in another export");
    }
    stores.finish().await;
}

#[tokio::test]
async fn a_dry_run_writes_nothing_and_says_what_an_import_would_do() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments = some_comments(12);
    let path = write(&folder, "comments.jsonl", lines(&comments[..5]));
    import(&stores, &path, &[]).await.expect(0);
    let items = all_items(&stores).await;
    let mut changed: Vec<Value> = comments.iter().map(line).collect();
    changed[0]["title"] = "Another title".into();
    changed[1]["created_at"] = "2001-01-01T00:00:00Z".into();
    let content: String = changed.iter().map(|line| format!("{line}\n")).collect();
    let path = write(&folder, "changed.jsonl", content);
    let ended = import(&stores, &path, &["--dry-run", "--update"])
        .await
        .expect(1);
    let found = format!(
        "an import would find {} new, 3 unchanged, 1 updated, 0 differ",
        comments.len() - 5
    );
    assert!(
        ended.stdout.contains(&found) && ended.stdout.contains("1 bad"),
        "{ended:?}"
    );
    assert_eq!(all_items(&stores).await, items);
    stores.finish().await;
}

#[tokio::test]
async fn rejected_rows_are_corrected_and_imported_from_their_file() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments = some_comments(10);
    // One row has a rating that is none, another the id of a comment of another product.
    let mut rows: Vec<Map<String, Value>> = comments.iter().map(foreign).collect();
    rows[2].insert("score".to_owned(), 101.into());
    let other = NewComment {
        product: model::ProductId::parse("another/product").unwrap(),
        ..comments[4].clone()
    };
    import(
        &stores,
        &write(&folder, "other.jsonl", lines(&[other])),
        &[],
    )
    .await
    .expect(0);
    let content: String = rows
        .into_iter()
        .map(|row| Value::from(row).to_string() + "\n")
        .collect();
    let (path, rejects) = (
        write(&folder, "foreign.jsonl", content),
        folder.path().join("rejects.jsonl"),
    );
    let options = [&FOREIGN[..], &["--rejects", rejects.to_str().unwrap()]].concat();
    import(&stores, &path, &options).await.expect(1);
    let rejected: Vec<Value> = std::fs::read_to_string(&rejects)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(
        rejected
            .iter()
            .map(|line| &line["line"])
            .collect::<Vec<_>>(),
        [3, 5],
        "{rejected:?}"
    );
    assert!(
        rejected[0]["reason"]
            .as_str()
            .unwrap()
            .contains("101 is not a rating"),
        "{rejected:?}"
    );
    assert!(
        rejected[1]["reason"]
            .as_str()
            .unwrap()
            .contains("is in use"),
        "{rejected:?}"
    );
    let mut corrected: Vec<Value> = rejected
        .into_iter()
        .map(|mut line| line["row"].take())
        .collect();
    corrected[0]["score"] = foreign(&comments[2])["score"].clone();
    corrected[1]["number"] = "another-id".into();
    let content: String = corrected
        .into_iter()
        .map(|row| format!("{row}\n"))
        .collect();
    let ended = import(
        &stores,
        &write(&folder, "corrected.jsonl", content),
        &FOREIGN,
    )
    .await
    .expect(0);
    assert!(ended.stdout.contains("corrected.jsonl: 2 new"), "{ended:?}");
    stores.finish().await;
}
