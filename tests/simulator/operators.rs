//! The jobs that repair, and what happens to the servers and the data.

use std::time::Duration;

use embedded_index::EmbeddedIndex;
use model::{CommentId, FilterKey, plan::index_edits};
use process::now;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use repair_job::{AuditOptions, Job, Report, exit};

use super::{
    index::{Copied, PARTITIONS},
    mappings::LAG_MAX,
    plan::{Mode, Part},
    world::{self, World, product},
    writers,
};
use crate::fixture::damage::delete;

/// The bits of a run that failed or left something.
const BAD: u8 = exit::FAILURE | exit::DRIFT_LEFT | exit::UNRESOLVED | exit::SKIPPED | exit::HELD;

/// How many comments are checked after all other changes.
const LAST_CHECKS: usize = 3;

pub(crate) fn everything() -> AuditOptions {
    AuditOptions {
        segments: 1,
        at_once: 1,
        ..AuditOptions::default()
    }
}

/// Runs a job again and again. It may die between any two calls.
pub(crate) async fn job(world: &World, part: Part, every: Duration) {
    let mut random = world.plan.random(&format!("the job {part}"));
    let (table, index) = (world.table("repair"), world.index("repair"));
    while !world.is_calm() {
        world
            .while_not_calm(every.mul_f64(random.random_range(0.3..1.5)))
            .await;
        world.started().await;
        let job = world.job(table.clone(), index.clone());
        let (resumes, ago_ms, ms) = (
            random.random(),
            random.random_range(0..600_000),
            random.random_range(0..2_000),
        );
        let rolling = random.random_bool(0.2);
        let run = async {
            if part == Part::Audit {
                let since = bool::then(resumes && !rolling, || now().plus_ms(-ago_ms));
                return job
                    .audit(AuditOptions {
                        since,
                        rolling,
                        ..everything()
                    })
                    .await;
            }
            if part == Part::Rebuild {
                return job.rebuild(1).await;
            }
            if part == Part::Quarantine {
                return job.quarantine(&world.quarantine()).await;
            }
            if let Some(report) = job.rebuild_missing(1).await {
                note(world, &report);
            }
            job.recent().await
        };
        let changes = async {
            if world.plan.has(Part::Editors) {
                writers::editor(world, &mut random, 2, Duration::from_millis(400)).await;
            }
        };
        let lives_for = match world.plan.has(Part::JobDies) {
            true => Duration::from_millis(ms),
            false => Duration::from_secs(3_600),
        };
        match tokio::join!(
            tokio::time::timeout(lives_for, world.unless_killed(run)),
            changes
        )
        .0
        {
            Ok(Some(report)) => {
                note(world, &report);
                world.check(report.exit_code() & exit::UNRESOLVED == 0, || {
                    format!("unresolved: {report}")
                });
            }
            Ok(None) | Err(_) => world.trace.note(|| format!("the job {part} died")),
        }
    }
}

fn note(world: &World, report: &Report) {
    world.trace.note(|| {
        let (failure, drifted) = (
            report.failure.as_deref().unwrap_or("no failure"),
            &report.drifted,
        );
        let Report {
            command,
            checked,
            repaired,
            ..
        } = report;
        format!(
            "{command}: {checked} checked, {repaired} repaired, {drifted:?}, {failure}, {:?}",
            report.notes
        )
    });
}

/// A process cannot reach the table, longer than an invocation lasts.
pub(crate) async fn outages(world: &World) {
    let mut random = world.plan.random("outages");
    loop {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..180_000))).await;
        *world.engine.cut_off.lock().unwrap() = [stream_writer::FUNCTION, "repair", "api one"]
            .choose(&mut random)
            .unwrap();
        world
            .while_not_calm(Duration::from_millis(random.random_range(0..150_000)))
            .await;
        *world.engine.cut_off.lock().unwrap() = "";
    }
}

/// Checks single comments at any time, also while they change.
pub(crate) async fn checks(world: &World) {
    let mut random = world.plan.random("checks");
    let job = world.job(world.table("check"), world.index("check"));
    let mut left = 2 * world.plan.changes;
    while left > 0 && !world.is_calm() {
        // Right after a change, when what is derived from it is late.
        let id = world.edited.borrow_mut().pop();
        tokio::time::sleep(Duration::from_millis(random.random_range(0..200))).await;
        let Some(id) = id else { continue };
        left -= 1;
        check_while_it_changes(world, &job, &id, &mut random).await;
    }
    // What the last checks spoil, no other repair finds.
    world.until_calm().await;
    let ids = world.model.borrow().ids();
    for id in ids.sample(&mut random, LAST_CHECKS) {
        writers::change(world, &mut random, id).await;
        check_while_it_changes(world, &job, id, &mut random).await;
    }
}

async fn check_while_it_changes(world: &World, job: &Job, id: &CommentId, random: &mut StdRng) {
    world.started().await;
    let change = async {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..2_000))).await;
        writers::change(world, random, id).await;
    };
    let product = product();
    let (checked, ()) = tokio::join!(world.unless_killed(job.check(id, Some(&product))), change);
    if let Some(report) = checked {
        note(world, &report);
    }
    // Another check would repair what this one has spoilt.
    world.edited.borrow_mut().retain(|edited| edited != id);
}

/// Erases everything of the author whose comments are imported, while they are imported again.
pub(crate) async fn erasures(world: &World) {
    let mut random = world.plan.random("erasures");
    let (table, index) = (world.table("erase"), world.index("erase"));
    while !world.is_calm() {
        world
            .while_not_calm(Duration::from_millis(random.random_range(0..200_000)))
            .await;
        world.started().await;
        let (ids, began) = (writers::imported_ids(), now());
        ids.iter()
            .for_each(|id| world.model.borrow_mut().begin(id, began));
        let job = world.job(table.clone(), index.clone());
        let erased = world
            .unless_killed(job.erase(&writers::imported_author()))
            .await;
        erased.iter().for_each(|report| note(world, report));
        let is_complete = erased
            .as_ref()
            .is_some_and(|report| report.exit_code() & BAD == 0);
        // Nobody writes a malformed comment here.
        let mut unresolved = erased.iter().flat_map(|report| &report.unresolved);
        let malformed = unresolved.find(|what| what.contains("attribute"));
        world.check(malformed.is_none(), || {
            format!("an erasure cannot read a comment: {malformed:?}")
        });
        for id in ids {
            let now = now();
            if is_complete {
                world.model.borrow_mut().answered(&id, None, now);
            } else {
                world.model.borrow_mut().unanswered(
                    &id,
                    vec![None],
                    now.plus_ms(writers::DONE_WITHIN_MS),
                );
            }
            let is_there = world.calm_table().comment(&id).await.unwrap().is_some();
            let is_gone = world.model.borrow().is_gone(&id);
            world.check(!is_gone || !is_there, || {
                format!("{id} is there after its erasure")
            });
        }
    }
}

/// What happens to the servers of the page index.
pub(crate) async fn servers(world: &World) {
    let mut random = world.plan.random("servers");
    loop {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..120_000))).await;
        let kinds = [
            Part::IndexEmptied,
            Part::IndexRestored,
            Part::IndexFailsOver,
            Part::IndexRefuses,
        ];
        let kinds: Vec<Part> = kinds
            .into_iter()
            .filter(|kind| world.may_fail(*kind))
            .collect();
        let Some(kind) = kinds.choose(&mut random) else {
            return;
        };
        let happens = random.random_bool(0.3);
        let copied = if *kind == Part::IndexRestored {
            Copied::Snapshot
        } else {
            Copied::Replica
        };
        if *kind == Part::IndexRefuses {
            // Longer than an invocation, but in Posts within the bound of ADR 57.
            let longest = if world.plan.mode == Mode::Posts {
                LAG_MAX
            } else {
                Duration::from_secs(180)
            };
            world.servers.refuse(true);
            world.while_not_calm(longest.mul_f64(random.random())).await;
            world.servers.refuse(false);
        } else if *kind == Part::IndexEmptied {
            world.servers.restart_with(EmbeddedIndex::new(PARTITIONS));
        } else if happens {
            world.servers.replace_by(copied);
        } else {
            world.servers.copy(copied);
        }
        world.trace.note(|| format!("servers: {kind}, {happens}"));
    }
}

/// Works off the quarantine in a calm world: what the functions never got is then as if they had.
pub(crate) async fn work_off_quarantine(world: &World) {
    if world.plan.has(Part::Quarantine) {
        let report = world
            .job(world.table("repair"), world.index("repair"))
            .quarantine(&world.quarantine())
            .await;
        note(world, &report);
        let is_bad =
            report.exit_code() & (exit::FAILURE | exit::DRIFT_LEFT | exit::UNRESOLVED) != 0;
        world.check(!is_bad, || {
            format!("the quarantine in a calm world: {report}")
        });
    }
}

/// Something else than Pagemark damages what is derived from comments.
pub(crate) async fn damage(world: &World) {
    let mut random = world.plan.random("damage");
    let table = world.calm_table();
    while world.may_fail(Part::Damage) {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60_000))).await;
        let ids = world.model.borrow().ids();
        let Some(id) = ids.choose(&mut random) else {
            continue;
        };
        let Some(comment) = table.comment(id).await.unwrap() else {
            continue;
        };
        if random.random() {
            let edits = index_edits(id, None, &[comment.placement()]);
            page_index::Edits::apply(&world.servers.present(), &edits)
                .await
                .unwrap();
        } else {
            let keys: Vec<FilterKey> = comment.placement().duplicate_keys().collect();
            delete(&table, id, keys.choose(&mut random).unwrap()).await;
        }
        world.trace.note(|| format!("damage at {id}"));
    }
}

/// Whether only an audit finds everything that the schedule has spoilt.
pub(crate) fn needs_audit(world: &World) -> bool {
    world.plan.mode == Mode::AnyFaults
}

/// Repairs what a calm world needs, as its operators would. Returns what is wrong with the reports.
pub(crate) async fn repair_once(world: &World) -> Option<String> {
    let job = || world.job(world.table("repair"), world.index("repair"));
    if let Some(report) = job().rebuild_missing(1).await {
        note(world, &report);
        if report.exit_code() & BAD != 0 {
            return Some(format!("the rebuild of lost partitions: {report}"));
        }
    }
    // What a function applied late, before it lost the next record, the runs of before have passed
    // (docs/operate.md).
    let report = job()
        .recent_since(world.loses_records().then(world::beginning))
        .await;
    note(world, &report);
    if report.exit_code() & BAD != 0 {
        return Some(format!("recent in a calm world: {report}"));
    }
    if !needs_audit(world) {
        return None;
    }
    // An audit that is resumed does not look again at what it has passed. So a second audit
    // follows.
    let audits = if world.plan.seed.is_multiple_of(2) {
        vec![None]
    } else {
        vec![Some(world::beginning()), None]
    };
    for since in audits {
        let report = job()
            .audit(AuditOptions {
                since,
                ..everything()
            })
            .await;
        note(world, &report);
        if report.exit_code() & BAD != 0 {
            return Some(format!("an audit in a calm world: {report}"));
        }
    }
    None
}
