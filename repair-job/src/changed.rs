//! Reconciles the comments that the journal names, part by part.
//!
//! A window of time is read once, one answer of each journal shard at a time, and cut into parts. Each part names a few
//! hundred comments, so even a run with little time completes one (`tests/repair/stopped.rs`). All entries of a comment
//! are in one shard. So a part names a comment once, however often it changed.
//!
//! **Invariant:** the parts of a window join without gaps, and each holds every entry of its time
//! (`parts_join_without_gaps_and_hold_what_their_time_brought`).
//!
//! Memory is bounded: one answer of the journal for each shard, and one part. A part covers the time in which
//! [`PART_COMMENTS`] comments are named, but at least a millisecond.

use std::collections::{BTreeMap, VecDeque};

use futures_util::future::try_join_all;
use model::{
    CommentId, Timestamp,
    journal::{JOURNAL_SHARDS, JournalEntry},
    plan::reconcile::Places,
};
use process::StoreError;
use table::{JournalPart, JournalPosition, JournalRow, Table};

use crate::{
    error::RepairError,
    job::Run,
    reconcile::{Scope, State},
};

/// How many comments a part names. This much work is lost when a run must stop.
const PART_COMMENTS: usize = 500;

const HOUR_MS: i64 = 3_600_000;

/// A range of time within one hour of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Its beginning.
    pub(crate) from: Timestamp,
    /// Its end, exclusive.
    pub(crate) to: Timestamp,
}

/// The windows between two instants.
pub(crate) fn windows(from: Timestamp, to: Timestamp) -> impl Iterator<Item = Window> {
    let mut next = from;
    std::iter::from_fn(move || {
        let end = next.plus_ms(HOUR_MS - next.epoch_ms().rem_euclid(HOUR_MS)).min(to);
        let window = Window { from: next, to: end };
        next = end;
        (window.from < window.to).then_some(window)
    })
}

/// A part of a window, and the journal's content for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    /// Its time.
    pub(crate) window: Window,
    /// The changed comments, and the places of each.
    pub(crate) named: BTreeMap<CommentId, Places>,
    /// Unreadable entries. A person must look.
    pub(crate) unreadable: Vec<String>,
}

/// Reads one window of the journal.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The time that no part covers yet.
    left: Window,
    is_over: bool,
    shards: Vec<Shard>,
}

/// How far a shard of the journal has been read.
#[derive(Debug)]
struct Shard {
    number: u32,
    /// Rows that were read but are in no part yet.
    rows: VecDeque<JournalRow>,
    next: Next,
}

#[derive(Debug, Clone, PartialEq)]
enum Next {
    Begin,
    At(JournalPosition),
    End,
}

impl Reader {
    /// A reader for a window, which must lie within one hour.
    pub(crate) fn new(window: Window) -> Self {
        let shard = |number| Shard { number, rows: VecDeque::new(), next: Next::Begin };
        Self { left: window, is_over: false, shards: (0..JOURNAL_SHARDS).map(shard).collect() }
    }

    /// The start of the time that no part covers yet.
    pub(crate) fn at(&self) -> Timestamp {
        self.left.from
    }

    /// The next part; `None` after the last one. A window has at least one part.
    ///
    /// # Errors
    /// The table's.
    pub(crate) async fn next(&mut self, table: &Table) -> Result<Option<Part>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let mut part = Part { window: self.left, named: BTreeMap::new(), unreadable: Vec::new() };
        let mut latest = self.left.from;
        loop {
            self.read(table).await?;
            if self.take(&mut part, &mut latest) {
                return Ok(Some(part));
            }
        }
    }

    /// Reads the next rows of every shard that has none left.
    async fn read(&mut self, table: &Table) -> Result<(), StoreError> {
        let Window { from, to } = self.left;
        let parts = self.shards.iter().filter(|shard| shard.is_wanted()).map(|shard| async move {
            let position = match &shard.next {
                Next::At(position) => Some(position.clone()),
                Next::Begin | Next::End => None,
            };
            Ok::<_, StoreError>((shard.number, table.journal_part(shard.number, from, to, position).await?))
        });
        for (number, part) in try_join_all(parts).await? {
            self.add(number, part);
        }
        Ok(())
    }

    fn add(&mut self, number: u32, part: JournalPart) {
        for shard in self.shards.iter_mut().filter(|shard| shard.number == number) {
            shard.next = part.next.clone().map_or(Next::End, Next::At);
            shard.rows.extend(part.rows.iter().cloned());
        }
    }

    /// Moves rows into a part in the order of time. Returns whether the part is complete; if not, more rows must be
    /// read.
    fn take(&mut self, part: &mut Part, latest: &mut Timestamp) -> bool {
        while !self.shards.iter().any(Shard::is_wanted) {
            let first = self.shards.iter_mut().filter(|shard| !shard.rows.is_empty());
            let Some(shard) = first.min_by_key(|shard| shard.rows.front().map(|row| row.at)) else {
                part.window.to = self.left.to;
                (self.left.from, self.is_over) = (self.left.to, true);
                return true;
            };
            let Some(row) = shard.rows.pop_front() else { return false };
            // All entries of one millisecond are in one part, so the next part begins with a new millisecond.
            if part.named.len() + part.unreadable.len() >= PART_COMMENTS && row.at > *latest {
                part.window.to = row.at;
                self.left.from = row.at;
                shard.rows.push_front(row);
                return true;
            }
            *latest = row.at.max(*latest);
            match row.entry {
                Ok(entry) => part.add(entry),
                Err(error) => part.unreadable.push(error.to_string()),
            }
        }
        false
    }
}

impl Shard {
    /// Whether all rows are used up and the shard has more.
    fn is_wanted(&self) -> bool {
        self.rows.is_empty() && self.next != Next::End
    }
}

impl Part {
    fn add(&mut self, entry: JournalEntry) {
        let places = Places::of(entry.placements());
        self.named.entry(entry.id).or_default().join(&places);
    }
}

/// The result of reconciling a part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PartOutcome {
    /// Number of comments checked.
    pub(crate) comments: u64,
    /// Whether all comments of the part were checked.
    pub(crate) is_whole: bool,
    /// Whether the page index failed to answer for some comment.
    pub(crate) index_was_away: bool,
}

/// Reconciles every comment that a part names.
pub(crate) async fn reconcile_part(
    run: &Run<'_>,
    window: Window,
    named: BTreeMap<CommentId, Places>,
    scope: &Scope,
) -> Result<PartOutcome, RepairError> {
    let goes_on = || format!("the next run goes on at {}", window.from);
    if run.must_stop(goes_on) {
        return Ok(PartOutcome::default());
    }
    let states = run.reconcile_all(named, scope).await?;
    let left_out = states.iter().filter(|(_, state)| matches!(state, State::LeftOut(_))).count();
    run.add_checked(states.len() - left_out);
    if left_out > 0 {
        run.must_stop(goes_on);
    }
    Ok(PartOutcome {
        comments: u64::try_from(states.len() - left_out).unwrap_or(u64::MAX),
        is_whole: left_out == 0,
        index_was_away: states.iter().any(|(_, state)| matches!(state, State::IndexAway(_))),
    })
}

#[cfg(test)]
mod tests {
    use model::Malformed;

    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn windows_join_without_gaps_and_stay_within_an_hour() {
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
        assert_eq!(windows(at("2024-01-01T10:00:00Z"), at("2024-01-01T10:00:00Z")).count(), 0);
        assert_eq!(windows(at("2024-01-01T10:00:01Z"), at("2024-01-01T10:00:00Z")).count(), 0);
    }

    /// A journal row; every seventh is unreadable.
    fn row(window: Window, number: u64, ms: i64) -> JournalRow {
        let entry = match number % 7 {
            0 => Err(Malformed::new("journal entry", format!("entry {number}"))),
            _ => Ok(JournalEntry {
                id: CommentId::parse(&format!("c{number}")).unwrap(),
                revision: model::Revision::after(None, window.from, 1),
                before: None,
                after: None,
            }),
        };
        JournalRow { at: window.from.plus_ms(ms), entry }
    }

    #[test]
    fn parts_join_without_gaps_and_hold_what_their_time_brought() {
        let window = Window { from: at("2024-01-01T10:00:00Z"), to: at("2024-01-01T11:00:00Z") };
        let mut reader = Reader::new(window);
        // Some milliseconds have one entry, some fifty, and one has more than a part should name. One shard is empty.
        let moments = (0..400_i64).flat_map(|ms| {
            let count = match ms {
                200 => 1_200,
                _ if ms % 40 == 0 => 50,
                _ => 1,
            };
            std::iter::repeat_n(ms, count)
        });
        let rows: Vec<JournalRow> = (0_u64..).zip(moments).map(|(number, ms)| row(window, number, ms)).collect();
        let whole = rows.len();
        let of_shard = |shard: u32| {
            let of_shard = rows.iter().enumerate().filter(|(place, _)| place % 7 == shard as usize);
            of_shard.map(|(_, row)| row.clone()).collect()
        };
        for number in 0..JOURNAL_SHARDS {
            assert!(reader.shards.iter().any(|shard| shard.number == number && shard.is_wanted()));
            reader.add(number, JournalPart { rows: of_shard(number), next: None });
        }
        let (mut next, mut found) = (window.from, 0);
        while !reader.is_over {
            let left = reader.left;
            let mut part = Part { window: left, named: BTreeMap::new(), unreadable: Vec::new() };
            assert!(reader.take(&mut part, &mut left.from.clone()), "more is asked for");
            assert_eq!((part.window.from, reader.at()), (next, part.window.to));
            let of_time = |row: &&JournalRow| (part.window.from..part.window.to).contains(&row.at);
            let expected = rows.iter().filter(of_time).count();
            assert_eq!(part.named.len() + part.unreadable.len(), expected, "{}", part.window.from);
            let entries = part.named.len() + part.unreadable.len();
            let has_long_moment = (part.window.from..part.window.to).contains(&window.from.plus_ms(200));
            let most = PART_COMMENTS + if has_long_moment { 1_200 } else { 60 };
            assert!(entries < most, "{entries} entries in a part");
            (next, found) = (part.window.to, found + expected);
        }
        assert_eq!((next, found), (window.to, whole));
    }

    #[test]
    fn nothing_is_given_out_before_every_shard_has_said_what_it_has() {
        let window = Window { from: at("2024-01-01T10:00:00Z"), to: at("2024-01-01T11:00:00Z") };
        let mut reader = Reader::new(window);
        for number in 1..JOURNAL_SHARDS {
            reader.add(number, JournalPart { rows: vec![row(window, u64::from(number), 5)], next: None });
        }
        let mut part = Part { window, named: BTreeMap::new(), unreadable: Vec::new() };
        assert!(!reader.take(&mut part, &mut window.from.clone()) && part.named.is_empty());
        reader.add(0, JournalPart { rows: vec![row(window, 8, 1)], next: None });
        assert!(reader.take(&mut part, &mut window.from.clone()));
        assert_eq!((part.named.len(), part.unreadable.len(), part.window), (7, 1, window));
    }
}
