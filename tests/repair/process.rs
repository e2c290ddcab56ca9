//! The binary: its exit codes and reports, killed at any point, run twice in parallel, and as a Lambda function.

use std::{process::Stdio, time::Duration};

use model::CommentId;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use repair_job::exit;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::{assert_clean, job, ready_stores, whole};
use crate::fixture::{
    WAIT_MAX,
    damage::{Damage, inflict},
    function::{self, Function, repair_job_variables, with},
    gate::Gate,
    runtime_api::Outcome,
    stores::Stores,
    wait_for,
};

/// How often a run is killed before it may complete.
const KILLS: usize = 12;

/// Comments damaged before each run.
const DAMAGED: usize = 8;

/// Starts a command with variables that name its stores, as an operator would.
pub(super) async fn begin(stores: &Stores, others: &[(&'static str, &str)], arguments: &[&str]) -> Child {
    let mut command = Command::new(function::binary("repair-job").await);
    command.env_clear().env("AWS_EC2_METADATA_DISABLED", "true");
    command.envs(with(repair_job_variables(stores), others));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true).spawn().unwrap()
}

/// The output of a command.
#[derive(Debug)]
pub(super) struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Said {
    pub(super) fn code(&self) -> u8 {
        u8::try_from(self.code.unwrap_or(-1)).unwrap_or_else(|_| panic!("no exit code: {self:?}"))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(super) async fn end(child: Child) -> Said {
    let output = tokio::time::timeout(function::TIMEOUT, child.wait_with_output()).await.expect("its end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub(super) async fn run(stores: &Stores, arguments: &[&str]) -> Said {
    end(begin(stores, &[], arguments).await).await
}

/// Runs a command after the lease of a killed run has expired.
pub(super) async fn run_when_free(stores: &Stores, arguments: &[&str]) -> Said {
    wait_for("the end of the lease", async || {
        let said = run(stores, arguments).await;
        if said.code() & exit::HELD == 0 { Ok(said) } else { Err(said) }
    })
    .await
}

/// Kills a run at a write: the gate lets `count` writes through and holds the next. A run that ends earlier is left to
/// end. Returns whether the run was killed.
pub(super) async fn kill_at(
    stores: &Stores,
    variables: &[(&'static str, &str)],
    gate: &Gate,
    count: usize,
    arguments: &[&str],
) -> bool {
    wait_for("the end of the lease of the run before", async || {
        gate.hold_after(count);
        let mut child = begin(stores, variables, arguments).await;
        let ended = wait_for("the run's write, or its end", async || match child.try_wait().unwrap() {
            None if gate.is_holding() => Ok(None),
            None => Err(()),
            Some(status) => Ok(Some(status)),
        });
        let ended = ended.await;
        child.start_kill().ok();
        child.wait().await.unwrap();
        gate.open();
        let is_held = ended.is_some_and(|status| status.code() == Some(exit::HELD.into()));
        if is_held { Err(()) } else { Ok(ended.is_none()) }
    })
    .await
}

/// The variables that send a run through two gates.
fn through<'gate>(table: &'gate Gate, index: &'gate Gate) -> [(&'static str, &'gate str); 2] {
    [("PAGEMARK_DYNAMODB_URL", &table.url), ("PAGEMARK_REDIS_URL", &index.url)]
}

/// Creates comments with damage of every kind.
async fn damaged(stores: &Stores, seed: u64) -> Vec<CommentId> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut comments = Vec::new();
    for number in 0..40 {
        comments.push(stores.create_numbered(number, super::product(number)).await);
    }
    stores.deliver_all().await;
    let kinds = Damage::ALL.into_iter().filter(|damage| *damage != Damage::DropName).cycle();
    for (comment, damage) in comments.iter().zip(kinds) {
        inflict(stores, &mut random, comment, damage).await;
    }
    comments.into_iter().map(|comment| comment.id).collect()
}

#[tokio::test]
async fn each_command_says_in_its_exit_code_and_its_report_what_it_found() {
    let stores = ready_stores().await;
    let ids = damaged(&stores, 71).await;
    let looked = run(&stores, &["audit", "--segments", "1", "--json"]).await;
    assert_eq!(looked.code(), exit::DRIFT_FOUND | exit::DRIFT_LEFT, "{looked:?}");
    let report = looked.json();
    assert_eq!((&report["apply"], &report["exit_code"]), (&json!(false), &json!(looked.code())), "{report}");
    assert!(report["drifted"]["missing_duplicate"].as_u64() > Some(0), "{report}");
    assert!(report["read_units_per_comment"].as_f64() > Some(0.0), "{report}");

    let explained = run(&stores, &["audit", "--explain"]).await;
    assert_eq!(explained.code(), 0, "{explained:?}");
    assert!(explained.stdout.contains("reads:") && explained.stdout.contains("writes:"), "{explained:?}");

    let check = run(&stores, &["check", ids[0].as_str()]).await;
    assert_eq!(check.code(), exit::DRIFT_FOUND | exit::DRIFT_LEFT, "{check:?}");
    assert!(check.stdout.contains("missing duplicate") && check.stdout.contains("PRODUCT#"), "{check:?}");
    assert!(check.stdout.contains("should be") && check.stdout.contains("like the primary item"), "{check:?}");
    let rows = run(&stores, &["check", ids[1].as_str(), "--json"]).await.json()["rows"].clone();
    let stale = rows.as_array().unwrap().iter().find(|row| row["state"] == "stale duplicate");
    assert!(stale.is_some_and(|row| row["is"] != row["should_be"] && row["key"].is_string()), "{rows}");

    let mended = run(&stores, &["audit", "--segments", "1", "--apply", "--max-run-time", "5m"]).await;
    assert_eq!(mended.code(), exit::DRIFT_FOUND, "{mended:?}");
    assert!(mended.stdout.contains("mended") && mended.stdout.contains("units:"), "{mended:?}");
    stores.assert_invariants().await;
    for command in [
        &["audit", "--segments", "1", "--apply", "--max-read-units", "100000"] as &[&str],
        &["recent", "--apply"],
        &["quarantine", "--apply"],
        &["check", ids[0].as_str()],
    ] {
        let again = run(&stores, command).await;
        // No window of the journal has settled yet, so the first run of `recent` checks nothing.
        assert_eq!(again.code(), 0, "{command:?} {again:?}");
    }
    let limited = run(&stores, &["audit", "--apply", "--max-run-time", "0"]).await;
    assert_eq!(limited.code(), exit::SKIPPED, "{limited:?}");
    assert!(limited.stdout.contains("its time is up; the next run goes on in segment"), "{limited:?}");

    let limited = run(&stores, &["check", ids[0].as_str(), "--max-run-time", "0", "--json"]).await;
    assert_eq!((limited.code(), &limited.json()["checked"]), (exit::SKIPPED, &json!(0)), "{limited:?}");

    let status = run(&stores, &["status", "--segments", "1", "--json"]).await.json();
    assert_eq!((&status["audited_share"], &status["quarantined"]), (&json!(1.0), &json!(0)), "{status}");
    assert_eq!(status["running"], json!([]), "{status}");
    let runs: Vec<&str> =
        status["last_runs"].as_array().unwrap().iter().filter_map(|run| run["command"].as_str()).collect();
    assert_eq!(runs, ["audit", "quarantine", "recent"]);
    let wrong = run(&stores, &["no-such-command"]).await;
    assert_eq!(wrong.code(), exit::USAGE, "{wrong:?}");
    assert!(wrong.stderr.contains("no-such-command"), "{wrong:?}");
    assert_eq!(run(&stores, &["audit", "--segment", "7", "--segments", "7"]).await.code(), exit::USAGE);
    stores.finish().await;
}

#[tokio::test]
async fn a_run_that_is_killed_at_any_point_is_made_good_by_the_next() {
    let stores = ready_stores().await;
    let mut random = StdRng::seed_from_u64(72);
    let mut comments = Vec::new();
    for number in 0..40 {
        comments.push(stores.create_numbered(number, super::product(number)).await);
    }
    stores.deliver_all().await;
    let arguments = ["audit", "--segments", "2", "--apply", "--restart"];
    let (table, index) = (Gate::for_transactions(&stores.engine_url()).await, Gate::for_edits(&stores.redis_url).await);
    let mut kills = 0;
    for kill in 0..KILLS {
        // Kill it before one of its writes: duplicates or rank entries. The held write arrives after its process is
        // gone, like a write delayed by the network.
        let gate = if kill % 2 == 0 { &table } else { &index };
        // Give each run something to write.
        for comment in comments.sample(&mut random, DAMAGED) {
            for damage in [Damage::AlterDuplicate, Damage::DropRanks] {
                inflict(&stores, &mut random, comment, damage).await;
            }
        }
        let count = random.random_range(0..4);
        kills += usize::from(kill_at(&stores, &through(&table, &index), gate, count, &arguments).await);
    }
    assert!(kills >= KILLS * 3 / 4, "only {kills} runs were killed");
    let last = run_when_free(&stores, &arguments).await;
    assert_eq!(last.code() & !exit::DRIFT_FOUND, 0, "{last:?}");
    stores.assert_invariants().await;
    assert_clean(&job(&stores, false).audit(whole()).await);
    stores.finish().await;
}

#[tokio::test]
async fn an_audit_that_is_killed_at_its_checkpoints_is_made_good_by_the_next() {
    let stores = ready_stores().await;
    damaged(&stores, 76).await;
    let arguments = ["audit", "--segments", "3", "--apply"];
    let (table, index) = (Gate::for_checkpoints(&stores.engine_url()).await, Gate::for_edits(&stores.redis_url).await);
    // The audit first reads the checkpoints. Then it writes its position, and that a segment is done.
    let mut kills = 0;
    for count in 1..6 {
        kills += usize::from(kill_at(&stores, &through(&table, &index), &table, count, &arguments).await);
    }
    assert!(kills >= 3, "only {kills} runs were killed");
    // The audit resumes from the checkpoints. A checkpoint ahead of the work would leave damage.
    let last = run_when_free(&stores, &arguments).await;
    assert_eq!(last.code() & !exit::DRIFT_FOUND, 0, "{last:?}");
    stores.assert_invariants().await;
    assert_clean(&job(&stores, false).audit(whole()).await);
    stores.finish().await;
}

#[tokio::test]
async fn a_rebuild_that_is_killed_at_any_point_leaves_nothing_that_is_believed_and_the_next_is_ready() {
    let stores = ready_stores().await;
    for number in 0..40 {
        stores.create_numbered(number, super::product(number)).await;
    }
    stores.deliver_all().await;
    let arguments = ["rebuild", "--segments", "2", "--apply"];
    let (table, index) = (Gate::for_scans(&stores.redis_url).await, Gate::for_edits(&stores.redis_url).await);
    let engine = Gate::for_calls(&stores.engine_url()).await;
    let unmarked = async || job(&stores, false).status(1, None).await.unwrap().index.unwrap().unmarked;
    let mut kills = 0;
    for (gate, count) in [(&table, 0), (&index, 0), (&table, 1), (&index, 1)] {
        kills += usize::from(kill_at(&stores, &through(&engine, gate), gate, count, &arguments).await);
        // The held write arrives after its process is gone.
        println!("killed after {count}: {} partitions without a marker", unmarked().await);
        let readiness = job(&stores, true).recent().await;
        assert_eq!(readiness.exit_code() & (exit::FAILURE | exit::UNRESOLVED), 0, "{readiness}");
    }
    assert!(kills >= 2, "only {kills} runs were killed");
    let last = run_when_free(&stores, &arguments).await;
    assert_eq!(last.code(), 0, "{last:?}");
    assert_eq!(unmarked().await, 0);
    stores.assert_invariants().await;
    assert_clean(&job(&stores, false).audit(whole()).await);
    stores.finish().await;
}

#[tokio::test]
async fn a_rebuild_that_is_killed_while_it_reads_the_table_is_made_good_by_the_next() {
    let stores = ready_stores().await;
    for number in 0..40 {
        stores.create_numbered(number, super::product(number)).await;
    }
    stores.deliver_all().await;
    let index = Gate::for_edits(&stores.redis_url).await;
    let rebuild = ["rebuild", "--segments", "2", "--apply"];
    let queries = Gate::for_primaries(&stores.engine_url()).await;
    assert_clean(&job(&stores, true).recent().await);
    for count in [0, 3, 40] {
        let killed = kill_at(&stores, &through(&queries, &index), &queries, count, &rebuild).await;
        assert!(killed, "it ended before {count}");
        let status = job(&stores, false).status(1, None).await.unwrap();
        assert_eq!(status.index.unwrap().ready, 0, "killed after {count}");
        assert_eq!(job(&stores, true).recent().await.exit_code(), exit::SKIPPED);
    }
    let last = run_when_free(&stores, &rebuild).await;
    assert_eq!(last.code(), 0, "{last:?}");
    assert!(last.stdout.contains("40 comments"), "{last:?}");
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
async fn of_two_runs_at_once_the_second_says_who_is_at_work_and_leaves() {
    let stores = ready_stores().await;
    damaged(&stores, 73).await;
    let gate = Gate::for_transactions(&stores.engine_url()).await;
    gate.hold_after(1);
    let arguments = ["audit", "--segments", "1", "--apply", "--json"];
    // A lease long enough not to expire on a busy machine.
    let others = [("PAGEMARK_DYNAMODB_URL", &*gate.url), ("PAGEMARK_REPAIR_LEASE", "1m")];
    let first = begin(&stores, &others, &arguments).await;
    let pid = first.id().unwrap();
    wait_for("the first run's writes", async || if gate.is_holding() { Ok(()) } else { Err(()) }).await;
    let second = run(&stores, &arguments).await;
    assert_eq!(second.code(), exit::HELD, "{second:?}");
    let held_by = second.json()["held_by"].as_str().unwrap().to_owned();
    assert!(held_by.contains(&format!("process {pid} ")) && held_by.contains("since"), "{held_by}");
    assert_eq!(second.json()["checked"], 0);
    let plain = run(&stores, &["audit", "--apply"]).await;
    assert!(plain.stdout.contains("another run is in progress"), "{plain:?}");
    // The lease blocks neither a dry run nor another kind of run.
    assert_eq!(run(&stores, &["audit", "--segments", "1"]).await.code(), exit::DRIFT_FOUND | exit::DRIFT_LEFT);
    assert_eq!(run(&stores, &["recent", "--apply"]).await.code(), 0);
    gate.open();
    let first = end(first).await;
    assert_eq!(first.code(), exit::DRIFT_FOUND, "{first:?}");
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
async fn a_signal_ends_a_run_cleanly() {
    let stores = ready_stores().await;
    damaged(&stores, 74).await;
    let gate = Gate::for_transactions(&stores.engine_url()).await;
    gate.hold_after(1);
    let others = [("PAGEMARK_DYNAMODB_URL", gate.url.as_str()), ("PAGEMARK_REPAIR_CONCURRENCY", "1")];
    let mut child =
        begin(&stores, &others, &["audit", "--segments", "16", "--at-once", "1", "--apply", "--json"]).await;
    wait_for("the run's writes", async || if gate.is_holding() { Ok(()) } else { Err(()) }).await;
    crate::fixture::redis_server::signal(child.id().unwrap(), "TERM");
    // The process receives the signal while the write is held.
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let noted = async {
        while let Some(line) = stderr.next_line().await.unwrap() {
            if line.contains("stopping") {
                return;
            }
        }
        panic!("the signal was not noted");
    };
    tokio::time::timeout(WAIT_MAX, noted).await.expect("a word about the signal");
    gate.open();
    let said = end(child).await;
    assert_eq!(said.code() & (exit::SKIPPED | exit::FAILURE), exit::SKIPPED, "{said:?}");
    assert_eq!(said.json()["stopped"]["reason"], "asked", "{said:?}");
    // The run released its lease.
    let next = run(&stores, &["audit", "--segments", "16", "--apply"]).await;
    assert_eq!(next.code() & !exit::DRIFT_FOUND, 0, "{next:?}");
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
async fn the_function_makes_a_new_page_index_ready_when_it_is_told_to() {
    let stores = Stores::start().await;
    for number in 0..20 {
        stores.create_numbered(number, super::product(number)).await;
    }
    let function = Function::start("repair-job", repair_job_variables(&stores)).await;
    let rebuild = json!({ "command": "rebuild" }).to_string();
    let Outcome::Response(answer) = function.invoke(rebuild, function::TIMEOUT).await else { panic!("it failed") };
    assert_eq!(answer["runs"].as_array().unwrap().len(), 1, "{answer}");
    let run = &answer["runs"][0];
    assert_eq!((&run["command"], &run["exit_code"]), (&json!("rebuild"), &json!(0)), "{run}");
    assert!(run["notes"][0].as_str().unwrap().starts_with("20 comments"), "{run}");
    let index = &answer["status"]["index"]["Ok"];
    assert_eq!((&index["stale"], &index["unmarked"]), (&json!(0), &json!(0)), "{answer}");
    assert!(index["ready"].as_u64() > Some(0), "{answer}");
    function.finish().await;
    stores.deliver_all().await;
    stores.finish().await;
}

#[tokio::test]
async fn the_function_does_all_of_it_every_hour_and_prints_its_metrics() {
    let stores = ready_stores().await;
    damaged(&stores, 75).await;
    let variables = with(repair_job_variables(&stores), &[("PAGEMARK_AUDIT_SEGMENTS", "1")]);
    let function = Function::start("repair-job", variables).await;
    let event = json!({ "source": "aws.events", "detail-type": "Scheduled Event", "detail": {} }).to_string();
    for is_first in [true, false] {
        let Outcome::Response(answer) = function.invoke(event.clone(), function::TIMEOUT).await else {
            panic!("the function failed")
        };
        let commands: Vec<&str> =
            answer["runs"].as_array().unwrap().iter().map(|run| run["command"].as_str().unwrap()).collect();
        assert_eq!(commands, ["recent", "quarantine", "audit"]);
        assert_eq!(answer["runs"][2]["mended"].as_u64().unwrap() > 0, is_first, "{answer}");
        assert_eq!(answer["status"]["audited_share"], 1.0, "{answer}");
        stores.assert_invariants().await;
    }
    // The second invocation has too little time, so it stops before it begins.
    let Outcome::Response(answer) = function.invoke(event, Duration::from_secs(14)).await else { panic!("it failed") };
    assert_eq!(answer["runs"][0]["stopped"]["reason"], "time_is_up", "{answer}");
    let ended = function.finish().await;
    let metrics = ended.metrics();
    assert_eq!(metrics.len(), 3);
    assert!(metrics[0]["Mended"].as_u64() > Some(0) && metrics[1]["Mended"] == 0, "{metrics:?}");
    assert_eq!((&metrics[0]["Unresolved"], &metrics[0]["AuditedShare"]), (&json!(0), &json!(100.0)), "{metrics:?}");
    assert!(metrics.iter().all(|line| line["IndexReachable"] == 1 && line["SweepAge"].is_i64()), "{metrics:?}");
    stores.finish().await;
}
