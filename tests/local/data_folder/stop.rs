//! An orderly stop leaves the next start little to do.

use local_stack::{engine::Engine, settings::TABLE};
use table::NewComment;

use super::run;
use crate::fixture::{
    data, folder_in_memory,
    stack::{Running, settings_in},
};

#[tokio::test]
#[ignore = "takes long"]
async fn an_orderly_stop_leaves_nothing_to_deliver_or_to_reconcile() {
    let folder = folder_in_memory();
    let mut stack = Running::start_with(settings_in(folder.path())).await;
    let comments: Vec<NewComment> = data::generated_comments(40);
    stack.import(&comments).await;
    stack.stack.stop().await;

    let database = folder.path().join("dynamodb.sqlite");
    let engine = Engine::start(&database, None).await.unwrap();
    let pending = engine.pending_stream_records(TABLE, None).await.unwrap();
    assert_eq!(pending, 1, "only the newest record, which is never trimmed");
    engine.stop().await;
    // The command starts a stack. Its run of `recent` is the last one.
    let status = run(folder.path(), &["repair", "status", "--json"]).await;
    let status = status.expect(0).json();
    let runs = status["last_runs"].as_array().unwrap();
    let recent = runs.iter().find(|run| run["command"] == "recent").unwrap();
    assert_eq!(recent["checked"], 0, "{status}");
    assert_eq!(recent["exit_code"], 0, "{status}");
}
