//! `recent`: reconciles every comment that the journal names since the watermarks, and advances the watermarks.
//!
//! **Invariant:** a watermark advances to the end of a window only when every comment that the window names is
//! reconciled, is reported as unresolved, or keeps changing. In the last case a later window names the comment again.
//! Every window is complete, because it ends a settle delay ago.
//!
//! It vouches for the page index at its beginning, at its end and every minute in between (`vouch`).

use std::time::Duration;

use model::{Timestamp, journal::JOURNAL_RETENTION_DAYS};
use process::now;
use tokio::time::Instant as Clock;

use crate::{
    changed::{Reader, reconcile_part, windows},
    error::RepairError,
    follow::Follow,
    job::{Job, Run},
    reconcile::{IndexScope, Scope},
    report::Report,
    unresolved,
    vouch::Voucher,
};

/// The part of the journal's retention that is not relied on, because clocks differ.
const RETENTION_MARGIN_MS: i64 = 3_600_000;

const DAY_MS: i64 = 24 * 3_600_000;

/// How often the watermarks advance through empty windows.
const ADVANCE_EVERY: Duration = Duration::from_secs(5);

impl Job {
    /// Reconciles what changed recently.
    pub async fn recent(&self) -> Report {
        self.recent_since(None).await
    }

    /// Like [`Self::recent`], but begins at `since` if that is earlier than the watermarks. The run checks again the
    /// changes reconciled since then, and does not move the watermarks back.
    pub async fn recent_since(&self, since: Option<Timestamp>) -> Report {
        self.run("recent", "recent", async |run| Box::pin(recent(run, since)).await).await
    }
}

/// The instant since which the journal holds every entry.
pub(crate) fn oldest_entry(present: Timestamp) -> Timestamp {
    present.plus_ms(RETENTION_MARGIN_MS - JOURNAL_RETENTION_DAYS * DAY_MS)
}

async fn recent(run: &Run<'_>, since: Option<Timestamp>) -> Result<(), RepairError> {
    let (job, present) = (run.job, now());
    let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let (to, oldest) = (present.plus_ms(-ms(job.settings.settle)), oldest_entry(present));
    let table_id = job.table.describe().await?.id;
    let of_table = believable_watermark(run, present, oldest).await?;
    let mut follow = Follow::read(run, &table_id).await?;
    follow.drop_older(run, oldest);
    follow.doubt_later(run, present);
    let mut voucher = Voucher::new(run, &table_id);
    let may_go_on = Box::pin(voucher.vouch(&follow)).await?;
    Box::pin(unresolved::look_again(run, &follow)).await?;
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
    if let Some(since) = since.filter(|since| *since < oldest) {
        run.add_unresolved(format!("the journal does not reach back to {since}: it begins at {oldest}"));
    }
    let begins = follow.begins(oldest).chain(of_duplicates).min();
    let begins = begins.map(|begins| begins.plus_ms(-ms(job.settings.overlap)));
    let begins = begins.into_iter().chain(since).min();
    if let (true, Some(begins)) = (may_go_on, begins) {
        let from = begins.max(oldest);
        let pass = Pass { run, from, to, moves_duplicates: of_duplicates.is_some() };
        Box::pin(pass.follow_journal(&mut follow, &mut voucher)).await?;
    }
    voucher.report();
    Ok(())
}

/// A pass over the journal.
struct Pass<'run> {
    run: &'run Run<'run>,
    from: Timestamp,
    to: Timestamp,
    /// Whether the duplicates' watermark advances.
    moves_duplicates: bool,
}

impl Pass<'_> {
    /// Reconciles what the journal names, and advances the watermarks. Vouches for the page index on the way and at the
    /// end.
    async fn follow_journal(&self, follow: &mut Follow, voucher: &mut Voucher<'_>) -> Result<(), RepairError> {
        let Self { run, from, to, .. } = *self;
        let mut moved_on = Clock::now();
        for window in windows(from, to) {
            let mut reader = Reader::new(window);
            loop {
                run.job.progress.set_share(span(from, reader.at()), span(from, to));
                if run.must_stop(|| format!("the next run goes on at {}", reader.at())) {
                    return Ok(());
                }
                if voucher.is_due() && !Box::pin(voucher.vouch(follow)).await? {
                    return Ok(());
                }
                let Some(part) = reader.next(&run.job.table).await? else { break };
                part.unreadable.into_iter().for_each(|what| run.add_unresolved(what));
                let scope = Scope { duplicates: true, index: follow.scope() };
                let outcome = Box::pin(reconcile_part(run, part.window, part.named, &scope)).await?;
                if outcome.index_was_away {
                    follow.give_up();
                }
                if !outcome.is_whole {
                    return Ok(());
                }
                let is_last = part.window.to >= to;
                let is_due = outcome.comments > 0 || is_last || moved_on.elapsed() > ADVANCE_EVERY;
                if run.may_remember() && is_due {
                    moved_on = Clock::now();
                    if self.moves_duplicates {
                        run.job.table.advance_watermark(part.window.to).await?;
                    }
                    if !matches!(scope.index, IndexScope::Nothing) {
                        follow.advance(run, part.window.to, is_last).await?;
                    }
                }
            }
        }
        run.job.progress.set_share(1, 1);
        Box::pin(voucher.vouch(follow)).await?;
        Ok(())
    }
}

/// The duplicates' watermark. If it is later than the present, a fast clock set it at an unknown time. The run then
/// sets it back and reconciles everything in the journal again.
async fn believable_watermark(
    run: &Run<'_>,
    present: Timestamp,
    oldest: Timestamp,
) -> Result<Option<Timestamp>, RepairError> {
    let watermark = run.job.table.watermark().await?;
    let Some(later) = watermark.filter(|watermark| *watermark > present) else { return Ok(watermark) };
    run.add_unresolved(format!(
        "the duplicates' watermark, {later}, is later than the present: a clock is wrong, or was; the journal is read from \
         its beginning"
    ));
    if run.may_remember() {
        run.job.table.set_watermark_back(later, oldest).await?;
    }
    Ok(Some(oldest))
}

fn span(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.epoch_ms() - from.epoch_ms()).unwrap_or(0)
}
