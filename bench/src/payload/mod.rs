//! `payload`: the cost of the ways to write `comment_blob`, in bytes and in DynamoDB's units.
//!
//! Nothing is stored. Sizes are computed by DynamoDB's rules from the items that the product makes. The test of `size`
//! compares that with the consumption that the engine reports. A comment counts with its 32 items, in the table and in
//! the index. Pages are the full pages of 20 of every filter key. Writing counts the transaction twice in the table,
//! including its journal entry, and the index once, because the index follows on its own.

mod encodings;
mod size;

use std::{collections::HashMap, path::Path, time::Instant};

use anyhow::{Context, bail};
use itertools::Itertools;
use local_stack::{
    demo::demo_comments,
    import::{LineReader, parse_line},
};
use model::{BlobFormat, Comment, CommentBlob, CommentText, FilterKey, Revision, item::attribute};
use table::NewComment;

use crate::{
    listing::PAGE_SIZE,
    report::{Report, Table, count, row},
    statistics::{Latencies, as_f64},
    workload::{filter_keys, primary_item},
};
use encodings::Dictionaries;
pub(crate) use size::STORAGE_OVERHEAD_BYTES;
use size::{item_bytes, query_units, write_units};

/// The compared levels of zstd.
const LEVELS: [i32; 4] = [1, 3, 9, 19];
/// The level of the other rows, which is the product's.
const LEVEL: i32 = 3;
/// The sizes of trained dictionaries.
const DICTIONARIES_KIB: [usize; 3] = [4, 16, 64];
/// Comments are grouped by the total bytes of title, body and author. The last group has no upper limit.
const GROUPS: [(usize, usize); 5] = [(0, 100), (100, 300), (300, 600), (600, 1_000), (1_000, usize::MAX)];
/// Units of a journal entry, which is smaller than 1 KB, in its transaction.
const JOURNAL_WRITE_UNITS: usize = 2;

/// The keys of a comment's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// The actual keys.
    Design,
    /// Keys with a set of ratings as one character, for its five bits.
    BitMask,
}

/// The comments, and the data that does not depend on how they are written.
struct Corpus {
    texts: Vec<CommentText>,
    /// The bytes of a comment's primary item without the values of its sort key and its blob.
    rest_bytes: Vec<usize>,
    /// The bytes of a comment's 32 sort keys, the primary item's first; and the number of characters that bit masks
    /// save.
    key_bytes: Vec<Vec<(usize, usize)>>,
    /// For every filter key: its comments, newest first, each with the index of the key among the comment's keys.
    filter_keys: Vec<Vec<(usize, usize)>>,
}

/// A way to write the texts.
struct Way {
    name: String,
    /// The bytes of each value of `comment_blob`.
    blobs: Vec<usize>,
    keys: Keys,
    /// Bytes that shorter names of attributes save per item.
    names_saved: usize,
}

/// The cost of writing texts in one way.
struct Cost {
    blob_bytes: f64,
    items_bytes: f64,
    stored_bytes: f64,
    write_units: f64,
    page_units: f64,
}

/// Measures the comments of a file, or generated ones.
pub(crate) fn measure(report: &mut Report, data: Option<&Path>, comments: u64) -> anyhow::Result<()> {
    let (comments, about) = match data {
        Some(path) => (read_comments(path)?, "comments of a file"),
        None => (demo_comments(comments).collect(), "generated comments"),
    };
    report.step(&format!("{} {about}", count(comments.len() as u64)));
    let corpus = Corpus::new(comments)?;
    let about = format!("{} {about}, zstd {}", count(corpus.texts.len() as u64), encodings::zstd_version());
    let map = corpus.each(|text| encodings::product(text, BlobFormat::Map))?;
    let zstd = corpus.each(|text| encodings::product(text, BlobFormat::Zstd))?;
    let (rows, with_dictionary) = ways(&corpus, &map, &zstd)?;
    report.table(costs_table(&about, &corpus, &rows));
    let ways = [("map", &map), ("zstd", &zstd), ("dictionary", &with_dictionary)];
    report.table(groups_table(&about, &corpus, &ways));
    report.table(times_table(&about, &corpus.texts)?);
    Ok(())
}

/// The compared ways to write the texts, the default first. Also the sizes with the largest dictionary.
fn ways(corpus: &Corpus, map: &[usize], zstd: &[usize]) -> anyhow::Result<(Vec<Way>, Vec<usize>)> {
    let or_map = |sizes: &[usize]| -> Vec<usize> { sizes.iter().zip(map).map(|(a, b)| *a.min(b)).collect() };
    let way = |name: &str, blobs: Vec<usize>| Way { name: name.to_owned(), blobs, keys: Keys::Design, names_saved: 0 };
    let names_saved = attribute_names_saved();
    let short = corpus.each(encodings::map_of_short_names)?;
    let snappy = corpus.each(encodings::snappy_always)?;
    let mut ways = vec![
        way("map (the default)", map.to_vec()),
        way("map, its fields named by one letter", short.clone()),
        Way { names_saved, ..way("the same, the item's attributes too", short) },
        Way { keys: Keys::BitMask, ..way("map, rating sets as bit masks", map.to_vec()) },
        way("lengths and texts, not compressed", corpus.each(|text| Ok(encodings::plain(text)))?),
        way("snappy or map", or_map(&snappy)),
        way("snappy, always", snappy),
    ];
    for level in LEVELS {
        let sizes = corpus.each(|text| encodings::zstd_always(text, level))?;
        ways.push(way(&format!("zstd {level} or map"), or_map(&sizes)));
        ways.push(way(&format!("zstd {level}, always"), sizes));
    }
    ways.push(way("zstd, the setting", zstd.to_vec()));
    ways.push(Way { names_saved, ..way("the same, the item's attributes named by one letter", zstd.to_vec()) });
    let mut with_dictionary = Vec::new();
    for kib in DICTIONARIES_KIB {
        let mut dictionaries = Dictionaries::train(&corpus.texts, kib * 1024, LEVEL)?;
        let texts = corpus.texts.iter().enumerate();
        let sizes: Vec<usize> = texts.map(|(place, text)| dictionaries.always(place, text)).try_collect()?;
        with_dictionary = or_map(&sizes);
        ways.push(way(&format!("zstd {LEVEL} or map, dictionary of {kib} KiB"), with_dictionary.clone()));
    }
    Ok((ways, with_dictionary))
}

/// One line in this many may be refused: a few real reviews have no visible character.
const REFUSED_ONE_IN: usize = 1_000;

/// The comments of a file of JSON lines.
pub(crate) fn read_comments(path: &Path) -> anyhow::Result<Vec<NewComment>> {
    let mut reader = LineReader::open(path).with_context(|| path.display().to_string())?;
    let mut comments = Vec::new();
    let mut refused = Vec::new();
    while let Some((number, line)) = reader.next_line()? {
        match line.and_then(|line| parse_line(&line)) {
            Ok(comment) => comments.push(comment),
            Err(reason) => refused.push(format!("line {number}: {reason}")),
        }
    }
    if refused.len() * REFUSED_ONE_IN > comments.len() {
        bail!("{} lines are refused; the first: {}", refused.len(), refused.first().map_or("", String::as_str));
    }
    Ok(comments)
}

/// Bytes that one-letter names for `language`, `rating`, `revision` and `comment_blob` save. The names of the keys and
/// of `auto` are already short.
fn attribute_names_saved() -> usize {
    ["language", "rating", "revision", "comment_blob"].iter().map(|name| name.len() - 1).sum()
}

impl Corpus {
    fn new(comments: Vec<NewComment>) -> anyhow::Result<Self> {
        let mut corpus =
            Self { texts: Vec::new(), rest_bytes: Vec::new(), key_bytes: Vec::new(), filter_keys: Vec::new() };
        let mut comments: Vec<Comment> = comments.into_iter().map(stored).collect();
        comments.sort_by_cached_key(|comment| std::cmp::Reverse(comment.cd()));
        let mut by_key: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
        for (place, comment) in comments.into_iter().enumerate() {
            let keys = filter_keys(&comment).iter().map(FilterKey::to_string).collect_vec();
            let blob = encodings::product(&comment.text, BlobFormat::Map)?;
            let primary_key = keys.first().map_or(0, String::len);
            corpus.rest_bytes.push(item_bytes(&primary_item(&comment)?) - primary_key - blob);
            let saved = |key: &String| key.rsplit('/').next().map_or(0, |ratings| ratings.len() - 1);
            corpus.key_bytes.push(keys.iter().map(|key| (key.len(), saved(key))).collect());
            for (number, key) in keys.into_iter().enumerate() {
                by_key.entry(key).or_default().push((place, number));
            }
            corpus.texts.push(comment.text);
        }
        corpus.filter_keys = by_key.into_values().collect();
        Ok(corpus)
    }

    /// The size of each text's value.
    fn each(&self, encode: impl Fn(&CommentText) -> anyhow::Result<usize>) -> anyhow::Result<Vec<usize>> {
        self.texts.iter().map(encode).collect()
    }

    /// The size of one of a comment's items; the primary item's number is 0.
    fn item_bytes(&self, place: usize, number: usize, blob_bytes: usize, keys: Keys, names_saved: usize) -> usize {
        let rest = self.rest_bytes.get(place).copied().unwrap_or_default();
        let (key, saved) = self.key_bytes.get(place).and_then(|keys| keys.get(number)).copied().unwrap_or_default();
        // A Boolean takes one byte.
        let auto = if number == 0 { 0 } else { attribute::AUTO.len() + 1 };
        let key = if keys == Keys::BitMask { key - saved } else { key };
        rest + key + auto + blob_bytes - names_saved
    }

    fn cost(&self, Way { blobs, keys, names_saved, .. }: &Way) -> Cost {
        let (mut items, mut units) = (0, 0);
        for (place, blob) in blobs.iter().enumerate() {
            let numbers = 0..self.key_bytes.get(place).map_or(0, Vec::len);
            for number in numbers {
                let bytes = self.item_bytes(place, number, *blob, *keys, *names_saved);
                items += bytes;
                // In the table and in the index. The primary item's transaction takes the table's units twice.
                units += write_units(bytes) * if number == 0 { 3 } else { 2 };
            }
            units += JOURNAL_WRITE_UNITS;
        }
        let (mut pages, mut page_units) = (0_u64, 0.0);
        for comments in &self.filter_keys {
            for page in comments.chunks_exact(PAGE_SIZE) {
                let bytes = page.iter().map(|(place, number)| {
                    let blob = blobs.get(*place).copied().unwrap_or_default();
                    self.item_bytes(*place, *number, blob, *keys, *names_saved)
                });
                page_units += query_units(bytes.sum());
                pages += 1;
            }
        }
        let mean = |sum: usize| as_f64(sum as u64) / as_f64(blobs.len() as u64);
        Cost {
            blob_bytes: mean(blobs.iter().sum()),
            items_bytes: mean(items),
            stored_bytes: 2.0 * (mean(items) + as_f64(32 * STORAGE_OVERHEAD_BYTES as u64)),
            write_units: mean(units),
            page_units: page_units / as_f64(pages.max(1)),
        }
    }
}

/// The comment in the form that a writer stores.
fn stored(new: NewComment) -> Comment {
    // All revisions have the same length.
    let revision = Revision::after(None, new.created_at, 0);
    let NewComment { id, product, language, rating, created_at, status, text, site } = new;
    let status = status.unwrap_or_default();
    Comment { id, product, language, rating, created_at, revision, status, text, site }
}

fn costs_table(about: &str, corpus: &Corpus, ways: &[Way]) -> Table {
    let of_map = ways.first().map_or(f64::NAN, |map| corpus.cost(map).items_bytes);
    let row = |way: &Way| {
        let Cost { blob_bytes, items_bytes, stored_bytes, write_units, page_units } = corpus.cost(way);
        let share = 100.0 * items_bytes / of_map;
        row![
            ("comment_blob", way.name.as_str()),
            ("its value, bytes", blob_bytes),
            ("32 items, bytes", items_bytes),
            ("beside the map, %", share),
            ("stored, bytes", stored_bytes),
            ("write units a comment", write_units),
            ("read units a page", page_units),
        ]
    };
    Table::new("payload", about, ways.iter().map(row))
}

/// The sizes by the length of the text, which show the comments that gain.
fn groups_table(about: &str, corpus: &Corpus, ways: &[(&str, &Vec<usize>); 3]) -> Table {
    let mut rows = Vec::new();
    let [(_, maps), ..] = ways;
    for (from, to) in GROUPS {
        let bytes = |text: &CommentText| {
            let optional = |part: &Option<String>| part.as_ref().map_or(0, String::len);
            optional(&text.title) + text.body.len() + optional(&text.author)
        };
        let places = corpus.texts.iter().positions(|text| (from..to).contains(&bytes(text))).collect_vec();
        let name = if to == usize::MAX { format!("{from} and more") } else { format!("{from} to {}", to - 1) };
        for (way, blobs) in ways {
            let of = |place: &usize| blobs.get(*place).copied().unwrap_or_default();
            let mean = |sum: usize| as_f64(sum as u64) / as_f64(places.len().max(1) as u64);
            let item = |place: &usize| corpus.item_bytes(*place, 0, of(place), Keys::Design, 0);
            let smaller = places.iter().filter(|place| maps.get(**place).is_some_and(|map| of(place) < *map));
            rows.push(row![
                ("bytes of text", name.as_str()),
                ("way", *way),
                ("comments", places.len()),
                ("its value, bytes", mean(places.iter().map(of).sum())),
                ("compressed, %", 100.0 * mean(smaller.count())),
                ("primary item, bytes", mean(places.iter().map(item).sum())),
                ("write units an item", mean(places.iter().map(|place| write_units(item(place))).sum())),
            ]);
        }
    }
    Table::new("payload by length", about, rows)
}

/// The time for one text, with the product's setting and at each level.
fn times_table(about: &str, texts: &[CommentText]) -> anyhow::Result<Table> {
    let row =
        |what: &str, times: &Latencies| row![("what", what), ("p50, us", times.p50_us()), ("p99, us", times.p99_us())];
    let mut rows = Vec::new();
    let contents: Vec<Vec<u8>> = texts.iter().map(encodings::content).collect();
    for level in LEVELS {
        let times = timed(&contents, |content| Ok(zstd::bulk::compress(content, level)?))?;
        rows.push(row(&format!("compressing at level {level}"), &times));
    }
    let blobs = texts.iter().map(|text| CommentBlob::new(text, BlobFormat::Zstd));
    let compressed: Vec<CommentBlob> = blobs.filter(|blob| matches!(blob, CommentBlob::Binary(_))).collect();
    rows.push(row("reading a compressed text", &timed(&compressed, |blob| Ok(blob.clone().into_text()?))?));
    Ok(Table::new("payload times", about, rows))
}

fn timed<T, R>(inputs: &[T], mut run: impl FnMut(&T) -> anyhow::Result<R>) -> anyhow::Result<Latencies> {
    let mut times = Latencies::new()?;
    for input in inputs {
        let began = Instant::now();
        let made = run(input)?;
        times.record(began.elapsed());
        drop(made);
    }
    Ok(times)
}
