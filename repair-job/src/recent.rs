//! `recent`: repairs every comment that the journal names since the watermarks, and advances the watermarks.
//!
//! **Invariant:** a watermark advances to the end of a part of the journal only when every comment that the part names
//! is repaired, is reported as unresolved, or keeps changing. In the last case a later part names the comment again.
//! Every part is complete, because it ended at least a settle delay ago.
//!
//! It vouches for the page index at its beginning, at its end and every minute in between (`vouch`).

use std::time::Duration;

use model::Timestamp;
use process::{StoreError, now};
use tokio::time::Instant;

use crate::{
    find::journal::{JournalFinder, Part, Window, oldest_entry},
    index_snapshot::{IndexSnapshot, Scope},
    outcome::{Outcome, State},
    pipeline::{Checkpoint, find_and_repair},
    runner::Run,
    settings::ms,
    unresolved,
    vouch::Voucher,
};

/// How often the watermarks advance through empty parts of the journal.
const ADVANCE_EVERY: Duration = Duration::from_secs(5);

/// Repairs what changed recently. Begins at `since` if that is earlier than the watermarks.
pub(crate) async fn recent(run: &Run<'_>, since: Option<Timestamp>) -> Result<(), StoreError> {
    let (job, present) = (run.job, now());
    let (to, oldest) = (present.plus_ms(-ms(job.settings.settle)), oldest_entry(present));
    let table_id = job.table.describe().await?.id;
    let of_table = plausible_watermark(run, present, oldest).await?;
    let mut snapshot = IndexSnapshot::read(&job.index, &table_id, &run.ledger).await?;
    snapshot.drop_older(oldest, &run.ledger);
    snapshot.doubt_later(present, &run.ledger);
    let mut voucher = Voucher::new(run, &table_id);
    let may_continue = voucher.vouch(&snapshot).await?;
    check_unresolved(run, &snapshot).await?;
    let of_duplicates = match of_table {
        Some(watermark) if watermark < oldest => {
            run.ledger.add_unresolved(format!(
                "the journal does not reach back to the duplicates' watermark, {watermark}: repair-job audit --apply"
            ));
            None
        }
        Some(watermark) => Some(watermark),
        None => {
            run.ledger.add_note(format!("no watermark yet: it begins with the journal's oldest entries, {oldest}"));
            Some(oldest)
        }
    };
    if let Some(since) = since.filter(|since| *since < oldest) {
        run.ledger.add_unresolved(format!("the journal does not reach back to {since}: it begins at {oldest}"));
    }
    let begins = snapshot.begins(oldest).chain(of_duplicates).min();
    let begins = begins.map(|begins| begins.plus_ms(-ms(job.settings.overlap)));
    let begins = begins.into_iter().chain(since).min();
    if let (true, Some(begins)) = (may_continue, begins) {
        let window = Window { from: begins.max(oldest), to };
        job.progress.expect(window.span_ms());
        let mut finder = JournalFinder::new(&job.table, window, "the next run resumes at");
        let mut watermarks = Watermarks {
            run,
            snapshot,
            voucher,
            to,
            moves_duplicates: of_duplicates.is_some(),
            advanced_at: Instant::now(),
        };
        if Box::pin(find_and_repair(run, &mut finder, &mut watermarks)).await? {
            watermarks.voucher.vouch(&watermarks.snapshot).await?;
        }
        voucher = watermarks.voucher;
    }
    voucher.report();
    Ok(())
}

/// The duplicates' watermark. If it is later than the present, a fast clock set it at an unknown time. The run then
/// sets it back and reconciles everything in the journal again.
async fn plausible_watermark(
    run: &Run<'_>,
    present: Timestamp,
    oldest: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let watermark = run.job.table.watermark().await?;
    let Some(later) = watermark.filter(|watermark| *watermark > present) else { return Ok(watermark) };
    run.ledger.add_unresolved(format!(
        "the duplicates' watermark, {later}, is later than the present: a clock is wrong, or was; the journal is read from \
         its beginning"
    ));
    if run.may_remember() {
        run.job.table.set_watermark_back(later, oldest).await?;
    }
    Ok(Some(oldest))
}

/// Checks the unresolved comments again, and forgets those that are right.
async fn check_unresolved(run: &Run<'_>, snapshot: &IndexSnapshot) -> Result<(), StoreError> {
    let table = &run.job.table;
    let comments = unresolved::remembered(table).await?;
    let scope = Scope { duplicates: true, index: snapshot.scope() };
    for (id, state) in run.repair_all(comments.into(), &scope).await?.states {
        match state {
            // If the page index was not checked, its part may still be wrong.
            State::Settled if snapshot.answers() => {
                if run.may_remember() {
                    unresolved::forget(table, &id).await?;
                }
            }
            // Already counted.
            State::Unresolved(_) => {}
            State::Settled | State::KeepsChanging | State::IndexAway(_) | State::LeftOut(_) => {
                run.ledger.add_unresolved(format!("comment {id} needed a person, and could not be checked again"));
            }
        }
    }
    Ok(())
}

/// The checkpoint of `recent`: the watermarks of the duplicates and of the page index.
struct Watermarks<'run> {
    run: &'run Run<'run>,
    snapshot: IndexSnapshot,
    voucher: Voucher<'run>,
    /// Where the journal is read to.
    to: Timestamp,
    /// Whether the duplicates' watermark advances.
    moves_duplicates: bool,
    advanced_at: Instant,
}

impl Checkpoint<Part> for Watermarks<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope { duplicates: true, index: self.snapshot.scope() }
    }

    async fn record(&mut self, part: Part, outcome: &Outcome) -> Result<bool, StoreError> {
        let run = self.run;
        part.unreadable.into_iter().for_each(|what| run.ledger.add_unresolved(what));
        if outcome.index_away().is_some() {
            self.snapshot.give_up();
        }
        if outcome.left_out() > 0 {
            return Ok(false);
        }
        run.job.progress.advance(part.window.span_ms());
        let is_last = part.window.to >= self.to;
        let is_due = outcome.checked() > 0 || is_last || self.advanced_at.elapsed() > ADVANCE_EVERY;
        if run.may_remember() && is_due {
            self.advanced_at = Instant::now();
            if self.moves_duplicates {
                run.job.table.advance_watermark(part.window.to).await?;
            }
            self.snapshot.advance(&run.job.index, part.window.to, is_last, &run.ledger).await?;
        }
        if !is_last && self.voucher.is_due() {
            return self.voucher.vouch(&self.snapshot).await;
        }
        Ok(true)
    }
}
