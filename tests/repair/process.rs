//! The binary: its exit codes and reports, killed at a checkpoint, run twice in parallel, and as a
//! Lambda function. Server: the binary has no other page index.

use std::time::Duration;

use model::CommentId;
use process::now;
use repair_job::exit;
use serde_json::json;

use super::{assert_clean, job, product, start_with_redis, whole};
use crate::fixture::{
    damage::{Damage, inflict_all},
    function::{self, Function, repair_job_variables, with},
    gate::{self, Gate},
    program::{Ended, Program},
    stores::Stores,
    wait_for,
};

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
/// earlier is left to end. Returns whether the run was killed.
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
    inflict_all(
        &stores,
        comments.iter().zip(Damage::ALL.iter().copied().cycle()),
    )
    .await;
    (
        stores,
        comments.into_iter().map(|comment| comment.id).collect(),
    )
}

#[tokio::test]
async fn each_commands_exit_code_and_report_say_what_it_found() {
    let (stores, ids) = start_damaged().await;
    let looked = run(&stores, &["audit", "--segments", "1", "--json"]).await;
    assert_eq!(
        looked.code(),
        exit::DRIFT_FOUND | exit::DRIFT_LEFT,
        "{looked:?}"
    );
    let report = looked.json();
    assert_eq!(
        (&report["apply"], &report["exit_code"]),
        (&json!(false), &json!(looked.code())),
        "{report}"
    );
    assert!(
        report["drifted"]["missing_duplicate"].as_u64() > Some(0),
        "{report}"
    );
    assert!(report["read_units"].as_f64() > Some(0.0), "{report}");

    let check = run(&stores, &["check", ids[0].as_str()])
        .await
        .expect(exit::DRIFT_FOUND | exit::DRIFT_LEFT);
    assert!(
        check.stdout.contains("missing duplicate") && check.stdout.contains("PRODUCT#"),
        "{check:?}"
    );
    assert!(
        check.stdout.contains("should be") && check.stdout.contains("like the primary item"),
        "{check:?}"
    );
    let lines = run(&stores, &["check", ids[1].as_str(), "--json"])
        .await
        .json()["notes"]
        .clone();
    let mut lines = lines
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|line| line.as_str());
    assert!(
        lines.any(|line| line.contains("stale duplicate") && line.contains("  no cd  ")),
        "{lines:?}"
    );

    let repaired = run(
        &stores,
        &[
            "audit",
            "--segments",
            "1",
            "--apply",
            "--max-run-time",
            "5m",
        ],
    )
    .await;
    assert_eq!(repaired.code(), exit::DRIFT_FOUND, "{repaired:?}");
    assert!(
        repaired.stdout.contains("repaired") && repaired.stdout.contains("units:"),
        "{repaired:?}"
    );
    stores.assert_invariants().await;
    for command in [
        &[
            "audit",
            "--segments",
            "1",
            "--apply",
            "--max-read-units",
            "100000",
        ] as &[&str],
        &["recent", "--apply"],
        &["quarantine", "--apply"],
        &["check", ids[0].as_str()],
    ] {
        let again = run(&stores, command).await;
        // No window of the journal has settled yet, so the first run of `recent` checks nothing.
        assert_eq!(again.code(), 0, "{command:?} {again:?}");
    }
    let limited = run(&stores, &["audit", "--apply", "--max-run-time", "0"])
        .await
        .expect(exit::SKIPPED);
    assert!(
        limited.stdout.contains("its time is up; --since"),
        "{limited:?}"
    );

    let limited = run(
        &stores,
        &["check", ids[0].as_str(), "--max-run-time", "0", "--json"],
    )
    .await;
    assert_eq!(
        (limited.code(), &limited.json()["checked"]),
        (exit::SKIPPED, &json!(0)),
        "{limited:?}"
    );

    let status = run(&stores, &["status", "--segments", "1", "--json"])
        .await
        .json();
    assert_eq!(
        (&status["audited_share"], &status["quarantined"]),
        (&json!(1.0), &json!(0)),
        "{status}"
    );
    assert_eq!(status["running"], json!([]), "{status}");
    let runs: Vec<&str> = status["last_runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|run| run["command"].as_str())
        .collect();
    // The fixture begins with a rebuild.
    assert_eq!(runs, ["audit", "quarantine", "rebuild", "recent"]);
    let wrong = run(&stores, &["no-such-command"]).await.expect(exit::USAGE);
    assert!(wrong.stderr.contains("no-such-command"), "{wrong:?}");
    run(&stores, &["audit", "--segment", "7", "--segments", "7"])
        .await
        .expect(exit::USAGE);
    stores.finish().await;
}

/// An audit resumes from its checkpoints. One that is ahead of the work would leave damage.
#[tokio::test]
async fn an_audit_killed_at_checkpoints_is_completed_since_it_began() {
    let (stores, _) = start_damaged().await;
    let began = now().to_string();
    let arguments = ["audit", "--segments", "3", "--apply", "--since", &began];
    let table = Gate::start(&stores.engine_url(), gate::CHECKPOINTS).await;
    let mut kills = 0;
    for count in 1..6 {
        let through = [("PAGEMARK_DYNAMODB_URL", &*table.url)];
        kills += usize::from(kill_at(&stores, &through, &table, count, &arguments).await);
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
async fn a_signal_ends_a_run_cleanly() {
    let (stores, _) = start_damaged().await;
    let gate = Gate::holding(&stores.engine_url(), gate::TRANSACTIONS, 1).await;
    let others = [
        ("PAGEMARK_DYNAMODB_URL", gate.url.as_str()),
        ("PAGEMARK_REPAIR_CONCURRENCY", "1"),
    ];
    let stopped = begin(
        &stores,
        &others,
        &[
            "audit",
            "--segments",
            "16",
            "--at-once",
            "1",
            "--apply",
            "--json",
        ],
    )
    .await;
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
    let next = run(&stores, &["audit", "--segments", "16", "--apply"]).await;
    assert_eq!(next.code() & !exit::DRIFT_FOUND, 0, "{next:?}");
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
async fn the_hourly_function_runs_all_commands_and_prints_its_metrics() {
    let (stores, _) = start_damaged().await;
    let function = Function::start("repair-job", repair_job_variables(&stores)).await;
    let event = json!({ "source": "aws.events", "detail-type": "Scheduled Event", "detail": {} })
        .to_string();
    for is_first in [true, false] {
        let answer = function.respond(event.clone(), function::TIMEOUT).await;
        let commands: Vec<&str> = answer["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["command"].as_str().unwrap())
            .collect();
        assert_eq!(commands, ["recent", "quarantine", "audit"]);
        assert_eq!(
            answer["runs"][2]["repaired"].as_u64().unwrap() > 0,
            is_first,
            "{answer}"
        );
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
    assert_eq!(
        (&metrics[0]["Unresolved"], &metrics[0]["AuditedShare"]),
        (&json!(0), &json!(100.0)),
        "{metrics:?}"
    );
    assert!(
        metrics
            .iter()
            .all(|line| line["IndexReachable"] == 1 && line["IndexScanAge"].is_i64()),
        "{metrics:?}"
    );
    stores.finish().await;
}
