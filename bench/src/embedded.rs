//! `embedded`: the page index inside the process beside the one in Redis.
//!
//! - **Memory.** The growth of this process's resident memory per comment: everything, also what the allocator wastes.
//! - **Snapshot.** Of the same index, written and read again.
//! - **Selection.** The start of random pages of one product, under filters of one to four ratings. For Redis it is the
//!   server's time under four, as in `selection`. Inside the process it is the whole call, under the slowest filter.
//! - **Growth.** The same call in a product of ten times as many comments. Rounds alternate between both products.
//! - **Rate.** Rounds alternate; both indexes apply the same planned edits, a batch after the other. Nothing is decoded.

use std::time::{Duration, Instant};

use anyhow::Context;
use embedded_index::EmbeddedIndex;
use model::{FilterKey, ProductId, plan::IndexEdit};
use page_index::PageIndex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    api::resident_bytes,
    dataset::PRODUCT,
    filled_stores::page_start,
    index::insertion,
    listing::PAGE_SIZE,
    options::Effort,
    report::{Limit, Report, Table, count as number, row},
    selection::{self, FILTERS, Shape, Subject, TABLE_ID},
    statistics::{Latencies, Rounds, as_f64, median, percentile, timed},
    workload::{Comments, Redis, folder},
};

const FULL: Effort = Effort { rounds: 15, a_half: 20_000 };
const QUICK: Effort = Effort { rounds: 7, a_half: 5_000 };
/// Edits of one call, as many as `page-indexer` sends together.
const EDITS_TOGETHER: usize = 256;
/// Number of comments that are drawn together. They are dropped before the next ones are drawn.
const CHUNK: u32 = 10_000;
/// How many times as many comments the larger product has.
const TIMES: u32 = 10;
/// Rounds of pages in both products.
const GROWTH_ROUNDS: u32 = 9;
const PARTITIONS: u16 = 256;
const MAX_AGE: Duration = Duration::from_secs(3 * 3600);
/// Number of comments from which limits apply.
const LIMIT_FROM: u32 = 1_000_000;
const MB: f64 = 1e6;

pub(crate) async fn measure(report: &mut Report, comments: u32, is_quick: bool) -> anyhow::Result<()> {
    let is_large = |limit: Limit| limit.only_if(comments >= LIMIT_FROM);
    report.step(&format!("{} comments inside the process", number(comments)));
    let mut workload = Comments::new(3)?;
    drop(edits_of(&mut workload, CHUNK, None)?);
    let before = resident_bytes(std::process::id())?;
    let (index, _) = filled(&mut workload, comments, None).await?;
    let bytes = as_f64(resident_bytes(std::process::id())?.saturating_sub(before)) / f64::from(comments);
    report.ratio_noted("embedded_bytes_per_comment", bytes, is_large(Limit::AtMost(40.0)), "at most 40 at 1,000,000");
    let (file_bytes, written, read) = snapshot(&index)?;
    drop(index);

    report.step(&format!("pages of a product of {} comments", number(comments)));
    let calls = if is_quick { 500 } else { 2_000 };
    let product = ProductId::parse(PRODUCT)?;
    let (one_product, took) = filled(&mut workload, comments, Some(&product)).await?;
    let mut redis = Redis::start().await?;
    selection::fill(&mut redis, Shape::Even, comments).await?;
    let mut subject = Subject::new(&redis, FILTERS.last().context("a filter")?).await?;
    let of_redis = subject.costs(&mut redis, None, calls).await?.times;
    redis.stop().await;
    let one_product = PageIndex::new(one_product);
    let ours = slowest_selection(&one_product, calls).await?;
    let share = ours.p99_us() / of_redis.p99_us();
    report.ratio_noted("embedded_selection_vs_redis", share, is_large(Limit::AtMost(0.03)), "99th percentiles");

    report.step(&format!("pages of a product of {} comments", number(comments * TIMES)));
    let (larger, _) = filled(&mut workload, comments * TIMES, Some(&product)).await?;
    let growth = growth(report, [&one_product, &PageIndex::new(larger)], calls).await?;
    let note = format!("{TIMES} times as many comments, 99th percentiles, slowest filter");
    report.ratio_noted("embedded_selection_10x", growth, is_large(Limit::AtMost(1.5)), &note);

    let effort = if is_quick { QUICK } else { FULL };
    report.step(&format!("{} rounds of edits", effort.rounds));
    let rounds = rounds(&mut workload, effort).await?;
    report.ratio("embedded_apply_vs_redis", rounds.ratio(), Limit::AtLeast(8.0));

    let edits = u64::from(effort.a_half);
    let per_s = |bytes: f64, took: Duration| bytes / MB / took.as_secs_f64();
    report.add(
        "embedded",
        &format!("{} comments; edits in random order of time", number(comments)),
        &[
            ("resident memory", bytes, "bytes/comment"),
            ("snapshot", file_bytes / f64::from(comments), "bytes/comment"),
            ("snapshot written", per_s(file_bytes, written), "MB/s"),
            ("snapshot read", per_s(file_bytes, read), "MB/s"),
            ("snapshot read, as a restart waits for it", read.as_secs_f64(), "s"),
            ("one product filled", f64::from(comments) / took.as_secs_f64(), "comments/s"),
            ("start of a page, p50", ours.p50_us(), "us"),
            ("start of a page, p99", ours.p99_us(), "us"),
            ("start of a page, p50 in Redis", of_redis.p50_us(), "us"),
            ("start of a page, p99 in Redis", of_redis.p99_us(), "us"),
            ("edits", rounds.our_rate(edits), "comments/s"),
            ("edits in Redis", rounds.bare_rate(edits), "comments/s"),
        ],
    );
    Ok(())
}

/// The edits that add comments, all of one product if it is given.
fn edits_of(workload: &mut Comments, count: u32, product: Option<&ProductId>) -> anyhow::Result<Vec<IndexEdit>> {
    let mut edits = Vec::new();
    for mut comment in workload.take(count)? {
        if let Some(product) = product {
            comment.product = product.clone();
        }
        edits.extend(insertion(&comment));
    }
    Ok(edits)
}

async fn apply(index: &PageIndex, edits: &[IndexEdit]) -> anyhow::Result<Duration> {
    let began = Instant::now();
    for together in edits.chunks(EDITS_TOGETHER) {
        index.apply(together).await?;
    }
    Ok(began.elapsed())
}

/// An index with so many comments, which is ready, and the time that the edits took.
async fn filled(
    workload: &mut Comments,
    comments: u32,
    product: Option<&ProductId>,
) -> anyhow::Result<(EmbeddedIndex, Duration)> {
    let embedded = EmbeddedIndex::new(PARTITIONS, MAX_AGE);
    let index = PageIndex::new(embedded.clone());
    let rebuild = index.begin_rebuild().await?;
    let (mut left, mut took) = (comments, Duration::ZERO);
    while left > 0 {
        let count = left.min(CHUNK);
        took += apply(&index, &edits_of(workload, count, product)?).await?;
        left -= count;
    }
    index.finish_rebuild(&rebuild, TABLE_ID, process::now()).await?;
    Ok((embedded, took))
}

/// The size of a snapshot in bytes, and how long it took to write and to read.
fn snapshot(index: &EmbeddedIndex) -> anyhow::Result<(f64, Duration, Duration)> {
    let folder = folder()?;
    let path = folder.path().join("index");
    let began = Instant::now();
    let bytes = index.save(&path, TABLE_ID)?;
    let written = began.elapsed();
    let began = Instant::now();
    drop(EmbeddedIndex::open(&path, TABLE_ID, PARTITIONS, MAX_AGE)?);
    Ok((as_f64(bytes), written, began.elapsed()))
}

/// How long it takes to find the start of random pages.
async fn selection_times(index: &PageIndex, key: &FilterKey, calls: u32) -> anyhow::Result<Latencies> {
    let pages = page_start(index, TABLE_ID, key, 1).await?.total.div_ceil(PAGE_SIZE as u64).max(1);
    let (mut rng, mut times) = (StdRng::seed_from_u64(5), Latencies::new()?);
    for _ in 0..calls {
        let page = rng.random_range(1..=pages);
        times.record(timed(page_start(index, TABLE_ID, key, page)).await?.1);
    }
    Ok(times)
}

/// How long it takes to find the start of random pages under the filter where the 99th percentile is highest.
async fn slowest_selection(index: &PageIndex, calls: u32) -> anyhow::Result<Latencies> {
    let mut slowest = Latencies::new()?;
    for ratings in FILTERS {
        let times = selection_times(index, &selection::key_of(ratings)?, calls).await?;
        slowest = if times.percentile_us(0.99) > slowest.percentile_us(0.99) { times } else { slowest };
    }
    Ok(slowest)
}

/// Finds the start of random pages in both products, in alternating rounds, under each filter. A filter's ratio is that
/// of the larger product's 99th percentile to the other's, the median of all rounds. Returns the highest ratio.
async fn growth(report: &mut Report, [product, larger]: [&PageIndex; 2], calls: u32) -> anyhow::Result<f64> {
    let (mut rows, mut of_filters) = (Vec::new(), Vec::new());
    for ratings in FILTERS {
        let key = selection::key_of(ratings)?;
        let (mut p99s, mut larger_p99s, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..GROWTH_ROUNDS {
            let p99_us = selection_times(product, &key, calls).await?.p99_us();
            let larger_p99_us = selection_times(larger, &key, calls).await?.p99_us();
            p99s.push(p99_us);
            larger_p99s.push(larger_p99_us);
            ratios.push(larger_p99_us / p99_us);
        }
        of_filters.push(median(&ratios));
        rows.push(row![
            ("ratings", ratings.len()),
            ("p99, us", median(&p99s)),
            ("p99 in the larger product, us", median(&larger_p99s)),
            ("ratio", median(&ratios)),
            ("lowest", percentile(&ratios, 0.0)),
            ("highest", percentile(&ratios, 1.0)),
        ]);
    }
    let about =
        format!("The start of a page, also in a product of {TIMES} times as many comments; {GROWTH_ROUNDS} rounds.");
    report.table(Table::new("embedded growth", &about, rows));
    Ok(percentile(&of_filters, 1.0))
}

/// The same edits applied to an index inside the process, and to one in Redis.
async fn rounds(workload: &mut Comments, effort: Effort) -> anyhow::Result<Rounds> {
    let redis = Redis::start().await?;
    let embedded = PageIndex::new(EmbeddedIndex::new(PARTITIONS, MAX_AGE));
    let rounds = Rounds::run(effort.rounds, async || {
        let edits = edits_of(workload, effort.a_half, None)?;
        Ok((apply(&embedded, &edits).await?, apply(&redis.index, &edits).await?))
    });
    let rounds = rounds.await?;
    redis.stop().await;
    Ok(rounds)
}
