//! The checks of a folder that a process uses.

use std::{path::Path, time::Duration};

use indicatif::HumanCount;
use model::Timestamp;
use process::now;
use repair_job::{Command, IndexStatus, JobSettings, LastRun, RunArgs, Status, exit};
use tokio::time::timeout;

use super::check::{Check, with_age};
use crate::{
    blocking::blocking,
    control::{SOCKET, request},
    data_dir::{DATA_FILE, Holder, VERSION},
    engine::DataFile,
    stack::TABLE,
};

/// How long a stack may take to say how it is.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A watermark of this age is worth knowing: `recent` runs every minute.
const WATERMARK_AGE_MAX_MS: i64 = 3_600_000;
/// A change that waits this long is worth knowing, as in the alarms of a deployment.
const WAITING_SECONDS_MAX: i64 = 300;

/// Checks what the process that uses the folder says of itself.
pub(super) async fn checks(folder: &Path, holder: Option<&Holder>) -> Vec<Check> {
    let again = "Run doctor again in a moment";
    let Some(holder) = holder else {
        let found =
            "a process uses the folder and does not say which: a stack that is just starting, or an older pagemark";
        return vec![Check::warning("stack", found, again)];
    };
    let who = format!("{holder}, version {},", holder.version);
    let Some(entrance) = &holder.entrance else {
        let found = if holder.is_stack() { "is just starting" } else { "uses the folder" };
        return vec![Check::warning(
            "stack",
            format!("{who} {found}"),
            "Run doctor again when it has started or ended",
        )];
    };
    if holder.version != VERSION {
        let found = format!("{who} runs, and this is version {VERSION}");
        return vec![Check::warning("stack", found, "Use the doctor of the same version")];
    }
    if !entrance.has_socket {
        let runs = Check::ok("stack", format!("{who} runs"));
        let elsewhere = format!("in Redis: `pagemark repair status --data-dir {}` shows it", folder.display());
        return vec![runs, Check::ok("page index", elsewhere)];
    }
    let mut checks = match ask(folder).await {
        Ok(status) => of_status(&who, &status, folder, now()),
        Err(error) => vec![Check::problem(
            "stack",
            format!("{who} does not answer at {SOCKET}: {error:#}"),
            "Its log may say why; restart it if that does not pass",
        )],
    };
    checks.extend(stream(folder).await);
    checks
}

/// Asks the running stack for its status.
async fn ask(folder: &Path) -> anyhow::Result<Status> {
    let args = RunArgs {
        settings: JobSettings::default(),
        explain: false,
        json: true,
        max_run_time: None,
        command: Command::Status { segments: 1, quarantine: None, s3_url: None },
    };
    let socket = folder.join(SOCKET);
    let asked = request(&socket, &args, std::future::pending(), |_, _| {});
    let too_slow = |_| anyhow::anyhow!("no status came within {} s", ANSWER_WITHIN.as_secs());
    Ok(serde_json::from_str(&timeout(ANSWER_WITHIN, asked).await.map_err(too_slow)??.output)?)
}

/// The checks of a status.
fn of_status(who: &str, status: &Status, folder: &Path, present: Timestamp) -> Vec<Check> {
    let mut checks = vec![Check::ok("stack", format!("{who} runs and answers")), page_index(&status.index)];
    let of_index = status.index.as_ref().ok().and_then(|index| index.oldest_watermark);
    checks.push(repair(status.duplicates_watermark, of_index, status.journal_reaches_back, present));
    let is_bad = |run: &&LastRun| run.exit_code & (exit::FAILURE | exit::UNRESOLVED) != 0;
    checks.extend(status.last_runs.iter().filter(is_bad).map(|run| {
        let ended = with_age(run.ended, present);
        let found = format!(
            "the last `{}` ended with exit code {} {ended}, {} unresolved",
            run.command, run.exit_code, run.unresolved
        );
        let advice = format!("`pagemark repair {} --data-dir {}` says what is wrong", run.command, folder.display());
        Check::problem("repair", found, advice)
    }));
    checks
}

fn page_index(index: &Result<IndexStatus, String>) -> Check {
    let advice = "Wait while the stack starts; if that lasts, its log says why";
    match index {
        Ok(IndexStatus { ready, stale: 0, unmarked: 0, .. }) => {
            Check::ok("page index", format!("all {ready} partitions are ready"))
        }
        Ok(IndexStatus { ready, stale, unmarked, .. }) => {
            let (not, all) = (stale + unmarked, ready + stale + unmarked);
            let found = format!("{not} of {all} partitions are not ready: numbered pages answer 503");
            Check::problem("page index", found, advice)
        }
        Err(error) => Check::problem("page index", error.clone(), advice),
    }
}

/// How far `recent` has come, in the duplicates and in the page index.
fn repair(
    duplicates: Option<Timestamp>,
    index: Option<Timestamp>,
    journal_reaches_back: bool,
    present: Timestamp,
) -> Check {
    let Some(watermark) = duplicates.into_iter().chain(index).min() else {
        return Check::ok("repair", "`recent` has not run yet");
    };
    let found = format!("changes are reconciled up to {}", with_age(watermark, present));
    if !journal_reaches_back {
        return Check::problem(
            "repair",
            format!("{found}, further back than the journal"),
            "Run `pagemark repair audit --apply`",
        );
    }
    if present.epoch_ms() - watermark.epoch_ms() > WATERMARK_AGE_MAX_MS {
        return Check::warning(
            "repair",
            found,
            "`recent` stands still: `--repair-every` may be 0, or the log says why",
        );
    }
    Check::ok("repair", found)
}

/// The records that wait for the functions. A stack on another engine has none here.
async fn stream(folder: &Path) -> Option<Check> {
    let data_file = folder.join(DATA_FILE);
    if !data_file.exists() {
        return None;
    }
    let backlog = blocking(move || DataFile::of_running(&data_file)?.backlog(TABLE)).await;
    Some(match backlog {
        Ok(backlog) => {
            let waits = format!("{} records to deliver", HumanCount(backlog.records));
            let oldest =
                backlog.since.map(|since| now().epoch_seconds() - since).filter(|age| *age > WAITING_SECONDS_MAX);
            match oldest {
                Some(age) => Check::warning(
                    "stream",
                    format!("{waits}, the oldest for {age} s"),
                    "After a large import, wait; otherwise the stack's log says what fails",
                ),
                None => Check::ok("stream", waits),
            }
        }
        Err(error) => {
            Check::warning("stream", format!("its length is unknown: {error}"), "Run this as the user of the stack")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    /// A status in which all is well, at 6 o'clock.
    fn well() -> Status {
        let watermark = Some(at("2026-01-31T05:58:00Z"));
        Status {
            index: Ok(IndexStatus {
                ready: 256,
                stale: 0,
                unmarked: 0,
                oldest_watermark: watermark,
                oldest_confirmation: watermark,
            }),
            duplicates_watermark: watermark,
            journal_reaches_back: true,
            last_runs: Vec::new(),
            segments: 1,
            audited_share: 0.0,
            last_index_scan: None,
            index_scanned_since: None,
            running: Vec::new(),
            quarantined: None,
        }
    }

    /// What is not all right about a status.
    fn troubles(status: &Status) -> Vec<(&'static str, State)> {
        // It arrives as JSON.
        let status: Status = serde_json::from_str(&serde_json::to_string(status).unwrap()).unwrap();
        let checks = of_status("it", &status, Path::new("/d"), at("2026-01-31T06:00:00Z")).into_iter();
        checks.map(|check| (check.check, check.state)).filter(|(_, state)| *state != State::Ok).collect()
    }

    #[test]
    fn what_a_running_stack_says_of_itself_is_judged() {
        assert_eq!(troubles(&well()), []);
        assert_eq!(troubles(&Status { duplicates_watermark: None, ..well() }), []);
        let late = Some(at("2026-01-31T04:00:00Z"));
        assert_eq!(troubles(&Status { duplicates_watermark: late, ..well() }), [("repair", State::Warning)]);
        assert_eq!(troubles(&Status { journal_reaches_back: false, ..well() }), [("repair", State::Problem)]);
        let run = |exit_code| LastRun {
            command: "audit".to_owned(),
            began: at("2026-01-31T05:00:00Z"),
            ended: at("2026-01-31T05:01:00Z"),
            exit_code,
            checked: 1,
            repaired: 0,
            unresolved: 1,
        };
        let runs = vec![run(exit::UNRESOLVED), run(exit::DRIFT_FOUND), run(exit::FAILURE)];
        let problem = ("repair", State::Problem);
        assert_eq!(troubles(&Status { last_runs: runs, ..well() }), [problem, problem]);
        for index in [
            Err("no answer".to_owned()),
            well().index.map(|index| IndexStatus { ready: 255, stale: 1, ..index }),
            well().index.map(|index| IndexStatus { ready: 255, unmarked: 1, ..index }),
        ] {
            assert_eq!(troubles(&Status { index, ..well() }), [("page index", State::Problem)]);
        }
    }
}
