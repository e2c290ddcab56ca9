//! The jobs that repair, and what happens to the servers and the data.

use std::time::Duration;

use embedded_index::EmbeddedIndex;
use model::{CommentId, FilterKey, Invariant, plan::index_edits};
use process::now;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use repair_job::{AuditOptions, Job, Report, exit};
use tokio::time::Instant;

use super::{
    checks,
    index::{Copied, PARTITIONS},
    mappings::LAG_MAX,
    plan::{Mode, Part},
    world::{self, Judged, World, product},
    writers,
};
use crate::fixture::damage::delete;

/// The bits of a run that failed or left something.
const BAD: u8 = exit::FAILURE | exit::DRIFT_LEFT | exit::UNRESOLVED | exit::SKIPPED | exit::HELD;

/// Faults of the servers of the page index.
pub(crate) const SERVER_FAULTS: [Part; 4] = [
    Part::IndexEmptied,
    Part::IndexRestored,
    Part::IndexFailsOver,
    Part::IndexRefuses,
];

/// Almost the minute in which a repair takes an edit back. Its last pause may be two seconds.
const TRIED_LONG: Duration = Duration::from_secs(57);

/// How many comments are checked after all other changes.
const LAST_CHECKS: usize = 3;

pub(crate) fn everything() -> AuditOptions {
    AuditOptions {
        segments: 1,
        at_once: 1,
        ..AuditOptions::default()
    }
}

/// What one run of a job draws.
struct Drawn {
    /// Whether an audit resumes one that began so long ago.
    resumes: bool,
    ago_ms: i64,
    /// How long the process lives, if processes die.
    lives_for: Duration,
    /// Whether an audit is a rolling one, which has no beginning.
    rolling: bool,
}

impl Drawn {
    fn draw(random: &mut StdRng) -> Self {
        let resumes = random.random();
        let ago_ms = random.random_range(0..600_000);
        let lives_for = Duration::from_millis(random.random_range(0..2_000));
        let rolling = random.random_bool(0.2);
        Self {
            resumes,
            ago_ms,
            lives_for,
            rolling,
        }
    }
}

/// Runs a job again and again. It may die between any two calls.
pub(crate) async fn job(world: &World, part: Part, every: Duration) {
    let mut random = world.plan.random(&format!("the job {part}"));
    let table = world.table("repair");
    let index = world.index("repair");
    while !world.is_calm() {
        let pause = every.mul_f64(random.random_range(0.3..1.5));
        world.while_not_calm(pause).await;
        world.started().await;
        let job = world.job(table.clone(), index.clone());
        let drawn = Drawn::draw(&mut random);
        let lives_for = if world.plan.has(Part::JobDies) {
            drawn.lives_for
        } else {
            Duration::from_secs(3_600)
        };
        let mut later = None;
        if world.plan.has(Part::LeasesLost) {
            later = Some(Drawn::draw(&mut random));
        }
        let runs = async {
            let first = Box::pin(run_once(world, &job, part, drawn));
            let Some(later) = later else {
                return vec![first.await];
            };
            let other = world.job(table.clone(), index.clone());
            let other = Box::pin(run_without_lease(world, &other, part, later));
            <[Report; 2]>::from(tokio::join!(first, other)).into()
        };
        let run = tokio::time::timeout(lives_for, world.unless_killed(runs));
        let changes = async {
            if world.plan.has(Part::Editors) {
                writers::editor(world, &mut random, 2, Duration::from_millis(400)).await;
            }
        };
        let (ended, ()) = tokio::join!(run, changes);
        match ended {
            Ok(Some(reports)) => {
                for report in reports {
                    note(world, &report);
                    world.check(
                        Invariant::WorkEnds,
                        report.exit_code() & exit::UNRESOLVED == 0,
                        || format!("unresolved: {report}"),
                    );
                }
            }
            Ok(None) | Err(_) => world.trace.note(|| format!("the job {part} died")),
        }
    }
}

/// Runs the job while another run of it may be under way, which loses its lease.
async fn run_without_lease(world: &World, job: &Job, part: Part, drawn: Drawn) -> Report {
    // A run often ends within a second.
    tokio::time::sleep(drawn.lives_for / 8).await;
    let table = world.calm_table();
    for (scope, lease) in table.leases().await.unwrap() {
        table.release_lease(&scope, &lease.holder).await.unwrap();
        world.trace.note(|| format!("the lease {scope} is lost"));
    }
    run_once(world, job, part, drawn).await
}

async fn run_once(world: &World, job: &Job, part: Part, drawn: Drawn) -> Report {
    if part == Part::Audit {
        let since = if drawn.resumes && !drawn.rolling {
            Some(now().plus_ms(-drawn.ago_ms))
        } else {
            None
        };
        let options = AuditOptions {
            since,
            rolling: drawn.rolling,
            ..everything()
        };
        return job.audit(options).await;
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
}

fn note(world: &World, report: &Report) {
    world.repaired.borrow_mut().extend(report.drifted.keys());
    world.trace.note(|| {
        format!(
            "{}: {} checked, {} repaired, {:?}, {}, {:?}",
            report.command,
            report.checked,
            report.repaired,
            report.drifted,
            report.failure.as_deref().unwrap_or("no failure"),
            report.notes
        )
    });
}

/// A process cannot reach the table, longer than an invocation lasts.
pub(crate) async fn outages(world: &World) {
    let mut random = world.plan.random("outages");
    loop {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..180_000))).await;
        let processes = [stream_writer::FUNCTION, "repair", "api one"];
        *world.engine.cut_off.lock().unwrap() = processes.choose(&mut random).unwrap();
        let lasts = Duration::from_millis(random.random_range(0..150_000));
        world.while_not_calm(lasts).await;
        *world.engine.cut_off.lock().unwrap() = "";
    }
}

/// Checks single comments at any time, also while they change.
pub(crate) async fn checks(world: &World) {
    let mut random = world.plan.random("checks");
    let job = world.job(world.table("check"), world.index("check"));
    let mut remaining = 2 * world.plan.changes;
    while remaining > 0 && !world.is_calm() {
        // Right after a change, when what is derived from it is late.
        let id = world.edited.borrow_mut().pop();
        tokio::time::sleep(Duration::from_millis(random.random_range(0..200))).await;
        let Some(id) = id else { continue };
        remaining -= 1;
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
    let was_calm = world.is_calm();
    let (has_failed_long, ()) = tokio::join!(check_fails_long(world, job, id), change);
    if has_failed_long && !was_calm {
        // The page index may hold an edit that could not be taken back. An operator checks again.
        world.until_calm().await;
        check_fails_long(world, job, id).await;
    }
    // Another check would repair what this one has spoilt.
    world.edited.borrow_mut().retain(|edited| edited != id);
}

/// Checks a comment. Returns whether that has failed for almost all the time that a repair has.
async fn check_fails_long(world: &World, job: &Job, id: &CommentId) -> bool {
    world.started().await;
    world.servers.end_failures();
    let product = product();
    let began = Instant::now();
    let Some(report) = world.unless_killed(job.check(id, Some(&product))).await else {
        return false;
    };
    note(world, &report);
    report.exit_code() & BAD != 0 && began.elapsed() >= TRIED_LONG
}

/// Erases everything of the author whose comments are imported, while they are imported again.
pub(crate) async fn erasures(world: &World) {
    let mut random = world.plan.random("erasures");
    let table = world.table("erase");
    let index = world.index("erase");
    while !world.is_calm() {
        let pause = Duration::from_millis(random.random_range(0..200_000));
        world.while_not_calm(pause).await;
        world.started().await;
        let job = world.job(table.clone(), index.clone());
        erase_imported(world, &job).await;
    }
}

async fn erase_imported(world: &World, job: &Job) {
    let ids = writers::imported_ids();
    let began = now();
    for id in &ids {
        world.model.borrow_mut().begin(id, began);
    }
    let author = writers::imported_author();
    let erased = world.unless_killed(job.erase(&author)).await;
    let mut is_complete = false;
    if let Some(report) = erased {
        note(world, &report);
        is_complete = report.exit_code() & BAD == 0;
        // No writer makes a malformed comment here.
        let mut unresolved = report.unresolved.iter();
        let malformed = unresolved.find(|what| what.contains("attribute"));
        world.check(Invariant::ErasedIsGone, malformed.is_none(), || {
            format!("an erasure cannot read a comment: {malformed:?}")
        });
    }
    for id in ids {
        let now = now();
        if is_complete {
            world.model.borrow_mut().answered(&id, None, now);
        } else {
            let done_until = now.plus_ms(writers::DONE_WITHIN_MS);
            world
                .model
                .borrow_mut()
                .unanswered(&id, vec![None], done_until);
        }
        let is_there = world.calm_table().comment(&id).await.unwrap().is_some();
        let is_gone = world.model.borrow().is_gone(&id);
        world.check(Invariant::ErasedIsGone, !is_gone || !is_there, || {
            format!("{id} is there after its erasure")
        });
    }
}

/// What happens to the servers of the page index.
pub(crate) async fn servers(world: &World) {
    let mut random = world.plan.random("servers");
    loop {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..120_000))).await;
        let mut possible = SERVER_FAULTS.to_vec();
        possible.retain(|fault| world.may_fail(*fault));
        let Some(fault) = possible.choose(&mut random) else {
            return;
        };
        // Otherwise a copy is made, by which a later fault replaces the servers.
        let happens = random.random_bool(0.3);
        if *fault == Part::IndexRefuses {
            refuse_writes(world, &mut random).await;
        } else if *fault == Part::IndexEmptied {
            world.servers.restart_with(EmbeddedIndex::new(PARTITIONS));
        } else if *fault == Part::IndexRestored {
            copy_or_replace(world, Copied::Snapshot, happens);
        } else {
            copy_or_replace(world, Copied::Replica, happens);
        }
        world.trace.note(|| format!("servers: {fault}, {happens}"));
    }
}

async fn refuse_writes(world: &World, random: &mut StdRng) {
    // Longer than an invocation, but in Posts within the bound of ADR 57.
    let longest = if world.plan.mode == Mode::Posts {
        LAG_MAX
    } else {
        Duration::from_secs(180)
    };
    world.servers.refuse(true);
    world.while_not_calm(longest.mul_f64(random.random())).await;
    world.servers.refuse(false);
}

fn copy_or_replace(world: &World, copied: Copied, replaces: bool) {
    if replaces {
        world.servers.replace_by(copied);
    } else {
        world.servers.copy(copied);
    }
}

/// Works off the quarantine in a calm world: what the functions never got is then as if they had.
pub(crate) async fn work_off_quarantine(world: &World) {
    if !world.plan.has(Part::Quarantine) {
        return;
    }
    let report = calm_job(world).quarantine(&world.quarantine()).await;
    note(world, &report);
    let is_bad = report.exit_code() & (exit::FAILURE | exit::DRIFT_LEFT | exit::UNRESOLVED) != 0;
    world.check(Invariant::WorkEnds, !is_bad, || {
        format!("the quarantine in a calm world: {report}")
    });
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
            let edits = index_edits(id, None, &[comment.entry()]);
            page_index::Edits::apply(&world.servers.present(), &edits)
                .await
                .unwrap();
        } else {
            let keys: Vec<FilterKey> = comment.placement().duplicate_keys().collect();
            delete(&table, id, keys.choose(&mut random).unwrap()).await;
            world.damaged.borrow_mut().insert(id.clone(), now());
        }
        world.trace.note(|| format!("damage at {id}"));
    }
}

/// Whether only an audit finds everything that the schedule has spoilt.
pub(crate) fn needs_audit(world: &World) -> bool {
    world.plan.mode == Mode::AnyFaults
}

/// A run of the job in a calm world, as an operator starts it.
fn calm_job(world: &World) -> Job {
    world.job(world.table("repair"), world.index("repair"))
}

/// Repairs what a calm world needs, as its operators would. Returns what is wrong with the reports.
pub(crate) async fn repair_once(world: &World) -> Option<String> {
    // Otherwise a record that was lost after the audit explains a difference, too.
    if !world.loses_records() {
        checks::passed_by_audits(world).await;
    }
    if let Some(report) = calm_job(world).rebuild_missing(1).await {
        note(world, &report);
        if report.exit_code() & BAD != 0 {
            return Some(format!("the rebuild of lost partitions: {report}"));
        }
    }
    // What a function applied late, before it lost the next record, the runs of before have passed
    // (docs/operate.md).
    let since = if world.loses_records() {
        Some(world::beginning())
    } else {
        None
    };
    let report = calm_job(world).recent_since(since).await;
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
        let options = AuditOptions {
            since,
            ..everything()
        };
        let report = calm_job(world).audit(options).await;
        note(world, &report);
        if report.exit_code() & BAD != 0 {
            return Some(format!("an audit in a calm world: {report}"));
        }
    }
    None
}
