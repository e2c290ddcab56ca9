//! Finds the comments that the journal names, part by part: those that changed, and those that
//! readers reported.
//!
//! For a part, some entries of one shard are read, and then what the other shards have of the same
//! time. Comments are spread evenly over the shards, so a part names a few hundred, and even a run
//! with little time completes one (`tests/repair/stopped.rs`). All entries of a comment are in one
//! shard. If another shard has far more, the part ends there, and what was read of later time is
//! read again.
//!
//! **Invariant:** the parts of a window join without gaps, and each holds every entry of its time
//! (`parts_join_without_gaps_and_hold_what_their_time_brought`).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::future::try_join_all;
use model::{
    CommentId, Timestamp,
    journal::{JOURNAL_RETENTION_DAYS, JOURNAL_SHARDS, JournalEntry},
    plan::reconcile::Places,
};
use process::{StoreError, now};
use table::{JournalRow, Table};

use crate::{
    repair::pipeline::{Finder, Finding},
    run::settings::{JobSettings, ms},
};

/// How many entries of the first shard are read for a part. The work on a part is lost when a run
/// must stop.
const ENTRIES_OF_FIRST: i32 = 100;

/// Maximum number of entries of each other shard: an even spread brings about as many as of the
/// first.
const ENTRIES_OF_OTHERS_MAX: i32 = 4 * ENTRIES_OF_FIRST;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The part of the journal's retention that is not relied on, because clocks differ.
const RETENTION_MARGIN_MS: i64 = HOUR_MS;

/// How far the table's index may lag behind the table. AWS names no bound ("eventually
/// consistent"). The lag is usually moments, and DynamoDB throttles a table whose index does not
/// keep up.
const INDEX_LAG: Duration = Duration::from_secs(600);

pub(crate) fn oldest_entry(present: Timestamp) -> Timestamp {
    present.plus_ms(RETENTION_MARGIN_MS - JOURNAL_RETENTION_DAYS * DAY_MS)
}

pub fn reaches_back_to(from: Timestamp) -> bool {
    from >= oldest_entry(now())
}

/// Where to begin in the journal after a read of the table's indexes. Such a read sees each comment
/// at another moment, and indexes lag. From here on, the journal names every comment that the read
/// may have missed. `began` is when the read began. Entries arrive late, and clocks are wrong.
pub fn journal_from(began: Timestamp, settings: &JobSettings) -> Timestamp {
    began
        .plus_ms(-ms(INDEX_LAG))
        .plus_ms(-ms(settings.min_age))
        .plus_ms(-ms(settings.overlap))
}

/// The end of the journal for a pass that begins at `began`: clocks of writers may be ahead.
pub fn journal_to(began: Timestamp, settings: &JobSettings) -> Timestamp {
    began.plus_ms(ms(settings.min_age))
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
        let end = next
            .plus_ms(HOUR_MS - next.epoch_ms().rem_euclid(HOUR_MS))
            .min(to);
        let window = Window {
            from: next,
            to: end,
        };
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
    remaining: Window,
}

impl<'run> Journal<'run> {
    pub fn new(table: &'run Table, window: Window) -> Self {
        Self {
            table,
            remaining: window,
        }
    }

    /// The next part; `None` at the end. A comment that changed again may come again.
    pub async fn next(&mut self) -> Result<Option<JournalPart>, StoreError> {
        // A part is within one hour of the journal.
        let Some(Window { from, to }) = windows(self.remaining.from, self.remaining.to).next()
        else {
            return Ok(None);
        };
        let first = self
            .table
            .journal_part(0, from, to, ENTRIES_OF_FIRST)
            .await?;
        let to = end_of(&first).unwrap_or(to);
        let others = (1..JOURNAL_SHARDS).map(|shard| {
            self.table
                .journal_part(shard, from, to, ENTRIES_OF_OTHERS_MAX)
        });
        let mut shards = try_join_all(others).await?;
        shards.push(first);
        let part = JournalPart::of(Window { from, to }, shards);
        self.remaining.from = part.window.to;
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
        Self {
            journal: Journal::new(table, window),
            resumes,
        }
    }
}

impl Finder for JournalFinder<'_> {
    type ScanPosition = JournalPart;

    async fn find(&mut self) -> Result<Option<Finding<JournalPart>>, StoreError> {
        let Some(mut part) = self.journal.next().await? else {
            return Ok(None);
        };
        let comments = std::mem::take(&mut part.named);
        Ok(Some(Finding {
            checked: comments.len(),
            suspects: comments.into(),
            steps: part.window.span_ms(),
            position: part,
            is_last: false,
        }))
    }

    fn resumes(&self) -> String {
        format!("{} {}", self.resumes, self.journal.remaining.from)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct JournalPart {
    pub(crate) window: Window,
    pub named: BTreeMap<CommentId, Places>,
    /// The named comments that changed. Readers only reported the others.
    pub(crate) changed: BTreeSet<CommentId>,
    pub unreadable: Vec<String>,
}

/// Where a shard has more than was read of it. The next part begins with the last millisecond that
/// was read, which may be incomplete.
fn end_of(shard: &table::Part<JournalRow>) -> Option<Timestamp> {
    shard.next.as_ref()?;
    shard.rows.last().map(|row| row.at)
}

impl JournalPart {
    /// What the shards of a window brought up to where the first of them has more.
    fn of(window: Window, shards: Vec<table::Part<JournalRow>>) -> Self {
        let to = shards.iter().filter_map(end_of).min().unwrap_or(window.to);
        let mut part = Self {
            window: Window { to, ..window },
            named: BTreeMap::new(),
            changed: BTreeSet::new(),
            unreadable: Vec::new(),
        };
        for row in shards.into_iter().flat_map(|shard| shard.rows) {
            if row.at >= to {
                continue;
            }
            match row.entry {
                Ok(entry) => part.add(entry),
                Err(error) => part.unreadable.push(error.to_string()),
            }
        }
        part
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
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use model::Malformed;
    use table::Position;

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
        assert_eq!(
            windows(at("2024-01-01T10:00:00Z"), at("2024-01-01T10:00:00Z")).count(),
            0
        );
        assert_eq!(
            windows(at("2024-01-01T10:00:01Z"), at("2024-01-01T10:00:00Z")).count(),
            0
        );
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
                by: None,
                follows: None,
            }),
        };
        JournalRow {
            at: window.from.plus_ms(ms),
            entry,
        }
    }

    /// One shard is empty, and the last entries are of one comment.
    fn shard_of(number: usize) -> u64 {
        match number {
            1_500.. => 3,
            _ => BuildHasherDefault::<DefaultHasher>::default().hash_one(number) % 7,
        }
    }

    /// Reads as the table answers: a number of rows, or more until some are later than the first.
    fn read(
        rows: &[JournalRow],
        shard: u32,
        window: Window,
        limit: i32,
    ) -> table::Part<JournalRow> {
        let mut of_shard = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let is_within = (window.from..window.to).contains(&row.at);
            if is_within && shard_of(number) == u64::from(shard) {
                of_shard.push(row.clone());
            }
        }
        let later = match of_shard.iter().position(|row| row.at > window.from) {
            Some(number) => number + 1,
            None => of_shard.len(),
        };
        let limit = usize::try_from(limit).unwrap();
        let count = later.max(limit).min(of_shard.len());
        let has_more = count < of_shard.len();
        of_shard.truncate(count);
        table::Part {
            rows: of_shard,
            next: has_more.then(|| Position::from(BTreeMap::new())),
        }
    }

    #[test]
    fn parts_join_without_gaps_and_hold_what_their_time_brought() {
        let window = Window {
            from: at("2024-01-01T10:00:00Z"),
            to: at("2024-01-01T11:00:00Z"),
        };
        // Some milliseconds have one entry, some fifty, and one has more than a part should name.
        let moments = (0..400_i64).flat_map(|ms| {
            let count = match ms {
                200 => 1_200,
                _ if ms % 40 == 0 => 50,
                _ => 1,
            };
            std::iter::repeat_n(ms, count)
        });
        let rows: Vec<JournalRow> = (0_u64..)
            .zip(moments)
            .map(|(number, ms)| row(window, number, ms))
            .collect();
        let mut next = window.from;
        let mut found = 0;
        let mut read_count = 0;
        while next < window.to {
            let remaining = Window {
                from: next,
                ..window
            };
            let first = read(&rows, 0, remaining, ENTRIES_OF_FIRST);
            let of_first = Window {
                to: end_of(&first).unwrap_or(remaining.to),
                ..remaining
            };
            let mut shards = vec![first];
            for shard in 1..JOURNAL_SHARDS {
                shards.push(read(&rows, shard, of_first, ENTRIES_OF_OTHERS_MAX));
            }
            read_count += shards.iter().map(|shard| shard.rows.len()).sum::<usize>();
            let part = JournalPart::of(of_first, shards);
            assert!(
                part.window.from == next && part.window.to > next,
                "{:?}",
                part.window
            );
            let of_part = part.window.from..part.window.to;
            let expected = rows.iter().filter(|row| of_part.contains(&row.at)).count();
            let entries = part.named.len() + part.unreadable.len();
            assert_eq!(entries, expected, "{}", part.window.from);
            let has_long_moment = of_part.contains(&window.from.plus_ms(200));
            let most = 8 * 100 + if has_long_moment { 1_200 } else { 0 };
            assert!(entries < most, "{entries} entries in a part");
            next = part.window.to;
            found += expected;
        }
        assert_eq!((next, found), (window.to, rows.len()));
        assert!(
            read_count * 20 < rows.len() * 21,
            "{read_count} reads of {} entries",
            rows.len()
        );
    }
}
