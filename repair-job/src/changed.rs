//! Reconciling what the journal names, window by window.
//!
//! Memory is bounded: an answer of the journal for each of its shards, and [`CHUNK`] comments. A comment's entries are all
//! in one shard, so within a chunk it is named once, however often it changed.
//!
//! A window that names many comments is halved, so that a run which has little time comes to the end of one nevertheless
//! (`tests/repair/stopped.rs`).

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use model::{
    CommentId, Instant,
    journal::{JOURNAL_SHARDS, JournalEntry},
    plan::reconcile::Places,
};
use stores::{StoreError, table::JournalPosition};

use crate::{
    error::RepairError,
    job::Run,
    reconcile::{Scope, State},
};

/// How many comments are collected before they are reconciled.
const CHUNK: usize = 2_000;

/// A window that names more comments than so is halved: so much work is lost when a run must stop.
const HALVED_OVER: usize = 500;

/// A window that is no longer is not halved.
const WINDOW_MS_MIN: i64 = 10;

const HOUR_MS: i64 = 3_600_000;

/// A part of time that is reconciled as a whole, within one hour of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Its beginning.
    pub(crate) from: Instant,
    /// Its end, which is not part of it.
    pub(crate) to: Instant,
}

impl Window {
    /// Its halves, unless it is short.
    pub(crate) fn halves(self) -> Option<[Self; 2]> {
        let ms = self.to.epoch_ms() - self.from.epoch_ms();
        let middle = self.from.plus_ms(ms / 2);
        (ms > WINDOW_MS_MIN).then_some([Self { to: middle, ..self }, Self { from: middle, ..self }])
    }
}

/// The windows between two instants.
pub(crate) fn windows(from: Instant, to: Instant) -> impl Iterator<Item = Window> {
    let mut next = from;
    std::iter::from_fn(move || {
        let end = next.plus_ms(HOUR_MS - next.epoch_ms().rem_euclid(HOUR_MS)).min(to);
        let window = Window { from: next, to: end };
        next = end;
        (window.from < window.to).then_some(window)
    })
}

/// What came of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WindowOutcome {
    /// How many comments it named.
    pub(crate) comments: u64,
    /// Whether it named so many that nothing was done, and its halves are to be reconciled instead.
    pub(crate) is_to_be_halved: bool,
    /// Whether it came to its end.
    pub(crate) is_whole: bool,
    /// Whether the page index did not answer for some comment.
    pub(crate) index_was_away: bool,
}

/// Reconciles every comment that a window's entries name; or none, if there are many and the window can be halved.
pub(crate) async fn reconcile_window(
    run: &Run<'_>,
    window: Window,
    scope: &Scope,
) -> Result<WindowOutcome, RepairError> {
    let table = &run.job.table;
    let mut outcome = WindowOutcome::default();
    let mut open: Vec<(u32, Option<JournalPosition>)> = (0..JOURNAL_SHARDS).map(|shard| (shard, None)).collect();
    let mut named: BTreeMap<CommentId, Places> = BTreeMap::new();
    while !open.is_empty() {
        if run.must_stop(|| format!("the next run goes on at {}", window.from)) {
            return Ok(outcome);
        }
        let parts = open.drain(..).map(|(shard, position)| async move {
            Ok::<_, StoreError>((shard, table.journal_part(shard, window.from, window.to, position).await?))
        });
        for (shard, (entries, next)) in try_join_all(parts).await? {
            for entry in entries {
                match entry {
                    Ok(entry) => add(&mut named, &entry),
                    Err(error) => run.add_unresolved(error.to_string()),
                }
            }
            open.extend(next.map(|next| (shard, Some(next))));
        }
        if named.len() > HALVED_OVER && outcome.comments == 0 && window.halves().is_some() {
            outcome.is_to_be_halved = true;
            return Ok(outcome);
        }
        while named.len() >= CHUNK || (open.is_empty() && !named.is_empty()) {
            if run.must_stop(|| format!("the next run goes on at {}", window.from)) {
                return Ok(outcome);
            }
            let rest = named.keys().nth(CHUNK).cloned().map(|first| named.split_off(&first)).unwrap_or_default();
            let chunk = std::mem::replace(&mut named, rest);
            let left = run.reconcile_all(chunk, scope).await?;
            let left_out = left.iter().filter(|(_, state)| matches!(state, State::LeftOut(_))).count();
            outcome.comments += u64::try_from(left.len() - left_out).unwrap_or(u64::MAX);
            run.add_checked(left.len() - left_out);
            if left_out > 0 {
                run.must_stop(|| format!("the next run goes on at {}", window.from));
                return Ok(outcome);
            }
            outcome.index_was_away |= left.iter().any(|(_, state)| matches!(state, State::IndexAway(_)));
        }
    }
    outcome.is_whole = true;
    Ok(outcome)
}

fn add(named: &mut BTreeMap<CommentId, Places>, entry: &JournalEntry) {
    named.entry(entry.id.clone()).or_default().join(&Places::of(entry.placements()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_join_without_gaps_and_stay_within_an_hour() {
        let at = |text: &str| Instant::parse(text).unwrap();
        let all: Vec<String> = windows(at("2024-01-01T10:59:00Z"), at("2024-01-01T12:00:30Z"))
            .map(|window| format!("{} {}", window.from, window.to))
            .collect();
        assert_eq!(
            all,
            [
                "2024-01-01T10:59:00.000Z 2024-01-01T11:00:00.000Z",
                "2024-01-01T11:00:00.000Z 2024-01-01T12:00:00.000Z",
                "2024-01-01T12:00:00.000Z 2024-01-01T12:00:30.000Z",
            ]
        );
        let hour = Window { from: at("2024-01-01T10:00:00Z"), to: at("2024-01-01T11:00:00Z") };
        let [first, second] = hour.halves().unwrap();
        assert_eq!((first.from, first.to, second.from, second.to), (hour.from, second.from, first.to, hour.to));
        assert_eq!(Window { to: hour.from.plus_ms(WINDOW_MS_MIN), ..hour }.halves(), None);
        assert_eq!(windows(at("2024-01-01T10:00:00Z"), at("2024-01-01T10:00:00Z")).count(), 0);
        assert_eq!(windows(at("2024-01-01T10:00:01Z"), at("2024-01-01T10:00:00Z")).count(), 0);
    }
}
