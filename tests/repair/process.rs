//! The binary: its exit codes and reports, killed at a checkpoint, run twice in parallel, and as a
//! Lambda function. Server: the binary has no other page index.

use std::time::Duration;

use model::CommentId;
use process::now;
use repair_job::exit;
use serde_json::{Value, json};

use super::{assert_clean, job, product, start_with_redis, whole};
use crate::fixture::{
    damage::{Damage, inflict_all},
    function::{self, Function, repair_job_variables, with},
    gate::{self, Gate},
    program::{Ended, Program},
    stores::Stores,
    wait_for,
};

const _: crate::Engines = crate::Engines::Both;

const COMMENTS: u64 = 40;

async fn begin(stores: &Stores, others: &[(&'static str, &str)], arguments: &[&str]) -> Program {
    Program::start(
        function::binary("repair-job").await,
        arguments,
        with(repair_job_variables(stores), others),
    )
}

async fn run(stores: &Stores, arguments: &[&str]) -> Ended {
    begin(stores, &[], arguments).await.end().await
}

/// Kills a run at a write: the gate lets `count` writes through and holds the next. A run that ends
/// earlier is not killed. Returns whether the run was killed.
async fn kill_at(
    stores: &Stores,
    variables: &[(&'static str, &str)],
    gate: &Gate,
    count: usize,
    arguments: &[&str],
) -> bool {
    wait_for("the end of the lease of the run before", async || {
        gate.hold_after(count);
        let mut run = begin(stores, variables, arguments).await;
        let ended = wait_for("the run's write, or its end", async || match run.status() {
            None if gate.is_holding() => Ok(None),
            None => Err(()),
            ended => Ok(ended),
        });
        let ended = ended.await;
        run.kill().await;
        gate.open();
        let is_held = ended.is_some_and(|status| status.code() == Some(exit::HELD.into()));
        if is_held {
            Err(())
        } else {
            Ok(ended.is_none())
        }
    })
    .await
}

async fn start_damaged() -> (Stores, Vec<CommentId>) {
    let (stores, comments) = start_with_redis(0..COMMENTS, product).await;
    let damages = comments.iter().zip(Damage::ALL.iter().copied().cycle());
    inflict_all(&stores, damages).await;
    let ids = comments.into_iter().map(|comment| comment.id);
    (stores, ids.collect())
}

#[tokio::test]
#[ignore = "takes long"]
async fn each_commands_exit_code_and_report_say_what_it_found() {
    let (stores, ids) = start_damaged().await;
    assert_an_audit_reports_damage(&stores).await;
    assert_a_check_shows_differences(&stores, &ids).await;
    assert_an_audit_repairs(&stores).await;
    stores.assert_invariants().await;
    assert_nothing_is_found_again(&stores, &ids[0]).await;
    assert_runs_without_time_say_so(&stores, &ids[0]).await;
    assert_status_names_the_runs(&stores).await;
    assert_wrong_arguments_are_refused(&stores).await;
    stores.finish().await;
}

async fn assert_an_audit_reports_damage(stores: &Stores) {
    let looked = run(stores, &["audit", "--segments", "1", "--json"]).await;
    assert_eq!(
        looked.code(),
        exit::DRIFT_FOUND | exit::DRIFT_LEFT,
        "{looked:?}"
    );
    let report = looked.json();
    assert_eq!(report["apply"], false, "{report}");
    assert_eq!(report["exit_code"], looked.code(), "{report}");
    let missing = report["drifted"]["missing_duplicate"].as_u64();
    assert!(missing > Some(0), "{report}");
    assert!(report["read_units"].as_f64() > Some(0.0), "{report}");
}

/// The first comment lacks duplicates, and the second has a stale one.
async fn assert_a_check_shows_differences(stores: &Stores, ids: &[CommentId]) {
    let check = run(stores, &["check", ids[0].as_str()]).await;
    let check = check.expect(exit::DRIFT_FOUND | exit::DRIFT_LEFT);
    for part in [
        "missing duplicate",
        "PRODUCT#",
        "should be",
        "like the primary item",
    ] {
        assert!(check.stdout.contains(part), "{part}: {check:?}");
    }
    let check = run(stores, &["check", ids[1].as_str(), "--json"]).await;
    let report = check.json();
    let comment = &report["comment"];
    assert_eq!(comment["id"], ids[1].as_str(), "{report}");
    let mut entries = comment["entries"].as_array().unwrap().iter();
    let shows_stale =
        entries.any(|entry| entry["state"] == "stale duplicate" && entry["is"] == "no cd");
    assert!(shows_stale, "{report}");
}

async fn assert_an_audit_repairs(stores: &Stores) {
    let arguments = ["--segments", "1", "--apply", "--max-run-time", "5m"];
    let repaired = run(stores, &[&["audit"][..], &arguments].concat()).await;
    assert_eq!(repaired.code(), exit::DRIFT_FOUND, "{repaired:?}");
    for part in ["repaired", "(duplicates-are-exact)", "units:"] {
        assert!(repaired.stdout.contains(part), "{part}: {repaired:?}");
    }
}

async fn assert_nothing_is_found_again(stores: &Stores, id: &CommentId) {
    let audit = ["audit", "--segments", "1", "--apply"];
    let bounded = [&audit[..], &["--max-read-units", "100000"]].concat();
    for command in [
        &bounded[..],
        &["recent", "--apply"],
        &["quarantine", "--apply"],
        &["check", id.as_str()],
    ] {
        let again = run(stores, command).await;
        // Every change of the journal is too young, so the first run of `recent` checks nothing.
        assert_eq!(again.code(), 0, "{command:?} {again:?}");
    }
}

async fn assert_runs_without_time_say_so(stores: &Stores, id: &CommentId) {
    let audit = run(stores, &["audit", "--apply", "--max-run-time", "0"]).await;
    let audit = audit.expect(exit::SKIPPED);
    assert!(
        audit.stdout.contains("its time is up; --since"),
        "{audit:?}"
    );

    let arguments = ["--max-run-time", "0", "--json"];
    let check = run(stores, &[&["check", id.as_str()][..], &arguments].concat()).await;
    assert_eq!(check.code(), exit::SKIPPED, "{check:?}");
    assert_eq!(check.json()["checked"], 0, "{check:?}");
}

async fn assert_status_names_the_runs(stores: &Stores) {
    let status = run(stores, &["status", "--segments", "1", "--json"]).await;
    let status = status.json();
    assert_eq!(status["audited_share"], 1.0, "{status}");
    assert_eq!(status["quarantined"], 0, "{status}");
    assert_eq!(status["running"], json!([]), "{status}");
    // The fixture begins with a rebuild.
    let last_runs = status["last_runs"].as_array().unwrap();
    assert_eq!(
        commands(last_runs),
        ["audit", "quarantine", "rebuild", "recent"]
    );
}

async fn assert_wrong_arguments_are_refused(stores: &Stores) {
    let wrong = run(stores, &["no-such-command"]).await.expect(exit::USAGE);
    assert!(wrong.stderr.contains("no-such-command"), "{wrong:?}");
    let beyond = ["audit", "--segment", "7", "--segments", "7"];
    run(stores, &beyond).await.expect(exit::USAGE);
}

/// The commands of some runs in a report.
fn commands(runs: &[Value]) -> Vec<&str> {
    runs.iter()
        .map(|run| run["command"].as_str().unwrap())
        .collect()
}

/// An audit resumes from its checkpoints. A checkpoint ahead of the work would leave damage.
#[tokio::test]
#[ignore = "takes long"]
async fn an_audit_killed_at_checkpoints_is_completed_since_it_began() {
    let (stores, _) = start_damaged().await;
    let began = now().to_string();
    let arguments = ["audit", "--segments", "3", "--apply", "--since", &began];
    let table = Gate::start(&stores.engine_url(), gate::CHECKPOINTS).await;
    let through_gate = [("PAGEMARK_DYNAMODB_URL", table.url.as_str())];
    let mut kills = 0;
    // Each run resumes where the one before was killed, so the first ones write few checkpoints:
    // how many there are in all depends on the engine.
    for count in [0, 1, 0, 2, 1, 3] {
        if kill_at(&stores, &through_gate, &table, count, &arguments).await {
            kills += 1;
        }
    }
    assert!(kills >= 3, "only {kills} runs were killed");
    let last = wait_for("the end of the lease", async || {
        let ended = run(&stores, &arguments).await;
        if ended.code() & exit::HELD == 0 {
            Ok(ended)
        } else {
            Err(ended)
        }
    });
    let last = last.await;
    assert_eq!(last.code() & !exit::DRIFT_FOUND, 0, "{last:?}");
    stores.assert_invariants().await;
    assert_clean(&job(&stores, false).audit(whole()).await);
    stores.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_second_concurrent_run_reports_the_lease_holder_and_ends() {
    let (stores, _) = start_damaged().await;
    let gate = Gate::holding(&stores.engine_url(), gate::TRANSACTIONS, 1).await;
    let arguments = ["audit", "--segments", "1", "--apply", "--json"];
    // A lease long enough not to expire on a busy machine.
    let others = [
        ("PAGEMARK_DYNAMODB_URL", &*gate.url),
        ("PAGEMARK_REPAIR_LEASE", "1m"),
    ];
    let first = begin(&stores, &others, &arguments).await;
    let pid = first.pid();
    gate.wait_until_holding("the first run's writes").await;
    let second = run(&stores, &arguments).await.expect(exit::HELD);
    let held_by = second.json()["held_by"].as_str().unwrap().to_owned();
    assert!(
        held_by.contains(&format!("process {pid} ")) && held_by.contains("since"),
        "{held_by}"
    );
    assert_eq!(second.json()["checked"], 0);
    let plain = run(&stores, &["audit", "--apply"]).await;
    assert!(
        plain.stdout.contains("another run is in progress"),
        "{plain:?}"
    );
    // The lease blocks neither a dry run nor another kind of run.
    run(&stores, &["audit", "--segments", "1"])
        .await
        .expect(exit::DRIFT_FOUND | exit::DRIFT_LEFT);
    run(&stores, &["recent", "--apply"]).await.expect(0);
    gate.open();
    first.end().await.expect(exit::DRIFT_FOUND);
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_signal_ends_a_run_cleanly() {
    let (stores, _) = start_damaged().await;
    let gate = Gate::holding(&stores.engine_url(), gate::TRANSACTIONS, 1).await;
    let others = [
        ("PAGEMARK_DYNAMODB_URL", gate.url.as_str()),
        ("PAGEMARK_REPAIR_CONCURRENCY", "1"),
    ];
    let audit = ["audit", "--segments", "16", "--apply"];
    let one_by_one = [&audit[..], &["--at-once", "1", "--json"]].concat();
    let stopped = begin(&stores, &others, &one_by_one).await;
    gate.wait_until_holding("the run's writes").await;
    stopped.signal("TERM");
    // The process receives the signal while the write is held.
    stopped.wait_for_stderr("stopping").await;
    gate.open();
    let ended = stopped.end().await;
    assert_eq!(
        ended.code() & (exit::SKIPPED | exit::FAILURE),
        exit::SKIPPED,
        "{ended:?}"
    );
    assert_eq!(ended.json()["stopped"]["reason"], "asked", "{ended:?}");
    // The run released its lease.
    let next = run(&stores, &audit).await;
    assert_eq!(next.code() & !exit::DRIFT_FOUND, 0, "{next:?}");
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn the_hourly_function_runs_all_commands_and_prints_its_metrics() {
    let (stores, _) = start_damaged().await;
    let function = Function::start("repair-job", repair_job_variables(&stores)).await;
    let event = json!({ "source": "aws.events", "detail-type": "Scheduled Event", "detail": {} })
        .to_string();
    for is_first in [true, false] {
        let answer = function.respond(event.clone(), function::TIMEOUT).await;
        let runs = answer["runs"].as_array().unwrap();
        assert_eq!(commands(runs), ["recent", "quarantine", "audit"]);
        let repairs_some = runs[2]["repaired"].as_u64().unwrap() > 0;
        assert_eq!(repairs_some, is_first, "{answer}");
        assert_eq!(answer["status"]["audited_share"], 1.0, "{answer}");
        stores.assert_invariants().await;
    }
    // The second invocation has too little time, so it stops before it begins.
    let answer = function.respond(event, Duration::from_secs(14)).await;
    assert_eq!(
        answer["runs"][0]["stopped"]["reason"], "time_is_up",
        "{answer}"
    );
    let ended = function.finish().await;
    let metrics = ended.metrics();
    assert_eq!(metrics.len(), 3);
    assert!(
        metrics[0]["Repaired"].as_u64() > Some(0) && metrics[1]["Repaired"] == 0,
        "{metrics:?}"
    );
    assert_eq!(metrics[0]["Unresolved"], 0, "{metrics:?}");
    assert_eq!(metrics[0]["AuditedShare"], 100.0, "{metrics:?}");
    assert!(
        metrics
            .iter()
            .all(|line| line["IndexReachable"] == 1 && line["IndexScanAge"].is_i64()),
        "{metrics:?}"
    );
    stores.finish().await;
}

/// Redis was lost, and is filled within a second. A person who read about the loss comes later, and
/// would take the numbered pages away again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_command_leaves_alone_what_was_just_rebuilt_unless_it_is_repeated() {
    const REBUILT: &str = "3 comments read";
    let stores = Stores::start_with_redis().await;
    stores.fill(3).await;
    stores.rebuild().await;
    let looked = run(&stores, &["rebuild"]).await.expect(0);
    assert!(
        looked.stdout.contains("does nothing the first time"),
        "{looked:?}"
    );
    for (word, is_rebuilt) in [("first", false), ("second", true), ("third", false)] {
        let ended = run(&stores, &["rebuild", "--apply"]).await.expect(0);
        let said = if is_rebuilt {
            REBUILT
        } else {
            "so nothing is done"
        };
        assert!(ended.stdout.contains(said), "the {word} command: {ended:?}");
    }
    // What is not ready is rebuilt at once.
    stores.index.begin_rebuild().await.unwrap();
    let ended = run(&stores, &["rebuild", "--apply"]).await.expect(0);
    assert!(ended.stdout.contains(REBUILT), "{ended:?}");
    stores.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_only_looks_says_so_by_its_words_and_exit_code() {
    let stores = Stores::start_with_redis().await;
    let comment = stores.create_numbered(1, product(1)).await;
    let left = exit::DRIFT_FOUND | exit::DRIFT_LEFT;
    let wanted = run(&stores, &["rebuild"]).await.expect(left);
    assert!(wanted.stdout.contains("8 of 8 partitions"), "{wanted:?}");
    stores.deliver_all().await;
    stores.rebuild().await;
    let ready = run(&stores, &["rebuild"]).await.expect(0);
    assert!(ready.stdout.contains("0 of 8 partitions"), "{ready:?}");
    run(&stores, &["check", comment.id.as_str()])
        .await
        .expect(0);
    let unknown = run(&stores, &["check", "TYPO"]).await.expect(1);
    let problem = "no comment has the id TYPO";
    assert!(unknown.stdout.contains(problem), "{unknown:?}");
    run(&stores, &["check", "TYPO", "--product", "p"])
        .await
        .expect(0);
    run(&stores, &["status", "--apply"])
        .await
        .expect(exit::USAGE);
    stores.finish().await;
}
