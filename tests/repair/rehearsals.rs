//! What an operator does rarely, done here with real processes: a table that was restored from a
//! backup replaces another one. The documented commands run as they are written; those of AWS in
//! `smoke`.

use crate::fixture::{
    api::{ApiProcess, api_variables},
    data::{self, PRODUCT},
    engine,
    function::{self, repair_job_variables},
    http::listing,
    invariants::all_items,
    program::Program,
    project_file,
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

/// A page that no process answers without the page index.
fn numbered() -> String {
    listing("page=2&page_size=5")
}

#[tokio::test]
async fn a_restored_table_replaces_another_by_the_documented_commands() {
    let old = Stores::start_with_redis().await;
    old.fill(30).await;
    // The backup is taken in the middle of fan-outs.
    old.create_all(30..34, |_| data::product(PRODUCT)).await;
    let backup = all_items(&old.table).await;
    old.create_all(34..36, |_| data::product(PRODUCT)).await;
    old.deliver_all().await;

    let restored = Stores::start_with(old.redis().clone()).await;
    for item in backup {
        restored.put_raw(item).await;
    }
    let api = ApiProcess::start(api_variables(&restored)).await;
    api.http.get(&numbered()).await.assert_later();
    let steps = section("Restoring from a backup");
    let commands: Vec<&str> = steps.lines().filter_map(command_of_step).collect();
    assert_eq!(commands, ["rebuild --apply", "audit --apply", "status"]);
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').collect();
        let run = Program::start(
            function::binary("repair-job").await,
            &arguments,
            repair_job_variables(&restored),
        );
        let ended = run.end().await;
        // The audit repairs the fan-outs that the backup has cut.
        let is_audit = command.starts_with("audit");
        let code = if is_audit { 4 } else { 0 };
        assert_eq!(ended.code(), code, "{command}: {ended:?}");
    }
    restored.assert_invariants().await;
    let page = api
        .http
        .get(&listing("page=1&page_size=100"))
        .await
        .expect(200);
    assert_eq!(
        page["total"], 34,
        "comments after the backup are in the old table alone"
    );
    restored.finish().await;
    engine::delete_table(&old.table).await;
}

/// The command of the repair job in a line, if the line is a numbered step with one.
fn command_of_step(line: &str) -> Option<&str> {
    let is_numbered = line.as_bytes().get(1) == Some(&b'.');
    if !is_numbered {
        return None;
    }
    let (_, command) = line.split_once("`repair-job ")?;
    command.split('`').next()
}

fn section(heading: &str) -> String {
    let text = project_file("docs/operate.md");
    let (_, rest) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap().to_owned()
}
