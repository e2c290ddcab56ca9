//! The input of the cost calculation: the measurements of both designs, in the terms of [`crate::money`].
//!
//! Pages and writes use the units that the engine counted. Storage, audits and the reads of `recent` are computed from
//! the items' sizes by DynamoDB's rules. Redis uses the memory of one large product; many small ones take somewhat more
//! or less (`index` measures a mix).

use model::Comment;

use super::{
    contestants::{is_any_language, name},
    costs::{Cost, Costs},
    reads::{Depth, Reading},
    storage::Stored,
    writes::{Writing, Writings},
};
use crate::{
    money::{PerRatings, PerWrite, Usage, Workload, Write, WriteUsage},
    statistics::{Latencies, as_f64},
};

const READ_UNIT_BYTES: f64 = 4096.0;
/// The job audits each comment once a week, with the index scan. A month has 730 hours, a week 168.
const AUDITS_A_MONTH: f64 = 730.0 / 168.0;
/// The index scan reads each ranked comment's primary item, eventually consistent.
const INDEX_SCAN_READ_UNITS: f64 = 0.5;
/// `stream-writer` and `page-indexer`. At a low rate each write is a separate invocation. At a high rate one invocation
/// handles up to a hundred writes.
const FUNCTIONS: f64 = 2.0;
/// The functions' memory in the deployment template, in GB.
const FUNCTION_MEMORY_GB: f64 = 0.25;

/// This design's usage; `None` if some number of ratings was not measured.
pub(super) fn pagemark(costs: &[Costs], latencies: &[Reading], writings: &[Writings], stored: Stored) -> Option<Usage> {
    let write = per_write(
        writings,
        |of| &of.pagemark,
        |write, writing| WriteUsage {
            write_units: writing.units_each(),
            // A change first reads the comment. Within the hour, `recent` reads all its items. Both reads are strongly
            // consistent.
            read_units: (if write == Write::Insert { 0.0 } else { 1.0 })
                + (stored.read_bytes() / READ_UNIT_BYTES).ceil(),
            function_invocations: FUNCTIONS,
            // Both handlers run in parallel, so this is the longer one, counted twice.
            function_ms: FUNCTIONS * (writing.derived.p50_us() - writing.acknowledged.p50_us()).max(0.0) / 1e3,
        },
    )?;
    Some(Usage {
        design: "Pagemark".to_owned(),
        page_read_units: per_ratings(costs, |costs| &costs.pagemark)?,
        page_latency_us: latencies_by_ratings(latencies, |reading| &reading.pagemark),
        write,
        function_memory_gb: FUNCTION_MEMORY_GB,
        table_bytes: stored.table_bytes,
        index_bytes: stored.index_bytes,
        redis_bytes: stored.redis_bytes,
        // A scan is eventually consistent.
        upkeep_read_units: AUDITS_A_MONTH * (stored.read_bytes() / READ_UNIT_BYTES / 2.0 + INDEX_SCAN_READ_UNITS),
    })
}

/// The other design's usage without counters. Counters cost more to write, and more to read wherever no rating is
/// empty.
pub(super) fn four_index(
    costs: &[Costs],
    latencies: &[Reading],
    writings: &[Writings],
    stored: Stored,
) -> Option<Usage> {
    let write = per_write(
        writings,
        |of| &of.four,
        |write, writing| WriteUsage {
            write_units: writing.units_each(),
            read_units: if write == Write::Insert { 0.0 } else { 1.0 },
            ..WriteUsage::default()
        },
    )?;
    Some(Usage {
        design: "four indexes".to_owned(),
        page_read_units: per_ratings(costs, |costs| &costs.four)?,
        page_latency_us: latencies_by_ratings(latencies, |reading| &reading.four),
        write,
        table_bytes: stored.table_bytes,
        index_bytes: stored.index_bytes,
        ..Usage::default()
    })
}

/// Months of three sizes. Assumptions: nine in ten writes are new comments, and three in four page views have no rating
/// filter.
pub(super) fn workloads(comments: &[Comment]) -> Vec<Workload> {
    let bytes: usize = comments
        .iter()
        .map(|comment| {
            let text = &comment.text;
            let optional = [&text.title, &text.author].into_iter().flatten().map(String::len).sum::<usize>();
            text.body.len() + optional
        })
        .sum();
    let comment_bytes = as_f64(bytes as u64) / as_f64(comments.len().max(1) as u64);
    let month = |name: &str, comments: f64, writes: f64, views: f64| Workload {
        name: name.to_owned(),
        page_views: [0.1, 0.05, 0.05, 0.05, 0.75].map(|share| share * views),
        // Inserts, text edits, rating changes, deletions.
        writes: [0.9, 0.05, 0.02, 0.03].map(|share| share * writes),
        comments,
        comment_bytes,
    };
    vec![
        month("10 million comments, 1 million writes, 100 million views", 1e7, 1e6, 1e8),
        month("1 million comments, 100,000 writes, 1 million views", 1e6, 1e5, 1e6),
        month("500 million comments, 10 million writes, 1 billion views", 5e8, 1e7, 1e9),
    ]
}

/// A sentence about where pages of this design take longer; `None` if nowhere.
pub(super) fn slower(near: &[Reading], far: &[Reading]) -> Option<String> {
    let worst = |readings: &[Reading]| {
        let slower = |reading: &Reading| reading.pagemark.p50_us() / reading.four.p50_us();
        let slower: Vec<(f64, String)> = readings
            .iter()
            .filter(|reading| slower(reading) > 1.0)
            .map(|reading| (slower(reading), name(&reading.listing)))
            .collect();
        let count = slower.len();
        let worst = slower.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((count, readings.len(), worst))
    };
    let (near, far) = (worst(near), worst(far));
    let text = |how: &str, of: Option<(usize, usize, (f64, String))>| {
        of.map(|(count, all, (factor, name))| {
            format!(
                "{how} {count} of {all} filters and pages take longer (p50), at most {factor:.2} times as long ({name})"
            )
        })
    };
    let slower: Vec<String> =
        [text("on loopback", near), text("over connections with a delay", far)].into_iter().flatten().collect();
    (!slower.is_empty())
        .then(|| format!("Pages: {}; each page is a call to Redis and then one to DynamoDB.", slower.join("; ")))
}

/// A sentence about how much longer an insert takes; `None` if it does not.
pub(super) fn slower_writes(writings: &[Writings]) -> Option<String> {
    let insert = writings.iter().find(|writings| writings.write == Write::Insert)?;
    let (ours, theirs) = (&insert.pagemark, &insert.four);
    let (ours_us, theirs_us) = (ours.derived.p50_us(), theirs.derived.p50_us());
    (ours_us > theirs_us).then(|| {
        format!(
            "An insert is acknowledged after {:.0} us (p50), by four indexes after {theirs_us:.0}, and all of its {:.0} items and \
             its ranks are written after {ours_us:.0}, without the time that the stream takes.",
            ours.acknowledged.p50_us(),
            ours.items_each()
        )
    })
}

/// The middle page's cost for each number of ratings, in any language.
fn per_ratings(costs: &[Costs], of: impl Fn(&Costs) -> &Cost) -> Option<PerRatings<f64>> {
    let is_of = |costs: &&Costs, ratings| {
        let listing = &costs.ask.listing;
        costs.depth == Depth::Deep && listing.ratings() == ratings && is_any_language(listing)
    };
    let units = (1..=5).map(|ratings| Some(of(costs.iter().find(|costs| is_of(costs, ratings))?).read_units));
    units.collect::<Option<Vec<f64>>>()?.try_into().ok()
}

fn latencies_by_ratings(readings: &[Reading], of: impl Fn(&Reading) -> &Latencies) -> PerRatings<Option<f64>> {
    let is_of = |reading: &&Reading, ratings| reading.listing.ratings() == ratings && is_any_language(&reading.listing);
    [1, 2, 3, 4, 5].map(|ratings| Some(of(readings.iter().find(|reading| is_of(reading, ratings))?).p50_us()))
}

fn per_write(
    writings: &[Writings],
    of: impl Fn(&Writings) -> &Writing,
    usage: impl Fn(Write, &Writing) -> WriteUsage,
) -> Option<PerWrite<WriteUsage>> {
    let usages: Vec<WriteUsage> = writings.iter().map(|writings| usage(writings.write, of(writings))).collect();
    usages.try_into().ok()
}
