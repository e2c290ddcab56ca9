//! `pagemark repair` and `pagemark import` with `--data-dir`.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use clap::Parser;
use local_stack::{
    control::{SOCKET, request},
    import::to_line,
    settings::TABLE,
};
use model::item::attribute;
use process::now;
use repair_job::{Progress, RepairConfig, exit};
use serde_json::Value;
use table::{Lease, NewComment, Table, TableConfig};

use super::{RUNS_ONE, on, refused, run, up};
use crate::fixture::{
    data::{self, PRODUCT},
    folder_in_memory,
    http::good_comment,
    invariants::collection,
    pagemark,
    program::{Ended, Program},
    redis_server::OwnRedis,
    stack::{Running, settings_in},
    stores::put_raw,
    wait_for,
};

/// A repair that takes minutes unless it is stopped.
const SLOW: &[&str] = &["repair", "audit", "--apply", "--max-read-units", "1"];

fn write(folder: &Path, comments: &[NewComment]) -> PathBuf {
    let mut lines = String::new();
    for comment in comments {
        lines.push_str(&to_line(data::stored(comment)).unwrap());
        lines.push('\n');
    }
    let path = folder.join("comments.jsonl");
    fs::write(&path, lines).unwrap();
    path
}

/// Copies a duplicate of a comment under the id of a comment that does not exist. Only an audit
/// finds it: no journal entry and no stream record leads to it.
async fn add_orphan(table: &Table, comment: &NewComment) {
    let (_, mut duplicates) = collection(table, &comment.id).await;
    let pk = data::text_value(format!("COMMENT#{}-orphan", comment.id));
    let orphan = data::with_attribute(&duplicates.remove(0), attribute::PK, pk);
    put_raw(table, orphan).await;
}

/// A folder whose stack has stopped. Its table holds duplicates without a comment.
async fn damaged_folder(folder: &Path, count: u64) {
    let mut stack = Running::start_with(settings_in(folder)).await;
    let comments: Vec<NewComment> = data::generated_comments(count);
    stack.import(&comments).await;
    for comment in comments.iter().take(2) {
        add_orphan(stack.stack.table(), comment).await;
    }
    stack.settle().await;
    stack.stack.stop().await;
}

/// Starts a repair that takes long, on a folder whose stack is stopped, and waits until it is in
/// the middle.
async fn start_slow(folder: &Path) -> Program {
    let program = pagemark::start(&on(folder, SLOW)).await;
    let args = RepairConfig::parse_from([
        "repair-job",
        "--table=t",
        "--redis-url=redis://h",
        "status",
        "--json",
    ])
    .run;
    wait_for("an audit in progress", async || {
        let asked = request(
            &folder.join(SOCKET),
            &args,
            &Progress::default(),
            std::future::pending(),
        )
        .await;
        let status = asked.map_err(|error| (format!("{error:#}"), program.stderr()))?;
        let status: Value = serde_json::from_str(&status.output).unwrap();
        // The start runs `recent`.
        let is_begun = status["running"].to_string().contains("audit");
        if is_begun {
            Ok(())
        } else {
            Err((status.to_string(), program.stderr()))
        }
    })
    .await;
    program
}

#[tokio::test]
#[ignore = "takes long"]
async fn repair_on_a_stopped_folder_does_what_it_does_on_a_running_stack() {
    let folder = folder_in_memory();
    damaged_folder(folder.path(), 30).await;
    for (command, code) in [
        (
            &["repair", "audit"][..],
            exit::DRIFT_FOUND | exit::DRIFT_LEFT,
        ),
        (&["repair", "audit", "--apply"], exit::DRIFT_FOUND),
        (&["repair", "audit"], 0),
        (&["repair", "recent", "--apply"], 0),
        (&["repair", "quarantine", "--apply"], 0),
        (&["repair", "check", "generated-000000"], 0),
    ] {
        let ended = run(folder.path(), command).await.expect(code);
        assert!(ended.stderr.contains(RUNS_ONE), "{ended:?}");
        assert!(!ended.stdout.is_empty(), "{ended:?}");
    }
    let stopped = run(folder.path(), &["repair", "status"]).await.expect(0);
    let up = up(folder.path()).await;
    let running = run(folder.path(), &["repair", "status"]).await.expect(0);
    let all_ready = "256 partitions ready, 0 not confirmed, 0 without";
    for status in [&stopped, &running] {
        assert!(status.stdout.contains(all_ready), "{status:?}");
    }
    assert!(stopped.stderr.contains(RUNS_ONE), "{stopped:?}");
    assert!(!running.stderr.contains(RUNS_ONE), "{running:?}");
    run(folder.path(), &["repair", "audit"]).await.expect(0);
    let log = up.stop().await;
    assert!(
        !log.contains("rebuil"),
        "the commands have saved the page index: {log}"
    );
}

async fn import(folder: &Path, comments: &[NewComment]) -> Ended {
    let file = write(folder, comments);
    let command = ["import", file.to_str().unwrap()];
    run(folder, &command).await.expect(0)
}

#[tokio::test]
#[ignore = "takes long"]
async fn an_import_reaches_the_folder_whether_its_stack_runs_or_not() {
    let folder = folder_in_memory();
    let first = up(folder.path()).await;
    let comment = good_comment("en", 5, "Body");
    first.api.post(PRODUCT, &comment).await.expect(201);
    first.stop().await;
    let comments: Vec<NewComment> = data::generated_comments(60);

    let new = import(folder.path(), &comments[..40]).await;
    assert!(new.stdout.contains(": 40 new, 0 unchanged"), "{new:?}");
    assert!(new.stdout.contains("settled: 40 comments"), "{new:?}");
    assert!(new.stderr.contains(RUNS_ONE), "{new:?}");
    let again = import(folder.path(), &comments[..40]).await;
    assert!(again.stdout.contains(": 0 new, 40 unchanged"), "{again:?}");
    assert!(!again.stdout.contains("settled: 0 comments"), "{again:?}");
    assert!(again.stderr.contains(RUNS_ONE), "{again:?}");

    let up = up(folder.path()).await;
    let more = import(folder.path(), &comments).await;
    assert!(more.stdout.contains(": 20 new, 40 unchanged"), "{more:?}");
    assert!(more.stdout.contains("settled: 20 comments"), "{more:?}");
    assert!(!more.stderr.contains(RUNS_ONE), "{more:?}");
    let product = &comments[0].product;
    let of_product = comments
        .iter()
        .filter(|comment| comment.product == *product)
        .count();
    // The import has waited until the page index counts them.
    let target = format!("/api/v1/products/{product}/comments?page=1");
    let answer = up.api.get(&target).await.expect(200);
    assert_eq!(answer["total"], of_product, "{answer}");
    up.stop().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_second_command_on_a_stopped_folder_names_the_first() {
    let folder = folder_in_memory();
    damaged_folder(folder.path(), 40).await;
    let first = start_slow(folder.path()).await;
    let named = format!("`pagemark repair` (process {})", first.pid());
    let file = write(folder.path(), &[]);
    for second in [
        &["repair", "status"][..],
        &["import", file.to_str().unwrap()],
        &["up", "--listen", "127.0.0.1:0"],
    ] {
        let line = refused(run(folder.path(), second).await, folder.path());
        assert!(line.contains(&named), "{line}");
    }
    // The lock is on the folder.
    for lock in ["pagemark.lock", "dynamodb.sqlite.lock"] {
        fs::remove_file(folder.path().join(lock)).unwrap();
    }
    for second in [
        &["repair", "status"][..],
        &[
            "up",
            "--listen",
            "127.0.0.1:0",
            "--dynamodb-listen",
            "127.0.0.1:0",
        ],
    ] {
        let line = refused(run(folder.path(), second).await, folder.path());
        assert!(line.contains("is used by"), "{line}");
    }
    assert!(!folder.path().join("pagemark.lock").exists());
    // Ctrl-C ends the first one in order.
    first.signal("INT");
    let ended = first.end().await;
    assert_ne!(ended.code() & exit::SKIPPED, 0, "{ended:?}");
    run(folder.path(), &["repair", "status"]).await.expect(0);
}

/// A stack has the lock, and has not yet replaced the name of a killed one.
#[tokio::test]
#[ignore = "takes long"]
async fn a_command_says_that_a_stack_which_is_just_starting_does_not_answer() {
    let folder = folder_in_memory();
    up(folder.path()).await.kill().await;
    let starting = File::open(folder.path()).unwrap();
    starting.lock().unwrap();
    let file = write(folder.path(), &data::generated_comments(2));
    for command in [&["import", file.to_str().unwrap()][..], &["export"]] {
        let line = refused(run(folder.path(), command).await, folder.path());
        assert!(line.contains("does not answer; try again"), "{line}");
    }
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_stack_with_its_page_index_in_redis_is_reached_by_its_folder() {
    let folder = folder_in_memory();
    let redis = OwnRedis::start().await;
    let redis_url = redis.server.url();
    let options = ["--demo", "30", "--redis-url", redis_url.as_str()];
    let up = pagemark::Up::start(folder.path(), &options).await;
    let status = run(folder.path(), &["repair", "status"]).await.expect(0);
    assert!(status.stdout.contains("256 partitions ready"), "{status:?}");
    assert!(!status.stderr.contains(RUNS_ONE), "{status:?}");
    up.stop().await;
    // The folder remembers where its page index is.
    let file = write(folder.path(), &data::generated_comments(40));
    for command in [
        &["repair", "audit", "--apply"][..],
        &["import", file.to_str().unwrap()],
        &["export"],
    ] {
        redis.ask::<()>("FLUSHALL").await;
        run(folder.path(), command).await.expect(0);
        assert!(
            redis.ask::<u64>("DBSIZE").await > 256,
            "{command:?} has used another page index"
        );
    }
}

/// The runbook's advice after a loss of Redis, two seconds late: the stack has begun by itself.
#[tokio::test]
#[ignore = "takes long"]
async fn a_rebuild_command_leaves_alone_what_the_stack_has_just_rebuilt() {
    const WAITS: &str = "waiting for another rebuild";
    const REBUILT: &str = "page index rebuilt";
    let folder = folder_in_memory();
    let redis = OwnRedis::start().await;
    let redis_url = redis.server.url();
    let options = ["--demo", "30", "--redis-url", redis_url.as_str()];
    let up = pagemark::Up::start(folder.path(), &options).await;
    let before = up.stderr().matches(REBUILT).count();
    // Whoever rebuilds waits for this lease.
    let table = Table::connect(&TableConfig::new(
        TABLE,
        Some(format!("http://{}", up.engine)),
    ))
    .await;
    let lease = Lease {
        holder: "a test".to_owned(),
        who: "a test".to_owned(),
        since: now(),
        until_ms: now().plus_ms(600_000).epoch_ms(),
    };
    let other = table.take_lease("rebuild", &lease, now()).await.unwrap();
    assert!(other.is_none(), "{other:?}");
    redis.ask::<()>("FLUSHALL").await;
    up.wait_for_stderr(WAITS).await;
    let command = pagemark::start(&on(folder.path(), &["repair", "rebuild", "--apply"])).await;
    wait_for("the command to wait, too", async || {
        let log = up.stderr();
        let said = command.stderr();
        if log.matches(WAITS).count() == 2 && said.contains("rebuild: waiting for another rebuild")
        {
            Ok(())
        } else {
            Err((log, said))
        }
    })
    .await;
    table.release_lease("rebuild", &lease.holder).await.unwrap();
    let ended = command.end().await.expect(0);
    let has_the_command_rebuilt = !ended.stdout.contains("ready meanwhile");
    let log = up.stop().await;
    let has_the_stack_rebuilt = log.matches(REBUILT).count() > before;
    assert!(
        has_the_command_rebuilt != has_the_stack_rebuilt,
        "rebuilt once: {ended:?} {log}"
    );
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_folder_that_cannot_be_used_is_named_in_one_line_and_left_as_it_is() {
    let folder = folder_in_memory();
    let parent = folder.path();
    for name in ["empty", "foreign", "held", "linked"] {
        fs::create_dir(parent.join(name)).unwrap();
    }
    fs::write(parent.join("file"), "text").unwrap();
    let foreign = parent.join("foreign/dynamodb.sqlite");
    fs::write(&foreign, "text".repeat(1_000)).unwrap();
    symlink(foreign, parent.join("linked/dynamodb.sqlite")).unwrap();
    fs::write(parent.join("held/pagemark.lock"), "").unwrap();
    let held = File::open(parent.join("held")).unwrap();
    held.lock().unwrap();
    let file = write(parent, &[]);
    for (name, reason) in [
        ("missing", "there is no data folder"),
        ("empty", "is no data folder"),
        ("file", "is no data folder"),
        ("foreign", "is not a data file of this engine"),
        ("held", "does not say how to reach it"),
        ("linked", "is a symbolic link"),
    ] {
        for command in [
            &["repair", "status"][..],
            &["import", file.to_str().unwrap()],
        ] {
            let folder = parent.join(name);
            let line = refused(run(&folder, command).await, &folder);
            assert!(line.contains(reason), "{line}");
        }
    }
    assert!(!parent.join("missing").exists());
    assert_eq!(fs::read_dir(parent.join("linked")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(parent.join("empty")).unwrap().count(), 0);
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_folder_and_an_engine_at_the_same_time_are_a_wrong_command_line() {
    let folder = folder_in_memory();
    for command in [
        &["repair", "--dynamodb-url", "http://127.0.0.1:1", "status"][..],
        &["repair", "status", "--table", "t"],
        &["import", "f", "--dynamodb-url", "aws"],
        &["import", "f", "--table", "t"],
    ] {
        let ended = run(folder.path(), command).await.expect(2);
        assert!(ended.stderr.contains("--data-dir"), "{ended:?}");
    }
}
