//! `recent`: reconciles every comment that the journal names since the watermarks, and moves them on.
//!
//! **Invariant:** a watermark is moved on to the end of a window only when every comment that the window names has been
//! reconciled, or is reported as unresolved, or keeps changing, so that a later window names it again. The window is
//! complete: it ends a settle delay ago.

use std::time::Duration;

use model::{Instant, journal::JOURNAL_RETENTION_DAYS};
use stores::now;
use tokio::time::Instant as Clock;

use crate::{
    changed::{reconcile_window, windows},
    error::RepairError,
    follow::Follow,
    job::{Job, Run},
    reconcile::{IndexScope, Scope},
    report::Report,
};

/// How much of the journal's retention is not counted on: clocks differ.
const RETENTION_MARGIN_MS: i64 = 3_600_000;

const DAY_MS: i64 = 24 * 3_600_000;

/// How often the watermarks are moved on through empty windows.
const ADVANCE_EVERY: Duration = Duration::from_secs(5);

impl Job {
    /// Reconciles what changed recently.
    pub async fn recent(&self) -> Report {
        self.run("recent", "recent", async |run| Box::pin(recent(run)).await).await
    }
}

/// From when on the journal holds every entry.
pub(crate) fn oldest_entry(present: Instant) -> Instant {
    present.plus_ms(RETENTION_MARGIN_MS - JOURNAL_RETENTION_DAYS * DAY_MS)
}

async fn recent(run: &Run<'_>) -> Result<(), RepairError> {
    let (job, present) = (run.job, now());
    let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let (to, oldest) = (present.plus_ms(-ms(job.settings.settle)), oldest_entry(present));
    let table_id = job.table.describe().await?.id;
    let of_table = job.table.watermark().await?;
    let mut follow = Follow::read(run, &table_id).await?;
    follow.drop_older(run, oldest);
    let of_duplicates = match of_table {
        Some(watermark) if watermark < oldest => {
            run.add_unresolved(format!(
                "the journal does not reach back to the duplicates' watermark, {watermark}: repair-job audit --apply"
            ));
            None
        }
        Some(watermark) => Some(watermark),
        None => {
            run.add_note(format!("there is no watermark yet: it begins with the journal's oldest entries, {oldest}"));
            Some(oldest)
        }
    };
    let begins = follow.watermarks.values().copied().chain(of_duplicates).min();
    let Some(begins) = begins else { return Ok(()) };
    let from = begins.plus_ms(-ms(job.settings.overlap)).max(oldest);
    let mut moved_on = Clock::now();
    for window in windows(from, to) {
        job.progress.set_share(span(from, window.from), span(from, to));
        let scope = Scope { duplicates: true, index: follow.scope() };
        let outcome = Box::pin(reconcile_window(run, window, &scope)).await?;
        if outcome.index_was_away {
            follow.give_up();
        }
        if !outcome.is_whole {
            return Ok(());
        }
        let is_last = window.to >= to;
        let is_due = outcome.comments > 0 || is_last || moved_on.elapsed() > ADVANCE_EVERY;
        if job.settings.apply && is_due {
            moved_on = Clock::now();
            if of_duplicates.is_some() {
                job.table.advance_watermark(window.to).await?;
            }
            if !matches!(scope.index, IndexScope::Nothing) {
                follow.advance(run, window.to, is_last).await?;
            }
        }
    }
    job.progress.set_share(1, 1);
    Ok(())
}

fn span(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.epoch_ms() - from.epoch_ms()).unwrap_or(0)
}
