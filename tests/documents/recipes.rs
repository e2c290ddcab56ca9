//! The recipes of docs/moving.md for other formats do what they say on a machine of any time zone.

use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::{
    documents::blocks, folder_in_memory, program::run_tool, project_file, python,
};

const _: crate::Engines = crate::Engines::Embedded("DuckDB reads and writes files");

/// A zone with summer time.
const ZONE: &str = "Europe/Berlin";

/// Runs statements of DuckDB, and returns the rows of the last one as JSON.
async fn duckdb(folder: &Path, statements: &[&str]) -> Value {
    const RUN: &str = "
import duckdb, json, sys
for statement in sys.argv[1:]:
    result = duckdb.sql(statement)
print(json.dumps(result.fetchall() if result else []))
";
    let mut command = python::command("python");
    command.args(["-c", RUN]).args(statements);
    command.current_dir(folder).env("TZ", ZONE);
    run_tool(command, "").await.parse().unwrap()
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn the_recipe_for_duckdb_keeps_the_instant_of_a_date_on_a_machine_of_any_zone() {
    let blocks = blocks("docs/moving.md");
    let recipe = blocks
        .iter()
        .find_map(|block| block.text.trim().strip_prefix("duckdb -c \""))
        .unwrap();
    let recipe = recipe.strip_suffix('"').unwrap();
    for posted in [
        "TIMESTAMPTZ '2024-07-01 12:00:00+00'",
        "TIMESTAMP '2024-07-01 12:00:00'",
    ] {
        let folder = folder_in_memory();
        let make = format!(
            "COPY (SELECT 'r1' AS review_id, 'p' AS product, 'en' AS language, 5 AS stars, 'text' AS text, \
             {posted} AS posted) TO 'reviews.parquet'"
        );
        duckdb(folder.path(), &[&make, recipe]).await;
        let line = std::fs::read_to_string(folder.path().join("out.jsonl")).unwrap();
        let line: Value = line.parse().unwrap();
        assert_eq!(line["created_at"], "2024-07-01T12:00:00Z", "{posted}");
        let read = local_stack::import::parse_line(line.to_string().as_bytes());
        read.unwrap();
    }
}

/// More rows than those from which DuckDB guesses the types of columns.
const ROWS: usize = 20_500;

#[tokio::test]
#[ignore = "needs Python packages"]
async fn duckdb_reads_an_export_as_the_document_says_without_losing_a_late_title() {
    let folder = folder_in_memory();
    let mut lines = String::new();
    for number in 0..ROWS {
        let is_last = number + 1 == ROWS;
        let title = is_last.then_some("Late");
        lines.push_str(&format!("{}\n", json!({"id": "007", "title": title})));
    }
    std::fs::write(folder.path().join("comments.jsonl"), lines).unwrap();
    let document = project_file("docs/moving.md");
    let read = "read_json('comments.jsonl', sample_size = -1)";
    assert!(document.contains(&format!("`{read}`")), "{document}");
    let select = format!("SELECT DISTINCT id::VARCHAR, title FROM {read} WHERE title IS NOT NULL");
    let rows = duckdb(folder.path(), &[&select]).await;
    assert_eq!(rows, json!([["007", "Late"]]));
}
