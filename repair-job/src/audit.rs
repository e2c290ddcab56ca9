//! `audit`: a rolling scan of the table, segment by segment, in constant memory; and a sweep of the page index.
//!
//! - `pass`: which segments, from where on.
//! - `segment`: the scan of one.
//! - `sweep`: entries that should not be there, which no scan of the table comes across.
//!
//! Whoever asks for everything gets the segments first and then the sweep. A rolling run does both at the same time, so
//! that neither waits until there is nothing left to do of the other.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::{
    StreamExt,
    future::{BoxFuture, join, ready},
    stream,
};
use model::Instant;
use stores::{StoreError, Table};

use crate::{
    catalogue::Listing,
    error::RepairError,
    follow::Follow,
    job::{Job, Run},
    pass::{Pass, SegmentState, pass_name, plan_pass, state_name},
    report::Report,
    sweep,
};

/// The state of segments.
const AUDIT: &str = "audit";

/// Into how many parts the table is divided unless it is told otherwise.
pub const SEGMENTS: u32 = 64;

/// Segments that are checked at the same time unless it is told otherwise.
pub const AT_ONCE: usize = 2;

/// How often the whole table is checked by rolling runs.
pub const EVERY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Items that a comment has.
pub(crate) const ITEMS_PER_COMMENT: u64 = 32;

/// Which parts of the table are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All of them, going on where a run was interrupted a short while ago.
    All,
    /// One.
    One(u32),
    /// Those that have not been checked for nearly a week, the longest first.
    Due,
}

/// What an audit is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOptions {
    /// Into how many parts the table is divided.
    pub segments: u32,
    /// Which of them are checked.
    pub which: Which,
    /// How many of them at the same time, and how many batches of the page index.
    pub at_once: usize,
    /// Whether the page index is swept.
    pub sweep: bool,
    /// Whether it begins anew instead of going on where a run was interrupted.
    pub restart: bool,
    /// Whether it goes on where a run was interrupted, however long ago that was.
    pub resume: bool,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { segments: SEGMENTS, which: Which::All, at_once: AT_ONCE, sweep: true, restart: false, resume: false }
    }
}

impl Job {
    /// Compares the table with itself and with the page index.
    pub async fn audit(&self, options: AuditOptions) -> Report {
        let scope = match options.which {
            Which::One(segment) => format!("audit {}", state_name(segment, options.segments)),
            Which::All | Which::Due => "audit".to_owned(),
        };
        self.run("audit", &scope, async |run| Box::pin(audit(run, options)).await).await
    }
}

/// What an audit looks at.
pub(crate) struct Audit<'run> {
    pub(crate) run: &'run Run<'run>,
    pub(crate) table_id: String,
    pub(crate) follow: Follow,
    pub(crate) listing: Listing<'run>,
    /// The page index answered at the beginning, and does not any more, or was lost: from then on only duplicates are looked at.
    pub(crate) is_index_gone: AtomicBool,
    pub(crate) segments: u32,
    /// About how many items a segment has.
    pub(crate) items: u64,
    /// When the pass began that its segments belong to.
    pub(crate) began: Instant,
}

async fn audit(run: &Run<'_>, options: AuditOptions) -> Result<(), RepairError> {
    let job = run.job;
    let described = job.table.describe().await?;
    let follow = Follow::read(run, &described.id).await?;
    // A dry run remembers nothing, and does not begin in the middle.
    let states: BTreeMap<String, SegmentState> =
        if job.settings.apply { segment_states(&job.table, &described.id).await? } else { BTreeMap::new() };
    let pass = plan_pass(&states, options, run.began);
    pass.notes.iter().for_each(|note| run.add_note(note.clone()));
    let segments = options.segments.max(1);
    let audit = Audit {
        run,
        table_id: described.id,
        follow,
        listing: Listing::new(run),
        is_index_gone: AtomicBool::new(false),
        segments,
        items: described.items / u64::from(segments),
        began: pass.began,
    };
    if options.which == Which::All {
        let table = Some(audit.table_id.clone());
        let began = SegmentState { table, began: Some(pass.began), ..SegmentState::default() };
        audit.remember(&pass_name(segments), &began).await?;
    }
    audit.expect(&pass, described.items, options);
    // Of a pass over everything, a sweep that was begun before it is not a part.
    let since = (options.which == Which::All).then_some(pass.began);
    let sweeping: BoxFuture<'_, Result<(), RepairError>> = match options.sweep {
        true => Box::pin(sweep::sweep(run, &audit.follow, options, since)),
        false => Box::pin(ready(Ok(()))),
    };
    let checking: BoxFuture<'_, Result<bool, RepairError>> = Box::pin(audit.check_segments(pass, options));
    let (is_whole, swept) = match options.which {
        Which::Due => join(checking, sweeping).await,
        Which::All | Which::One(_) => match checking.await {
            Ok(is_whole) if job.stop.reason().is_none() => (Ok(is_whole), sweeping.await),
            is_whole => {
                if options.sweep {
                    run.must_stop(|| "the next run goes on with the sweep of the page index".to_owned());
                }
                (is_whole, Ok(()))
            }
        },
    };
    let is_whole = is_whole?;
    swept?;
    if is_whole && options.which == Which::All && run.report().stopped.is_none() {
        audit.remember(&pass_name(audit.segments), &SegmentState::default()).await?;
    }
    job.progress.finish();
    Ok(())
}

impl Audit<'_> {
    /// Tells the progress how much there is to do, and how much of it was done by earlier runs.
    fn expect(&self, pass: &Pass, items: u64, options: AuditOptions) {
        let left = u64::try_from(pass.segments.len()).unwrap_or(u64::MAX);
        let done: u64 =
            pass.segments.iter().filter_map(|(_, state)| state.items).map(|read| read.min(self.items)).sum();
        let whole = (left + u64::from(pass.done)).saturating_mul(self.items);
        let swept = if options.sweep { sweep::steps(items / ITEMS_PER_COMMENT) } else { 0 };
        let progress = &self.run.job.progress;
        progress.expect(whole + swept);
        progress.advance(u64::from(pass.done).saturating_mul(self.items) + done);
    }

    /// Checks the segments of a pass; `false` when some did not come to their end, or do not count as checked.
    async fn check_segments(&self, pass: Pass, options: AuditOptions) -> Result<bool, RepairError> {
        let checked = stream::iter(pass.segments).map(|(segment, state)| {
            let checking: BoxFuture<'_, Result<bool, RepairError>> = Box::pin(self.segment(segment, state));
            checking
        });
        let mut checked = std::pin::pin!(checked.buffer_unordered(options.at_once.max(1)));
        let (mut is_whole, mut failure) = (true, None);
        while let Some(is_checked) = checked.next().await {
            match is_checked {
                Ok(is_checked) => is_whole &= is_checked,
                // The others come to the end of what they have begun.
                Err(error) => {
                    self.run.fail();
                    failure = failure.or(Some(error));
                }
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if self.run.may_remember() && self.run.job.stop.reason().is_none() {
            self.vouch().await?;
        }
        Ok(is_whole)
    }

    /// Whether the page index can be looked at.
    pub(crate) fn index_answers(&self) -> bool {
        self.follow.answers() && !self.is_index_gone.load(Ordering::Relaxed)
    }

    /// Leaves the page index alone from now on.
    pub(crate) fn give_index_up(&self, why: &str) {
        if !self.is_index_gone.swap(true, Ordering::Relaxed) {
            self.run.add_skipped(format!("the page index from here on, because {why}; only duplicates are looked at"));
        }
    }

    pub(crate) async fn remember(&self, name: &str, state: &SegmentState) -> Result<(), RepairError> {
        if self.run.may_remember() {
            self.run.job.table.put_state(AUDIT, name, state).await?;
        }
        Ok(())
    }

    /// Moves the duplicates' watermark on when every segment has been checked: what has changed since the first of these
    /// passes began is in the journal, and what has not was checked. How far clocks of writers differ, and how late their
    /// writes may come, is not counted on. If all of them listed products, the catalogue is whole by them.
    async fn vouch(&self) -> Result<(), RepairError> {
        let job = self.run.job;
        let states = segment_states(&job.table, &self.table_id).await?;
        let of_segment = |segment| states.get(&state_name(segment, self.segments));
        let done = (0..self.segments)
            .map(|segment| of_segment(segment).and_then(|state| Some((state.last_began?, state.last_lists))))
            .collect::<Option<Vec<(Instant, bool)>>>();
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let Some(first) = done.iter().flatten().map(|(began, _)| *began).min() else { return Ok(()) };
        let first = first.plus_ms(-ms(job.settings.settle) - ms(job.settings.overlap));
        if done.iter().flatten().all(|(_, lists)| *lists) {
            self.listing.audited(&self.table_id, first).await?;
        }
        Ok(job.table.advance_watermark(first).await?)
    }
}

/// How far each segment of this table is. A restored table has the states of another one, which say nothing of it.
///
/// # Errors
/// The table's.
pub(crate) async fn segment_states(
    table: &Table,
    table_id: &str,
) -> Result<BTreeMap<String, SegmentState>, StoreError> {
    let states: Vec<(String, SegmentState)> = table.states(AUDIT).await?;
    Ok(states.into_iter().filter(|(_, state)| state.table.as_deref() == Some(table_id)).collect())
}
