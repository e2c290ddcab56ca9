//! Files of other programs: their columns, values and formats.

use std::path::Path;

use indicatif::HumanCount;
use itertools::Itertools;
use model::Status;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Map, Value, json};
use table::{NewComment, Table, TableConfig};
use tempfile::TempDir;

use super::{all_items, gzip, imported, line, lines, process::write, some_reviews};
use crate::fixture::{
    WAIT_MAX,
    engine::delete_table,
    folder_in_memory,
    gate::Gate,
    old_table::{OldTable, item_json},
    pagemark,
    program::{Ended, Program, WHOLE_FILE_WITHIN},
    reviews,
    stores::Stores,
    unique_name, wait_within,
};

/// Starts an import of a file by the command.
async fn start_import(stores: &Stores, engine_url: &str, path: &Path, options: &[&str]) -> Program {
    let place = ["import", path.to_str().unwrap(), "--table", stores.table.name(), "--dynamodb-url", engine_url];
    pagemark::start(&[&place, options].concat()).await
}

async fn import(stores: &Stores, path: &Path, options: &[&str]) -> Ended {
    start_import(stores, &stores.engine_url(), path, options).await.end().await
}

/// A comment as a row with the column names, ratings and dates of another program.
pub(crate) fn foreign(comment: &NewComment) -> Map<String, Value> {
    let row = json!({
        "number": comment.id,
        "sku": comment.product,
        "locale": comment.language,
        "score": (u32::from(comment.rating.get()) - 1) * 25,
        "posted": comment.created_at.epoch_ms(),
        "headline": comment.text.title,
        "text": comment.text.body,
        "user": {"name": comment.text.author},
        "state": comment.status,
        "helpful": 3,
    });
    row.as_object().unwrap().clone()
}

/// The options that read rows of [`foreign`].
pub(crate) const FOREIGN: [&str; 6] = [
    "--map=id=number,product=sku,language=locale,rating=score,created_at=posted,title=headline,body=text,status=state",
    "--map=author=user.name",
    "--scale",
    "0-100",
    "--date-format",
    "unix-ms",
];

/// A cell of a table with commas or semicolons (RFC 4180).
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn separated(comments: &[NewComment], separator: &str) -> String {
    let mut table = String::new();
    for (at, comment) in comments.iter().enumerate() {
        let mut row = foreign(comment);
        row.insert("user.name".to_owned(), comment.text.author.clone().into());
        row.remove("user");
        let joined = |cells: Vec<String>| cells.join(separator) + "\r\n";
        if at == 0 {
            table += &joined(row.keys().cloned().collect());
        }
        table += &joined(row.values().map(cell).collect());
    }
    table
}

/// An item as DynamoDB exports it to S3.
fn exported(comment: &NewComment) -> String {
    json!({"Item": item_json(&foreign(comment))}).to_string() + "\n"
}

/// Imports into a new table of the same engine. Returns the outcome, and then the export of the table.
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
async fn every_format_and_another_table_end_in_the_same_export() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let mut comments = reviews::reviews(200);
    for (comment, status) in comments.iter_mut().step_by(7).zip(Status::UNPUBLISHED.into_iter().cycle()) {
        comment.status = Some(status);
    }
    let count = HumanCount(u64::try_from(comments.len()).unwrap());
    let file = |name: &str, content: Vec<u8>| write(&folder, name, content).to_str().unwrap().to_owned();
    let own = file("own.jsonl", lines(&comments).into());
    let (ended, expected) = imported_anew(&stores, &folder, &[&own]).await;
    assert!(ended.stdout.contains(&format!("own.jsonl: {count} new")), "{ended:?}");
    assert_eq!(expected.lines().count(), comments.len());
    let foreign_lines: String =
        comments.iter().map(|comment| Value::from(foreign(comment)).to_string() + "\n").collect();
    let s3: String = comments.iter().map(exported).collect();
    let files = [
        (file("foreign.jsonl", foreign_lines.into()), "json-lines"),
        (file("foreign.csv.gz", gzip(separated(&comments, ",").as_bytes())), "csv"),
        (file("foreign.txt", separated(&comments, ";").into()), "semicolons"),
        (file("data.json.gz", gzip(s3.as_bytes())), "dynamodb-json"),
    ];
    let old = OldTable::create(stores.table.client()).await;
    old.put_all(comments.iter().map(|comment| Value::from(foreign(comment)))).await;
    let url = stores.engine_url();
    let mut sources: Vec<Vec<&str>> = files.iter().map(|(path, format)| vec![path, "--format", format]).collect();
    sources.push(vec!["--from-table", &old.name, "--from-endpoint", &url]);
    for source in sources {
        let (ended, found) = imported_anew(&stores, &folder, &[&source, &FOREIGN[..]].concat()).await;
        assert!(ended.stdout.contains(&format!(": {count} new, 0 unchanged, 0 differ")), "{ended:?}");
        assert!(ended.stderr.contains("left out, because no field takes them: helpful"), "{ended:?}");
        assert!(found == expected, "{source:?} ends in another export");
    }
    old.drop_it().await;
    stores.finish().await;
}

#[tokio::test]
async fn a_dry_run_writes_nothing_and_says_what_an_import_would_do() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments = some_reviews(12);
    let path = write(&folder, "comments.jsonl", lines(&comments[..5]));
    import(&stores, &path, &[]).await.expect(0);
    let items = all_items(&stores).await;
    let mut changed: Vec<Value> = comments.iter().map(line).collect();
    changed[0]["title"] = "Another title".into();
    changed[1]["created_at"] = "2001-01-01T00:00:00Z".into();
    let content: String = changed.iter().map(|line| format!("{line}\n")).collect();
    let path = write(&folder, "changed.jsonl", content);
    let ended = import(&stores, &path, &["--dry-run", "--update"]).await.expect(1);
    let found = format!("an import would find {} new, 3 unchanged, 1 updated, 0 differ", comments.len() - 5);
    assert!(ended.stdout.contains(&found) && ended.stdout.contains("1 bad"), "{ended:?}");
    assert_eq!(all_items(&stores).await, items);
    stores.finish().await;
}

#[tokio::test]
async fn rejected_rows_are_corrected_and_imported_from_their_file() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments = some_reviews(10);
    // One row has a rating outside the scale, another the id of a comment of another product.
    let mut rows: Vec<Map<String, Value>> = comments.iter().map(foreign).collect();
    rows[2].insert("score".to_owned(), 101.into());
    let other = NewComment { product: model::ProductId::parse("another/product").unwrap(), ..comments[4].clone() };
    import(&stores, &write(&folder, "other.jsonl", lines(&[other])), &[]).await.expect(0);
    let content: String = rows.into_iter().map(|row| Value::from(row).to_string() + "\n").collect();
    let (path, rejects) = (write(&folder, "foreign.jsonl", content), folder.path().join("rejects.jsonl"));
    let options = [&FOREIGN[..], &["--rejects", rejects.to_str().unwrap()]].concat();
    import(&stores, &path, &options).await.expect(1);
    let rejected: Vec<Value> =
        std::fs::read_to_string(&rejects).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(rejected.iter().map(|line| &line["line"]).collect::<Vec<_>>(), [3, 5], "{rejected:?}");
    assert!(rejected[0]["reason"].as_str().unwrap().contains("101 is outside the scale"), "{rejected:?}");
    assert!(rejected[1]["reason"].as_str().unwrap().contains("is in use"), "{rejected:?}");
    let mut corrected: Vec<Value> = rejected.into_iter().map(|mut line| line["row"].take()).collect();
    corrected[0]["score"] = foreign(&comments[2])["score"].clone();
    corrected[1]["number"] = "another-id".into();
    let content: String = corrected.into_iter().map(|row| format!("{row}\n")).collect();
    let ended = import(&stores, &write(&folder, "corrected.jsonl", content), &FOREIGN).await.expect(0);
    assert!(ended.stdout.contains("corrected.jsonl: 2 new"), "{ended:?}");
    stores.finish().await;
}

/// At most this many write units a second: about 40 comments. So the lines that wait for workers last for longer than
/// the checkpoint may be behind.
const SLOWLY: [&str; 2] = ["--write-units", "2700"];

/// At most so many lines wait for workers. So a killed import has written no comment that is further from the first one
/// that is missing.
const WAITING_MAX: usize = 5 * 33;

/// The number of the last line of each comment in the text of [`separated`].
fn last_lines(content: &str, comments: usize) -> Vec<u64> {
    let mut line = 1;
    let rows = content.split_inclusive("\r\n").skip(1);
    let lines: Vec<u64> = rows
        .map(|row| {
            line += u64::try_from(row.matches('\n').count()).unwrap();
            line
        })
        .collect();
    assert_eq!(lines.len(), comments, "a text has a carriage return");
    lines
}

#[tokio::test]
async fn an_import_that_is_killed_goes_on_after_what_its_checkpoint_holds() {
    let stores = Stores::start().await;
    let folder = folder_in_memory();
    let comments = some_reviews(1_500);
    let content = separated(&comments, ",");
    let last_lines = last_lines(&content, comments.len());
    let path = write(&folder, "comments.csv", content);
    let checkpoint = folder.path().join("checkpoint");
    let saved_at = || std::fs::metadata(&checkpoint).unwrap().modified().unwrap();
    let options = [&FOREIGN[..], &["--checkpoint", checkpoint.to_str().unwrap(), "--concurrency", "5"]].concat();
    let lines_done = || {
        let kept: Value = std::fs::read_to_string(&checkpoint).ok()?.parse().ok()?;
        kept["files"].as_object()?.values().next()?["lines"].as_u64().filter(|lines| *lines > 0)
    };
    let slowly = [&options[..], &SLOWLY].concat();
    let program = start_import(&stores, &stores.engine_url(), &path, &slowly).await;
    let look = async || lines_done().ok_or("no line is done");
    wait_within(WAIT_MAX, "a checkpoint", look).await;
    program.kill().await;
    assert!(lines_done() < last_lines.last().copied(), "it was killed too late");
    let mut random = StdRng::seed_from_u64(18);
    for _ in 0..3 {
        let place = last_lines.iter().position(|line| *line > lines_done().unwrap()).unwrap();
        let place = place + WAITING_MAX + random.random_range(0..60);
        let calls_about_it = format!("{{\"S\":\"COMMENT#{}\"}}", comments[place].id);
        let gate = Gate::holding(&stores.engine_url(), calls_about_it.leak().as_bytes(), 0).await;
        let program = start_import(&stores, &gate.url, &path, &slowly).await;
        gate.wait_until_holding("a comment of the import").await;
        // The other workers continue, and the checkpoint is written meanwhile.
        let before = saved_at();
        let look = async || if saved_at() > before { Ok(()) } else { Err("no later checkpoint") };
        wait_within(WAIT_MAX, "a checkpoint that was written while a comment was held", look).await;
        program.kill().await;
        assert!(lines_done().unwrap() < last_lines[place], "the checkpoint counts a comment that is not in the table");
    }
    let ended = import(&stores, &path, &options).await.expect(0);
    assert!(ended.stdout.contains("skipped (done by an earlier import)"), "{ended:?}");
    let comments: Vec<NewComment> = comments.into_iter().sorted_by(|a, b| a.id.cmp(&b.id)).collect();
    assert!(imported(&stores).await == comments, "a comment is missing, or differs");
    let again = import(&stores, &path, &options).await.expect(0);
    assert!(again.stdout.contains(" 0 new, 0 unchanged"), "{again:?}");
    stores.finish().await;
}
