//! The sweep compares every member of every base set, and every name, with the table.
//!
//! The audit of the table cannot see superfluous entries in the page index. So the sweep looks up each comment of a
//! product's whole set (any language, any rating) in the table, once. It compares the comment's scores in *all* sets of
//! the product with what the table implies. A member of any other set must be in the whole set, where it is checked.
//! The language of that set must be named, so that the check covers it. Anything that does not fit is suspect and goes
//! to `reconcile`.
//!
//! The sweep reads the table eventually consistent: half a read unit per comment.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use model::Timestamp;
use page_index::SweepPosition;
use process::now;
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant};

use crate::{
    audit::{AuditOptions, ITEMS_PER_COMMENT, Which},
    error::RepairError,
    follow::Follow,
    job::{Run, index_is_away},
    pass::is_due,
    reconcile::Scope,
    sweeper::{Compared, Sweeper},
};

/// The kind of state that the sweep stores.
pub(crate) const SWEEP: &str = "sweep";
/// The name of that state.
pub(crate) const POSITION: &str = "position";

/// How often the position is stored.
const REMEMBER_EVERY: Duration = Duration::from_secs(10);

/// Progress of the sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepState {
    /// Where the current sweep resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<SweepPosition>,
    /// Number of comments checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) members: Option<u64>,
    /// When the current sweep began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<Timestamp>,
    /// When the first sweep began, until a sweep completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_began: Option<Timestamp>,
    /// When the last completed sweep began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_began: Option<Timestamp>,
    /// When the last completed sweep ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_ended: Option<Timestamp>,
}

/// The work of sweeping this many comments, in steps of reading one item. The ratio is approximate, from times measured
/// by `bench`.
pub(crate) fn steps(comments: u64) -> u64 {
    comments.saturating_mul(ITEMS_PER_COMMENT / 2)
}

/// Sweeps the page index. Resumes an interrupted sweep, unless that sweep began before `since`.
pub(crate) async fn sweep(
    run: &Run<'_>,
    follow: &Follow,
    options: AuditOptions,
    since: Option<Timestamp>,
) -> Result<(), RepairError> {
    if follow.watermarks.is_empty() {
        // Already reported when the markers were read.
        return Ok(());
    }
    let swept = match Box::pin(sweep_all(run, follow, options, since)).await {
        Err(RepairError::Store(error)) if index_is_away(&error) => Err(RepairError::IndexAway(error.to_string())),
        swept => swept,
    };
    match swept {
        Err(RepairError::IndexAway(why)) => {
            run.add_skipped(format!("the rest of the sweep of the page index, because {why}"));
            Ok(())
        }
        swept => {
            if swept.is_err() {
                run.fail();
            }
            swept
        }
    }
}

async fn sweep_all(
    run: &Run<'_>,
    follow: &Follow,
    options: AuditOptions,
    since: Option<Timestamp>,
) -> Result<(), RepairError> {
    let (job, index) = (run.job, &run.job.index);
    let mut state: SweepState = match job.settings.apply {
        true => job.table.state(SWEEP, POSITION).await?.unwrap_or_default(),
        false => SweepState::default(),
    };
    if options.restart {
        (state.position, state.members, state.began) = (None, None, None);
    }
    if options.which == Which::Due && state.position.is_none() && !is_due(state.last_began.or(state.last_ended), now())
    {
        return Ok(());
    }
    let is_of_this_pass = state.began.is_some_and(|began| since.is_none_or(|since| began >= since));
    let start = match state.position.take().filter(|_| is_of_this_pass) {
        Some(position) if index.is_sweep_valid(&position).await? => position,
        _ => {
            (state.began, state.members) = (None, None);
            index.sweep().await?
        }
    };
    if let Some(began) = state.began {
        run.add_note(format!("it goes on with the sweep of the page index that began at {began}"));
    }
    let began = *state.began.get_or_insert_with(now);
    if state.last_ended.is_none() {
        state.first_began.get_or_insert(began);
    }
    let mut members = state.members.unwrap_or(0);
    job.progress.advance(steps(members));
    let (kept, is_ending) = (follow.kept(), AtomicBool::new(false));
    let sweeper = Sweeper {
        run,
        follow,
        kept: kept.as_ref(),
        scope: Scope { duplicates: true, index: follow.scope() },
        refused: Mutex::default(),
    };
    let mut compared = compared(&sweeper, &is_ending, start.clone(), options.at_once);
    let (mut position, mut is_over, mut failure) = (start, false, None);
    let mut remembered = Instant::now();
    while let Some(outcome) = compared.next().await {
        match outcome {
            // After a skipped comment, the position stays, so that what follows is checked again.
            Ok(batch) if batch.is_whole && !is_ending.load(Ordering::Relaxed) => {
                members += batch.comments;
                job.progress.advance(steps(batch.comments));
                (position, is_over) = (batch.position, batch.is_last);
            }
            Ok(_) => is_ending.store(true, Ordering::Relaxed),
            Err(error) => {
                is_ending.store(true, Ordering::Relaxed);
                failure = failure.or(Some(error));
            }
        }
        if !is_over && remembered.elapsed() > REMEMBER_EVERY {
            remembered = Instant::now();
            (state.position, state.members) = (Some(position.clone()), Some(members));
            remember(run, &state).await?;
        }
    }
    if !is_over {
        run.must_stop(|| match job.settings.apply {
            true => "the next run goes on with the sweep of the page index".to_owned(),
            false => "a dry run remembers nothing: the sweep of the page index begins anew".to_owned(),
        });
        (state.position, state.members) = (Some(position), Some(members));
        remember(run, &state).await?;
        return failure.map_or(Ok(()), Err);
    }
    if !index.is_sweep_valid(&position).await? {
        run.add_skipped("part of the sweep, whose servers have changed: the next one begins anew".to_owned());
        return remember(run, &SweepState { position: None, began: None, members: None, ..state }).await;
    }
    let done = SweepState { last_began: Some(began), last_ended: Some(now()), ..SweepState::default() };
    remember(run, &done).await
}

async fn remember(run: &Run<'_>, state: &SweepState) -> Result<(), RepairError> {
    if run.may_remember() {
        run.job.table.put_state(SWEEP, POSITION, state).await?;
    }
    Ok(())
}

/// Reads batches from a position on while earlier ones are compared. Returns the results in order, until the run must
/// stop or is ending.
fn compared<'sweep>(
    sweeper: &'sweep Sweeper<'sweep>,
    is_ending: &'sweep AtomicBool,
    start: SweepPosition,
    at_once: usize,
) -> BoxStream<'sweep, Result<Compared, RepairError>> {
    let batches = stream::unfold(Some(start), move |position| async move {
        let position = position?;
        let run = sweeper.run;
        if run.job.stop.reason().is_some() || run.has_failed() || is_ending.load(Ordering::Relaxed) {
            return None;
        }
        let read = sweeper.read(position).await;
        let next = read.as_ref().ok().filter(|read| !read.is_last).map(|read| read.position.clone());
        Some((read, next))
    });
    let compared = batches.map(move |read| {
        let comparing: BoxFuture<'sweep, _> = Box::pin(sweeper.compare_read(read));
        comparing
    });
    compared.buffered(at_once.max(1)).boxed()
}
