//! The input of the cost calculation: the measurements of both designs, in the terms of [`crate::money`].
//!
//! Pages and writes use the units that the engine counted. Storage, audits and the reads of `recent` are computed from
//! the items' sizes by DynamoDB's rules. Redis uses the memory of one large product; many small ones take somewhat more
//! or less (`index` measures a mix).

use four_index::KeepCounters;
use model::Comment;

use super::{
    contestants::is_any_language,
    costs::{Cost, Costs},
    reads::Depth,
    storage::Stored,
    writes::{Writing, Writings},
};
use crate::{
    money::{
        FUNCTION_MEMORY_GB, FUNCTIONS, PerRatings, PerWrite, Usage, VIEW_SHARES, WRITE_SHARES, Workload, Write,
        WriteUsage, audit_read_units, consistent_read_units,
    },
    report::{FOUR_INDEXES, FOUR_INDEXES_COUNTERS, PAGEMARK},
    statistics::as_f64,
};

/// This design's usage; `None` if some number of ratings was not measured.
pub(super) fn pagemark(costs: &[Costs], writings: &[Writings], stored: Stored) -> Option<Usage> {
    let write = per_write(
        writings,
        |of| &of.pagemark,
        |write, writing| WriteUsage {
            write_units: writing.units_each(),
            // A change first reads the comment. Within the hour, `recent` reads all its items. Both reads are strongly
            // consistent.
            read_units: (if write == Write::Insert { 0.0 } else { 1.0 }) + consistent_read_units(stored.read_bytes()),
            function_invocations: FUNCTIONS,
            // Both handlers run in parallel, so this is the longer one, counted twice.
            function_ms: FUNCTIONS * writing.functions.p50_us() / 1e3,
        },
    )?;
    Some(Usage {
        design: PAGEMARK.to_owned(),
        page_read_units: per_ratings(costs, |costs| &costs.pagemark)?,
        write,
        function_memory_gb: FUNCTION_MEMORY_GB,
        table_bytes: stored.table_bytes,
        index_bytes: stored.index_bytes,
        redis_bytes: stored.redis_bytes,
        upkeep_read_units: audit_read_units(stored.read_bytes()),
    })
}

/// The other design's usage. Counters cost more to write, and more to read wherever no rating is empty. Their storage,
/// some items for each product, is left out.
pub(super) fn four_index(
    costs: &[Costs],
    writings: &[Writings],
    stored: Stored,
    counters: KeepCounters,
) -> Option<Usage> {
    let is_counting = counters == KeepCounters::Yes;
    let write = per_write(
        writings,
        |of| if is_counting { &of.four_with_counters } else { &of.four },
        |write, writing| WriteUsage {
            write_units: writing.units_each(),
            read_units: if write == Write::Insert { 0.0 } else { 1.0 },
            ..WriteUsage::default()
        },
    )?;
    Some(Usage {
        design: if is_counting { FOUR_INDEXES_COUNTERS } else { FOUR_INDEXES }.to_owned(),
        page_read_units: per_ratings(costs, |costs| if is_counting { &costs.four_with_counters } else { &costs.four })?,
        write,
        table_bytes: stored.table_bytes,
        index_bytes: stored.index_bytes,
        ..Usage::default()
    })
}

/// Months of three sizes.
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
        page_views: VIEW_SHARES.map(|share| share * views),
        writes: WRITE_SHARES.map(|share| share * writes),
        comments,
        comment_bytes,
    };
    vec![
        month("10 million comments, 1 million writes, 100 million views", 1e7, 1e6, 1e8),
        month("1 million comments, 100,000 writes, 1 million views", 1e6, 1e5, 1e6),
        month("500 million comments, 10 million writes, 1 billion views", 5e8, 1e7, 1e9),
    ]
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

fn per_write(
    writings: &[Writings],
    of: impl Fn(&Writings) -> &Writing,
    usage: impl Fn(Write, &Writing) -> WriteUsage,
) -> Option<PerWrite<WriteUsage>> {
    let usages: Vec<WriteUsage> = writings.iter().map(|writings| usage(writings.write, of(writings))).collect();
    usages.try_into().ok()
}
