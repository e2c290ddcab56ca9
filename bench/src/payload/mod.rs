//! `payload`: the cost of each format of `comment_blob`, in bytes and in DynamoDB's units.
//!
//! Nothing is stored. Sizes are computed by DynamoDB's rules from the items that the product makes. The test of `size`
//! compares that with the consumption that the engine reports. A comment counts with its 32 items, in the table and in
//! the index. Pages are the full pages of 20 of every filter key. Writing counts the transaction twice in the table,
//! including its journal entry, and the index once, because the index follows on its own.

mod size;

use std::{path::Path, time::Instant};

use anyhow::{Context, bail};
use itertools::Itertools;
use local_stack::{
    demo::demo_comments,
    import::{LineReader, parse_line},
};
use model::{BlobFormat, Comment, CommentBlob, CommentText, Revision};
use table::NewComment;

use crate::{
    listing::PAGE_SIZE,
    report::{Report, Row, Table, count, row},
    statistics::{Latencies, as_f64},
    workload::{filter_keys, items_as},
};
pub(crate) use size::STORAGE_OVERHEAD_BYTES;
use size::{item_bytes, query_units, value_bytes, write_units};

/// The formats, the default first.
const FORMATS: [(&str, BlobFormat); 2] = [("map", BlobFormat::Map), ("zstd", BlobFormat::Zstd)];
/// Comments are grouped by the total bytes of title, body and author. The last group has no upper limit.
const GROUPS: [(usize, usize); 5] = [(0, 100), (100, 300), (300, 600), (600, 1_000), (1_000, usize::MAX)];
/// Units of a journal entry, which is smaller than 1 KB, in its transaction.
const JOURNAL_WRITE_UNITS: usize = 2;

/// The comments' sizes in one format.
struct Written {
    format: &'static str,
    sizes: Vec<Sizes>,
}

struct Sizes {
    text_bytes: usize,
    blob_bytes: usize,
    /// The bytes of the comment's 32 items, the primary one first.
    items_bytes: Vec<usize>,
}

/// Measures the comments of a file, or generated ones.
pub(crate) fn measure(report: &mut Report, data: Option<&Path>, comments: u64) -> anyhow::Result<()> {
    let (mut comments, about) = match data {
        Some(path) => (read_comments(path)?, "comments of a file"),
        None => (demo_comments(comments).map(stored).collect(), "generated comments"),
    };
    let about = format!("{} {about}", count(comments.len() as u64));
    report.step(&about);
    comments.sort_by_cached_key(|comment| std::cmp::Reverse(comment.cd()));
    let mut written = Vec::new();
    for (name, format) in FORMATS {
        let sizes = comments.iter().map(|comment| Sizes::of(comment, format)).try_collect()?;
        written.push(Written { format: name, sizes });
    }
    report.table(costs_table(&about, &comments, &written));
    report.table(groups_table(&about, &written));
    report.table(times_table(&about, &comments)?);
    Ok(())
}

/// One line in this many may be refused: a few real reviews have no visible character.
const REFUSED_ONE_IN: usize = 1_000;

/// The comments of a file of JSON lines.
pub(crate) fn read_comments(path: &Path) -> anyhow::Result<Vec<Comment>> {
    let mut reader = LineReader::open(path).with_context(|| path.display().to_string())?;
    let mut comments = Vec::new();
    let mut refused = Vec::new();
    while let Some((number, line)) = reader.next_line()? {
        match line.and_then(|line| parse_line(&line)) {
            Ok(comment) => comments.push(stored(comment)),
            Err(reason) => refused.push(format!("line {number}: {reason}")),
        }
    }
    if refused.len() * REFUSED_ONE_IN > comments.len() {
        bail!("{} lines are refused; the first: {}", refused.len(), refused.first().map_or("", String::as_str));
    }
    Ok(comments)
}

/// The comment in the form that a writer stores.
fn stored(new: NewComment) -> Comment {
    // All revisions have the same length.
    let revision = Revision::after(None, new.created_at, 0);
    let NewComment { id, product, language, rating, created_at, text } = new;
    Comment { id, product, language, rating, created_at, revision, text }
}

impl Sizes {
    fn of(comment: &Comment, format: BlobFormat) -> anyhow::Result<Self> {
        let blob = serde_dynamo::to_attribute_value(CommentBlob::new(&comment.text, format))?;
        Ok(Self {
            text_bytes: text_bytes(&comment.text),
            blob_bytes: value_bytes(&blob),
            items_bytes: items_as(comment, format)?.iter().map(item_bytes).collect(),
        })
    }

    fn primary_bytes(&self) -> usize {
        self.items_bytes.first().copied().unwrap_or_default()
    }

    /// The units of all writes of a new comment, in the table and in the index.
    fn write_units(&self) -> usize {
        // The primary item's transaction takes the table's units twice.
        let twice: usize = self.items_bytes.iter().map(|bytes| 2 * write_units(*bytes)).sum();
        twice + write_units(self.primary_bytes()) + JOURNAL_WRITE_UNITS
    }
}

/// The bytes of title, body and author.
pub(crate) fn text_bytes(CommentText { title, body, author }: &CommentText) -> usize {
    body.len() + [title, author].into_iter().flatten().map(String::len).sum::<usize>()
}

fn mean(values: impl ExactSizeIterator<Item = usize>) -> f64 {
    let count = values.len();
    as_f64(values.sum::<usize>() as u64) / as_f64(count.max(1) as u64)
}

fn costs_table(about: &str, comments: &[Comment], written: &[Written]) -> Table {
    // For every filter key: its comments, newest first, each with the place of the key's item among the comment's items.
    let keyed = comments.iter().enumerate().flat_map(|(place, comment)| {
        let keys = filter_keys(comment).into_iter().enumerate();
        keys.map(move |(number, key)| (key, (place, number)))
    });
    let by_key = keyed.into_group_map();
    let pages = by_key.values().flat_map(|items| items.chunks_exact(PAGE_SIZE)).collect_vec();
    let items_bytes = |written: &Written| mean(written.sizes.iter().map(|sizes| sizes.items_bytes.iter().sum()));
    let of_map = written.first().map_or(f64::NAN, items_bytes);
    let row = |written: &Written| -> Row {
        let sizes = || written.sizes.iter();
        let bytes = |(place, number): &(usize, usize)| written.sizes.get(*place)?.items_bytes.get(*number).copied();
        let page_units: f64 = pages.iter().map(|page| query_units(page.iter().filter_map(bytes).sum())).sum();
        let items_bytes = items_bytes(written);
        row![
            ("comment_blob", written.format),
            ("its value, bytes", mean(sizes().map(|sizes| sizes.blob_bytes))),
            ("32 items, bytes", items_bytes),
            ("beside the map, %", 100.0 * items_bytes / of_map),
            ("stored, bytes", 2.0 * (items_bytes + as_f64(32 * STORAGE_OVERHEAD_BYTES as u64))),
            ("write units a comment", mean(sizes().map(Sizes::write_units))),
            ("read units a page", page_units / as_f64(pages.len().max(1) as u64)),
        ]
    };
    Table::new("payload", about, written.iter().map(row))
}

/// The sizes by the length of the text, which show the comments that gain.
fn groups_table(about: &str, written: &[Written]) -> Table {
    let maps = written.first().map_or(&[][..], |maps| &maps.sizes);
    let mut rows = Vec::new();
    for (from, to) in GROUPS {
        let name = if to == usize::MAX { format!("{from} and more") } else { format!("{from} to {}", to - 1) };
        for Written { format, sizes } in written {
            let of_group = sizes.iter().zip(maps).filter(|(sizes, _)| (from..to).contains(&sizes.text_bytes));
            let group = of_group.collect_vec();
            let sizes = || group.iter().map(|(sizes, _)| *sizes);
            let is_smaller = group.iter().map(|(sizes, map)| usize::from(sizes.blob_bytes < map.blob_bytes));
            rows.push(row![
                ("bytes of text", name.as_str()),
                ("format", *format),
                ("comments", group.len()),
                ("its value, bytes", mean(sizes().map(|sizes| sizes.blob_bytes))),
                ("compressed, %", 100.0 * mean(is_smaller)),
                ("primary item, bytes", mean(sizes().map(Sizes::primary_bytes))),
                ("write units an item", mean(sizes().map(|sizes| write_units(sizes.primary_bytes())))),
            ]);
        }
    }
    Table::new("payload by length", about, rows)
}

/// The time for one text that zstd makes smaller.
fn times_table(about: &str, comments: &[Comment]) -> anyhow::Result<Table> {
    let (mut compressing, mut reading) = (Latencies::new()?, Latencies::new()?);
    for comment in comments {
        let began = Instant::now();
        let blob = CommentBlob::new(&comment.text, BlobFormat::Zstd);
        let took = began.elapsed();
        if matches!(blob, CommentBlob::Binary(_)) {
            compressing.record(took);
            let began = Instant::now();
            blob.into_text()?;
            reading.record(began.elapsed());
        }
    }
    let rows = [("compressing a text", compressing), ("reading a compressed text", reading)];
    let row = |(what, times): (&str, Latencies)| {
        row![("what", what), ("p50, us", times.p50_us()), ("p99, us", times.p99_us())]
    };
    Ok(Table::new("payload times", about, rows.map(row)))
}
