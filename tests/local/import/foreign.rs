//! Files of other programs: their columns, values and formats.

use std::path::Path;

use indicatif::HumanCount;
use model::Status;
use serde_json::{Map, Value, json};
use table::{NewComment, Table, TableConfig};
use tempfile::TempDir;

use super::{all_items, gzip, line, lines, process::write, some_comments};
use crate::fixture::{
    data,
    engine::delete_table,
    folder_in_memory,
    invariants::Contents,
    pagemark,
    program::{Ended, WHOLE_FILE_WITHIN},
    reviews,
    stores::Stores,
    unique_name,
};

async fn import(stores: &Stores, path: &Path, options: &[&str]) -> Ended {
    let url = stores.engine_url();
    let command = [
        "import",
        path.to_str().unwrap(),
        "--table",
        stores.table.name(),
        "--dynamodb-url",
        &url,
    ];
    pagemark::run(&[&command, options].concat()).await
}

/// A comment as a row with foreign column names and dates.
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
        "state": comment.status.unwrap_or_default(),
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
    for (number, comment) in comments.iter().enumerate() {
        let mut row = foreign(comment);
        row.insert("user.name".to_owned(), comment.text.author.clone().into());
        row.remove("user");
        if number == 0 {
            table.write_record(row.keys()).unwrap();
        }
        table.write_record(row.values().map(cell)).unwrap();
    }
    table.into_inner().unwrap()
}

/// A value in a cell of a table.
fn cell(value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    }
}

/// Imports into a new table of the same engine. Returns the outcome, and then the export of the
/// table.
async fn imported_anew(stores: &Stores, folder: &TempDir, source: &[&str]) -> (Ended, String) {
    let url = stores.engine_url();
    let name = unique_name("new");
    let table = Table::connect(&TableConfig::new(name.clone(), Some(url.clone()))).await;
    table.create_if_missing().await.unwrap();
    let of_table = ["--table", &name, "--dynamodb-url", &url];
    let ended = run_to_end(&[&["import"], source, &of_table].concat()).await;
    let output = folder.path().join("export");
    let export = ["export", "--output", output.to_str().unwrap()];
    run_to_end(&[&export[..], &of_table].concat()).await;
    delete_table(&table).await;
    (ended, std::fs::read_to_string(output).unwrap())
}

/// Runs a command that may take as long as the whole file of reviews.
async fn run_to_end(command: &[&str]) -> Ended {
    let program = pagemark::start(command).await;
    program.end_within(WHOLE_FILE_WITHIN).await.expect(0)
}

#[tokio::test]
async fn every_format_ends_in_the_same_export() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let mut comments = reviews::reviews(200);
    let statuses = Status::UNPUBLISHED.into_iter().cycle();
    for (comment, status) in comments.iter_mut().step_by(7).zip(statuses) {
        comment.status = Some(status);
    }
    let count = HumanCount(u64::try_from(comments.len()).unwrap());
    let own = write(&folder, "own.jsonl", lines(&comments));
    let (ended, expected) = imported_anew(&stores, &folder, &[own.to_str().unwrap()]).await;
    let counts = format!("own.jsonl: {count} new");
    assert!(ended.stdout.contains(&counts), "{ended:?}");
    assert_eq!(expected.lines().count(), comments.len());
    let first = comments.iter().map(|comment| comment.created_at).min();
    let last = comments.iter().map(|comment| comment.created_at).max();
    let dates = format!(
        ": the new ones are of {} to {}",
        first.unwrap(),
        last.unwrap()
    );
    let foreign_lines = json_lines(comments.iter().map(foreign));
    for (name, content, format) in [
        ("foreign.jsonl", foreign_lines.into_bytes(), "json-lines"),
        ("foreign.csv.gz", gzip(&separated(&comments, b',')), "csv"),
        ("foreign.txt", separated(&comments, b';'), "semicolons"),
        ("foreign.tsv", separated(&comments, b'\t'), "tsv"),
    ] {
        let path = write(&folder, name, content);
        let file = [path.to_str().unwrap(), "--format", format];
        let source = [&file[..], &FOREIGN].concat();
        let (ended, found) = imported_anew(&stores, &folder, &source).await;
        let counts = format!(": {count} new, 0 unchanged, 0 differ");
        assert!(ended.stdout.contains(&counts), "{ended:?}");
        assert!(ended.stdout.contains(&dates), "{ended:?}");
        // Only a table names its columns before its rows.
        let says = "left out, because no field takes them: helpful";
        let is_said = ended.stderr.contains(says);
        assert_eq!(is_said, format != "json-lines", "{ended:?}");
        assert!(found == expected, "{format} ends in another export");
    }
    stores.finish().await;
}

/// Rows as lines of JSON.
fn json_lines<R: Into<Value>>(rows: impl IntoIterator<Item = R>) -> String {
    let mut lines = String::new();
    for row in rows {
        lines.push_str(&format!("{}\n", row.into()));
    }
    lines
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
    let path = write(&folder, "changed.jsonl", json_lines(changed));
    let ended = import(&stores, &path, &["--dry-run", "--update"]).await;
    let ended = ended.expect(1);
    let new = comments.len() - 5;
    let found = format!("an import would find {new} new, 3 unchanged, 1 updated, 0 differ");
    assert!(ended.stdout.contains(&found), "{ended:?}");
    assert!(ended.stdout.contains("1 bad"), "{ended:?}");
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
        product: data::product("another/product"),
        ..comments[4].clone()
    };
    let path = write(&folder, "other.jsonl", lines(&[other]));
    import(&stores, &path, &[]).await.expect(0);

    let path = write(&folder, "foreign.jsonl", json_lines(rows));
    let rejects = folder.path().join("rejects.jsonl");
    let options = [&FOREIGN[..], &["--rejects", rejects.to_str().unwrap()]].concat();
    import(&stores, &path, &options).await.expect(1);
    let mut rejected: Vec<Value> = Vec::new();
    for line in std::fs::read_to_string(&rejects).unwrap().lines() {
        rejected.push(line.parse().unwrap());
    }
    assert_eq!(rejected.len(), 2, "{rejected:?}");
    for (line, number, why) in [
        (&rejected[0], 3, "101 is not a rating"),
        (&rejected[1], 5, "is in use"),
    ] {
        assert_eq!(line["line"], number, "{rejected:?}");
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.contains(why), "{rejected:?}");
    }

    let mut with_rating = rejected[0]["row"].take();
    with_rating["score"] = foreign(&comments[2])["score"].clone();
    let mut with_id = rejected[1]["row"].take();
    with_id["number"] = "another-id".into();
    let content = json_lines([with_rating, with_id]);
    let path = write(&folder, "corrected.jsonl", content);
    let ended = import(&stores, &path, &FOREIGN).await.expect(0);
    assert!(ended.stdout.contains("corrected.jsonl: 2 new"), "{ended:?}");
    stores.finish().await;
}

#[tokio::test]
async fn a_file_of_another_kind_is_named_in_the_first_line() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    for (name, content, expected) in [
        ("a.csv", "PK\u{3}\u{4}", "spreadsheet"),
        ("a.jsonl", "id,product,body\n1,p,Fine\n", "--format csv"),
        ("a.json", "{\n  \"reviews\": []\n}\n", "jq -c"),
        ("b.csv", "{\"id\": 1}\n", "--format json-lines"),
    ] {
        let path = write(&folder, name, content);
        let ended = import(&stores, &path, &[]).await.expect(1);
        assert_eq!(ended.stdout, "", "{ended:?}");
        let first_line = ended.stderr.lines().next().unwrap();
        assert!(first_line.contains(expected), "{ended:?}");
    }
    let records = write(&folder, "products.csv", "product,name,url\np,P,\n");
    let url = stores.engine_url();
    let of_table = ["--table", stores.table.name(), "--dynamodb-url", &url];
    let command = ["import", "--products", records.to_str().unwrap()];
    let ended = pagemark::run(&[&command[..], &of_table].concat()).await;
    let ended = ended.expect(1);
    assert!(ended.stderr.contains("are JSON Lines"), "{ended:?}");
    stores.finish().await;
}

#[tokio::test]
async fn ids_made_of_columns_are_the_same_in_a_repeated_import() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments = some_comments(20);
    let mut rows: Vec<Map<String, Value>> = comments.iter().map(foreign).collect();
    for row in &mut rows {
        row.remove("number");
    }
    let columns = ["--id-from", "sku,posted,user.name,text"];
    let fields = "--map=product=sku,language=locale,rating=score,created_at=posted,title=headline,body=text,status=state";
    let options = [&[fields][..], &FOREIGN[1..], &columns].concat();
    let path = write(&folder, "foreign.jsonl", json_lines(rows.clone()));
    let ended = import(&stores, &path, &options).await.expect(0);
    assert!(ended.stdout.contains(": 20 new"), "{ended:?}");
    rows.reverse();
    rows[3].insert("helpful".to_owned(), 4.into());
    let path = write(&folder, "again.jsonl", json_lines(rows));
    let ended = import(&stores, &path, &options).await.expect(0);
    let counts = ": 0 new, 20 unchanged, 0 differ";
    assert!(ended.stdout.contains(counts), "{ended:?}");
    stores.finish().await;
}

#[tokio::test]
async fn a_sites_own_rules_bring_an_export_in_one_command() {
    const RULES: &str = r#"
id-from = ["author", "when"]
date-formats = ["%d/%m/%Y"]
html-to-text = true

[columns]
product = ["item"]
rating = ["stars"]
created_at = ["when"]
body = ["text"]
author = ["author"]
status = ["shown"]

[set]
language = "pt_BR"

[values.status]
yes = "published"
no = "hidden"
"#;
    const EXPORT: &str = "item,stars,when,text,author,shown
p,5,29/02/2024,<b>Good</b>,Ada,yes
p,1,01/03/2024,,Bo,no
";
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let rules = write(&folder, "rules.toml", RULES);
    let path = write(&folder, "export.csv", EXPORT);
    let options = ["--preset", rules.to_str().unwrap()];
    let ended = import(&stores, &path, &options).await.expect(0);
    assert!(ended.stdout.contains(": 2 new"), "{ended:?}");
    let again = import(&stores, &path, &options).await.expect(0);
    assert!(again.stdout.contains(": 0 new, 2 unchanged"), "{again:?}");
    let mut comments = Contents::read(&stores.table).await.comments();
    comments.sort_by_key(|comment| comment.created_at);
    let [good, without_text] = &comments[..] else {
        panic!("{comments:?}");
    };
    assert_eq!(good.text.body.as_deref(), Some("Good"));
    assert_eq!(good.language.as_str(), "pt-BR");
    assert_eq!(without_text.text.body, None);
    assert_eq!(without_text.status, Status::Hidden);
    stores.deliver_all().await;
    stores.finish().await;
}
