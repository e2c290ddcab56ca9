//! `recent`: repairs every comment that the journal names since the watermarks, and advances the
//! watermarks.
//!
//! It confirms the page index at its beginning, at its end and every minute in between (`confirm`).
//!
//! **Invariant:** a watermark passes a part of the journal only when no comment of the part is
//! unfinished. Each was repaired, was reported as unresolved, or keeps changing. A comment that
//! keeps changing is named again by a later part. Every part is complete, because its entries have
//! reached the journal's minimum age.

use std::time::Duration;

use model::Timestamp;
use process::{StoreError, now};
use tokio::time::Instant;

use crate::{
    find::journal::{JournalFinder, Window, oldest_entry},
    repair::{
        index_snapshot::{IndexSnapshot, RepairScope},
        pipeline::Pipeline,
        repair_all,
    },
    run::{Job, Run, outcome::CommentOutcome, report::Report, settings::ms, unresolved},
    state::confirm::Confirmer,
};

/// How often the watermarks advance through empty parts of the journal.
const ADVANCE_EVERY: Duration = Duration::from_secs(5);

impl Job {
    pub async fn recent(&self) -> Report {
        self.recent_since(None).await
    }

    /// Like [`Self::recent`], but begins at `since` if that is earlier than the watermarks. The run
    /// checks again the changes reconciled since then, and does not move the watermarks back.
    pub async fn recent_since(&self, since: Option<Timestamp>) -> Report {
        self.run("recent", Some("recent"), async |run| {
            Box::pin(recent(run, since)).await
        })
        .await
    }
}

async fn recent(run: &Run<'_>, since: Option<Timestamp>) -> Result<(), StoreError> {
    let job = run.job;
    let present = now();
    let to = present.plus_ms(-ms(job.settings.min_age));
    let oldest = oldest_entry(present);
    let table_id = job.table.describe().await?.id;
    let of_duplicates = duplicates_watermark(run, present, oldest).await?;
    let mut snapshot = IndexSnapshot::read(run, &table_id).await?;
    snapshot.judge_watermarks(oldest, &run.ledger);
    let mut confirmer = Confirmer::new(run);
    let may_continue = confirmer.confirm(&snapshot).await?;
    check_unresolved(run, &snapshot).await?;
    if let Some(since) = since
        && since < oldest
    {
        run.ledger.add_unresolved(format!(
            "the journal does not reach back to {since}: it begins at {oldest}"
        ));
    }
    let watermark = snapshot.begins(oldest).chain(of_duplicates).min();
    let overlapping = watermark.map(|watermark| watermark.plus_ms(-ms(job.settings.overlap)));
    let begins = overlapping.into_iter().chain(since).min();
    if let Some(begins) = begins
        && may_continue
    {
        let window = Window {
            from: begins.max(oldest),
            to,
        };
        job.progress.expect(window.span_ms());
        let of_journal = reconcile(
            run,
            window,
            of_duplicates.is_some(),
            &mut snapshot,
            &mut confirmer,
        );
        if Box::pin(of_journal).await? {
            confirmer.confirm(&snapshot).await?;
        }
    }
    confirmer.report();
    Ok(())
}

/// The duplicates' watermark; without one, the journal's beginning. `None` when the journal does
/// not reach back to it.
///
/// A fast clock may have set it later than the present, at an unknown time. The run then sets it
/// back and reconciles everything in the journal again.
async fn duplicates_watermark(
    run: &Run<'_>,
    present: Timestamp,
    oldest: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let Some(watermark) = run.job.table.watermark().await? else {
        run.ledger.add_note(format!(
            "no watermark yet: it begins with the journal's oldest entries, {oldest}"
        ));
        return Ok(Some(oldest));
    };
    if watermark < oldest {
        run.ledger.add_unresolved(format!(
            "the journal does not reach back to the duplicates' watermark, {watermark}: repair-job audit --apply"
        ));
        return Ok(None);
    }
    if watermark <= present {
        return Ok(Some(watermark));
    }
    run.ledger.add_unresolved(format!(
        "the duplicates' watermark, {watermark}, is later than the present: a clock is wrong, or was; the journal is \
         read from its beginning"
    ));
    if run.may_remember() {
        run.job.table.set_watermark_back(watermark, oldest).await?;
    }
    Ok(Some(oldest))
}

async fn check_unresolved(run: &Run<'_>, snapshot: &IndexSnapshot) -> Result<(), StoreError> {
    let table = &run.job.table;
    let comments = unresolved::remembered(table).await?;
    let scope = RepairScope::of_all(snapshot);
    let repaired = repair_all(run, comments.into(), &scope, None).await?;
    for (id, outcome) in repaired.comments {
        match outcome {
            // If the page index was not checked, its part may still be wrong.
            CommentOutcome::Repaired if snapshot.is_in_use() => {
                if run.may_remember() {
                    unresolved::forget(table, &id).await?;
                }
            }
            // Already counted.
            CommentOutcome::Unresolved(_) => {}
            CommentOutcome::Repaired
            | CommentOutcome::KeepsChanging
            | CommentOutcome::IndexAway(_)
            | CommentOutcome::Unfinished(_) => {
                run.ledger.add_unresolved(format!(
                    "comment {id} needed a person, and could not be checked again"
                ));
            }
        }
    }
    Ok(())
}

/// Reconciles the journal part by part. Advances the watermarks, and confirms when it is due.
/// Returns `false` when it had to end before.
async fn reconcile(
    run: &Run<'_>,
    window: Window,
    moves_duplicates: bool,
    snapshot: &mut IndexSnapshot,
    confirmer: &mut Confirmer<'_>,
) -> Result<bool, StoreError> {
    let job = run.job;
    let mut journal = Pipeline::new(
        run,
        JournalFinder::new(&job.table, window, "the next run resumes at"),
    );
    let mut advanced_at = Instant::now();
    while let Some((part, outcome)) = journal.next(RepairScope::of_all(snapshot)).await? {
        for what in part.unreadable {
            run.ledger.add_unresolved_once(what);
        }
        if let Some(why) = outcome.index_away() {
            snapshot.give_up(why, &run.ledger);
        }
        if outcome.unfinished() > 0 {
            return Ok(false);
        }
        let is_last = part.window.to >= window.to;
        let is_due = outcome.checked() > 0 || is_last || advanced_at.elapsed() > ADVANCE_EVERY;
        if run.may_remember() && is_due {
            advanced_at = Instant::now();
            if moves_duplicates {
                job.table.advance_watermark(part.window.to).await?;
            }
            snapshot
                .advance(&job.index, part.window.to, is_last, &run.ledger)
                .await?;
        }
        if !is_last && confirmer.is_due() && !confirmer.confirm(snapshot).await? {
            return Ok(false);
        }
    }
    Ok(journal.is_complete())
}
