//! `audit`: a rolling scan of the table, segment by segment, in constant memory, and a sweep of the page index.
//!
//! - `pass`: the segments of a run, and their start positions.
//! - `segment`: the scan of one segment.
//! - `sweep`: finds superfluous entries, which a scan of the table never meets.
//!
//! A run over everything checks the segments first and then sweeps. A rolling run does both in parallel, so that
//! neither waits until the other is done.

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
use model::Timestamp;
use process::StoreError;
use table::Table;

use crate::{
    error::RepairError,
    follow::Follow,
    job::{Job, Run},
    pass::{Pass, SegmentState, pass_name, plan_pass, state_name},
    report::Report,
    sweep,
};

/// The kind of state that segments store.
const AUDIT: &str = "audit";

/// Default number of segments of the table.
pub const SEGMENTS: u32 = 64;

/// Default number of segments that are checked in parallel.
pub const AT_ONCE: usize = 2;

/// Target period in which rolling runs check the whole table once.
pub const EVERY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Number of items per comment.
pub(crate) const ITEMS_PER_COMMENT: u64 = 32;

/// Selects the segments to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All segments, resuming a run that was interrupted a short while ago.
    All,
    /// One.
    One(u32),
    /// The segments whose last check is nearly a week old or older: segments under way first, then the oldest.
    Due,
}

/// Settings of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOptions {
    /// Number of segments of the table.
    pub segments: u32,
    /// The segments to check.
    pub which: Which,
    /// How many segments are checked in parallel. Batches of the page index use the same number.
    pub at_once: usize,
    /// Whether the page index is swept.
    pub sweep: bool,
    /// Whether the audit starts anew instead of resuming an interrupted run.
    pub restart: bool,
    /// Whether the audit resumes an interrupted run regardless of its age.
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

/// The shared context of an audit.
pub(crate) struct Audit<'run> {
    pub(crate) run: &'run Run<'run>,
    pub(crate) table_id: String,
    pub(crate) follow: Follow,
    /// The page index answered at the beginning but no longer does, or it was lost. From then on the audit checks only
    /// duplicates.
    pub(crate) is_index_gone: AtomicBool,
    pub(crate) segments: u32,
    /// Approximate number of items per segment.
    pub(crate) items: u64,
    /// When the pass of its segments began.
    pub(crate) began: Timestamp,
}

async fn audit(run: &Run<'_>, options: AuditOptions) -> Result<(), RepairError> {
    let job = run.job;
    let described = job.table.describe().await?;
    let follow = Follow::read(run, &described.id).await?;
    // A dry run stores no state and does not resume.
    let states: BTreeMap<String, SegmentState> =
        if job.settings.apply { segment_states(&job.table, &described.id).await? } else { BTreeMap::new() };
    let pass = plan_pass(&states, options, run.began);
    pass.notes.iter().for_each(|note| run.add_note(note.clone()));
    let segments = options.segments.max(1);
    let audit = Audit {
        run,
        table_id: described.id,
        follow,
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
    // A sweep that began before a pass over everything is not part of that pass.
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
    /// Sets the expected amount of work for the progress display, and the part that earlier runs did.
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

    /// Checks the segments of a pass. Returns `false` when some did not finish, or do not count as checked.
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
                // The other segments finish what they have begun.
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

    /// Whether the page index can be read.
    pub(crate) fn index_answers(&self) -> bool {
        self.follow.answers() && !self.is_index_gone.load(Ordering::Relaxed)
    }

    /// Stops using the page index for the rest of the run.
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

    /// Advances the duplicates' watermark when every segment is checked. Changes since the first of these passes began
    /// are in the journal; everything older was checked. A margin covers the writers' clock differences and late
    /// writes.
    async fn vouch(&self) -> Result<(), RepairError> {
        let job = self.run.job;
        let states = segment_states(&job.table, &self.table_id).await?;
        let of_segment = |segment| states.get(&state_name(segment, self.segments));
        let done = (0..self.segments)
            .map(|segment| of_segment(segment).and_then(|state| state.last_began))
            .collect::<Option<Vec<Timestamp>>>();
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let Some(first) = done.into_iter().flatten().min() else { return Ok(()) };
        let first = first.plus_ms(-ms(job.settings.settle) - ms(job.settings.overlap));
        Ok(job.table.advance_watermark(first).await?)
    }
}

/// How far each segment of this table is. States of a table before its restoration say nothing about it, so they are
/// left out.
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
