//! Finds the comments that the journal names, part by part: those that changed, and those that readers reported.
//!
//! An hour of the journal is read once, one answer of each shard at a time, and cut into parts. Each part names a few
//! hundred comments, so even a run with little time completes one (`tests/repair/stopped.rs`). All entries of a comment
//! are in one shard. So a part names a comment once, however often it changed.
//!
//! **Invariant:** the parts of a window join without gaps, and each holds every entry of its time
//! (`parts_join_without_gaps_and_hold_what_their_time_brought`).
//!
//! Memory is bounded: one answer of the journal for each shard, and one part. A part covers the time in which
//! [`PART_COMMENTS`] comments are named, but at least a millisecond.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use futures_util::future::try_join_all;
use model::{
    CommentId, Timestamp,
    journal::{JOURNAL_RETENTION_DAYS, JOURNAL_SHARDS, JournalEntry},
    plan::reconcile::Places,
};
use process::{StoreError, now};
use table::{JournalPart, JournalPosition, JournalRow, Table};

use crate::{
    repair::pipeline::{Finder, Found},
    run::settings::{JobSettings, ms},
};

/// How many comments a part names. This much work is lost when a run must stop.
const PART_COMMENTS: usize = 500;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The part of the journal's retention that is not relied on, because clocks differ.
const RETENTION_MARGIN_MS: i64 = HOUR_MS;

/// How far the table's index may lag behind the table. AWS names no bound ("eventually consistent"). The lag is usually
/// moments, and DynamoDB throttles a table whose index does not keep up.
const INDEX_LAG: Duration = Duration::from_secs(600);

pub(crate) fn oldest_entry(present: Timestamp) -> Timestamp {
    present.plus_ms(RETENTION_MARGIN_MS - JOURNAL_RETENTION_DAYS * DAY_MS)
}

pub fn reaches_back_to(from: Timestamp) -> bool {
    from >= oldest_entry(now())
}

/// Where to begin in the journal after a read of the table's indexes. Such a read sees each comment at another moment, and
/// indexes lag. From here on, the journal names every comment that the read may have missed. `began` is when the read began.
/// Entries arrive late, and clocks are wrong.
pub fn journal_from(began: Timestamp, settings: &JobSettings) -> Timestamp {
    began.plus_ms(-ms(INDEX_LAG)).plus_ms(-ms(settings.settle)).plus_ms(-ms(settings.overlap))
}

/// The end of the journal for a pass that begins at `began`: clocks of writers may be ahead.
pub fn journal_to(began: Timestamp, settings: &JobSettings) -> Timestamp {
    began.plus_ms(ms(settings.settle))
}

/// A range of time. `to` is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// The parts of a range that are each within one hour of the journal.
pub(crate) fn windows(from: Timestamp, to: Timestamp) -> impl Iterator<Item = Window> {
    let mut next = from;
    std::iter::from_fn(move || {
        let end = next.plus_ms(HOUR_MS - next.epoch_ms().rem_euclid(HOUR_MS)).min(to);
        let window = Window { from: next, to: end };
        next = end;
        (window.from < window.to).then_some(window)
    })
}

impl Window {
    /// Its length in milliseconds.
    pub(crate) fn span_ms(self) -> u64 {
        u64::try_from(self.to.epoch_ms() - self.from.epoch_ms()).unwrap_or(0)
    }
}

/// Reads the journal between two instants, a few hundred comments at a time.
pub struct Journal<'run> {
    table: &'run Table,
    left: Window,
    reader: Option<Reader>,
}

impl<'run> Journal<'run> {
    pub fn new(table: &'run Table, left: Window) -> Self {
        Self { table, left, reader: None }
    }

    /// The next part; `None` at the end. A comment that changed again may come again.
    pub async fn next(&mut self) -> Result<Option<Part>, StoreError> {
        if self.reader.is_none() {
            self.reader = windows(self.left.from, self.left.to).next().map(Reader::new);
        }
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let part = reader.next(self.table).await?;
        self.left.from = part.window.to;
        if reader.is_over {
            self.reader = None;
        }
        Ok(Some(part))
    }
}

pub(crate) struct JournalFinder<'run> {
    journal: Journal<'run>,
    resumes: &'static str,
}

impl<'run> JournalFinder<'run> {
    /// `resumes` says, before an instant, what happens from there on if the run stops.
    pub(crate) fn new(table: &'run Table, window: Window, resumes: &'static str) -> Self {
        Self { journal: Journal::new(table, window), resumes }
    }
}

impl Finder for JournalFinder<'_> {
    type Position = Part;

    async fn find(&mut self) -> Result<Option<Found<Part>>, StoreError> {
        let Some(mut part) = self.journal.next().await? else { return Ok(None) };
        let comments = std::mem::take(&mut part.named);
        let (checked, steps) = (comments.len(), part.window.span_ms());
        Ok(Some(Found { suspects: comments.into(), checked, steps, position: part, is_last: false }))
    }

    fn resumes(&self) -> String {
        format!("{} {}", self.resumes, self.journal.left.from)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub(crate) window: Window,
    pub named: BTreeMap<CommentId, Places>,
    /// Those of the named comments that changed. Readers only reported the others.
    pub(crate) changed: BTreeSet<CommentId>,
    pub unreadable: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Reader {
    left: Window,
    is_over: bool,
    shards: Vec<Shard>,
}

#[derive(Debug)]
struct Shard {
    number: u32,
    rows: VecDeque<JournalRow>,
    next: Option<JournalPosition>,
    is_over: bool,
}

impl Reader {
    pub(crate) fn new(window: Window) -> Self {
        let shard = |number| Shard { number, rows: VecDeque::new(), next: None, is_over: false };
        Self { left: window, is_over: false, shards: (0..JOURNAL_SHARDS).map(shard).collect() }
    }

    /// The next part. A window has at least one.
    pub(crate) async fn next(&mut self, table: &Table) -> Result<Part, StoreError> {
        let (mut part, mut latest) = (Part::empty(self.left), self.left.from);
        self.read(table).await?;
        while !self.take(&mut part, &mut latest) {
            self.read(table).await?;
        }
        Ok(part)
    }

    async fn read(&mut self, table: &Table) -> Result<(), StoreError> {
        let Window { from, to } = self.left;
        let shards = self.shards.iter_mut().filter(|shard| shard.is_wanted());
        let reads = shards.map(async |shard| {
            let position = shard.next.take();
            shard.add(table.journal_part(shard.number, from, to, position).await?);
            Ok::<(), StoreError>(())
        });
        try_join_all(reads).await.map(drop)
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
    fn add(&mut self, part: JournalPart) {
        self.is_over = part.next.is_none();
        self.next = part.next;
        self.rows.extend(part.rows);
    }

    fn is_wanted(&self) -> bool {
        self.rows.is_empty() && !self.is_over
    }
}

impl Part {
    fn empty(window: Window) -> Self {
        Self { window, named: BTreeMap::new(), changed: BTreeSet::new(), unreadable: Vec::new() }
    }

    fn add(&mut self, entry: JournalEntry) {
        let places = Places::of(entry.placements());
        if !entry.is_report {
            self.changed.insert(entry.id.clone());
        }
        self.named.entry(entry.id).or_default().join(&places);
    }
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

    fn row(window: Window, number: u64, ms: i64) -> JournalRow {
        let entry = match number % 7 {
            0 => Err(Malformed::new("journal entry", format!("entry {number}"))),
            _ => Ok(JournalEntry {
                id: CommentId::parse(&format!("c{number}")).unwrap(),
                revision: model::Revision::after(None, window.from, 1),
                before: None,
                after: None,
                is_report: false,
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
            let shard = &mut reader.shards[number as usize];
            assert!(shard.is_wanted());
            shard.add(JournalPart { rows: of_shard(number), next: None });
        }
        let (mut next, mut found) = (window.from, 0);
        while !reader.is_over {
            let left = reader.left;
            let mut part = Part::empty(left);
            assert!(reader.take(&mut part, &mut left.from.clone()), "it wants more rows");
            assert_eq!((part.window.from, reader.left.from), (next, part.window.to));
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
    fn a_part_is_incomplete_until_every_shard_was_read() {
        let window = Window { from: at("2024-01-01T10:00:00Z"), to: at("2024-01-01T11:00:00Z") };
        let mut reader = Reader::new(window);
        for number in 1..JOURNAL_SHARDS {
            let rows = vec![row(window, u64::from(number), 5)];
            reader.shards[number as usize].add(JournalPart { rows, next: None });
        }
        let mut part = Part::empty(window);
        assert!(!reader.take(&mut part, &mut window.from.clone()) && part.named.is_empty());
        reader.shards[0].add(JournalPart { rows: vec![row(window, 8, 1)], next: None });
        assert!(reader.take(&mut part, &mut window.from.clone()));
        assert_eq!((part.named.len(), part.unreadable.len(), part.window), (7, 1, window));
    }
}
