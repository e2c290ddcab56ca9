//! The rebuild of the page index, by the product catalogue and by a scan.
//!
//! A rebuild asks for the table's id once, with `DescribeTable`. For that call the engine counts all items of the table
//! (0.7 s per million); DynamoDB does not. So the table for the rebuild by the catalogue holds only the items that the
//! rebuild reads: the primary ones. The other rebuilds are measured with all items, and their figures give the duration
//! of that call.

use std::time::{Duration, Instant};

use anyhow::ensure;
use futures_util::{StreamExt, TryStreamExt, stream};
use model::{Comment, ProductId};
use repair_job::{Job, Report as RepairReport};
use table::{ItemKey, ScanOf, Table};

use super::{Loaded, ROUNDS, World, drawn};
use crate::{
    index::{add_members, base_set_members},
    report::{Limit, Report, count as number},
    statistics::{Rounds, median},
    workload::EVENT_RECORDS,
};

pub(super) const SCAN_RATIO: &str = "rebuild_vs_scan_and_pipeline";
const CATALOGUE_RATIO: &str = "rebuild_vs_queries_and_pipeline";
/// Comments per product, like in the real reviews that the design was made for: 976 (42,943 comments of 44 products).
const COMMENTS_OF_A_PRODUCT: usize = 976;
/// Products read in parallel: the command's default.
const PRODUCTS_AT_ONCE: u32 = 4;
/// Items that a query or a scan for primary items reads in one call, like the rebuild.
const READ_LIMIT: u32 = 4_000;

/// The result of rebuild rounds.
#[derive(Default)]
pub(super) struct RebuildRounds {
    against_pipeline: Rounds,
    pub(super) against_reading_and_pipeline: Rounds,
    reading_s: Vec<f64>,
    /// Read units of the last rebuild.
    read_units: f64,
}

/// Alternates a rebuild, bare reading of the same items, and a bare pipeline. `read` returns how many comments it
/// found.
async fn rebuild_rounds(
    world: &mut World,
    rebuild: impl AsyncFn(&Job) -> RepairReport,
    read: impl AsyncFn(&Table) -> anyhow::Result<usize>,
) -> anyhow::Result<RebuildRounds> {
    let mut rounds = RebuildRounds::default();
    for round in 0..=ROUNDS {
        let job = world.job(true);
        let began = Instant::now();
        let rebuilt = rebuild(&job).await;
        let ours = began.elapsed();
        ensure!(rebuilt.exit_code() == 0 && rebuilt.checked == world.comments.len() as u64, "{rebuilt}");
        let began = Instant::now();
        let found = read(&world.table).await?;
        let reading = began.elapsed();
        ensure!(found == world.comments.len(), "{found} primary items read");
        let mut pipeline = Duration::ZERO;
        for comments in world.comments.chunks(EVENT_RECORDS) {
            let members = base_set_members(&world.redis.index, comments);
            let began = Instant::now();
            add_members(&mut world.redis, &members).await?;
            pipeline += began.elapsed();
        }
        if round > 0 {
            rounds.against_pipeline.add(ours, pipeline);
            rounds.against_reading_and_pipeline.add(ours, reading + pipeline);
            rounds.reading_s.push(reading.as_secs_f64());
            rounds.read_units = rebuilt.read_units;
        }
    }
    Ok(rounds)
}

/// Alternates a rebuild by a scan, a bare scan and a bare pipeline.
pub(super) async fn scan_rounds(world: &mut World) -> anyhow::Result<RebuildRounds> {
    rebuild_rounds(world, async |job| job.rebuild_by_scan(1).await, bare_placement_scan).await
}

/// Alternates a rebuild by the product catalogue, bare queries of the same products and a bare pipeline. Also returns
/// the number of products.
async fn catalogue_rounds(world: &mut World) -> anyhow::Result<(RebuildRounds, usize)> {
    let products = listed_products(&world.table).await?;
    let queries = async |table: &Table| bare_queries(table, &products).await;
    let rounds = rebuild_rounds(world, async |job| job.rebuild(PRODUCTS_AT_ONCE).await, queries).await?;
    Ok((rounds, products.len()))
}

/// Measures the rebuild of the page index of `comments` comments: by the product catalogue, for products with few
/// comments and for products with as many as real ones, and by a scan.
pub(crate) async fn measure_rebuild(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    let (count, each) = (u64::from(comments), f64::from(comments.max(1)));
    report.step(&format!("loading {} comments with all their items", number(count)));
    let mut world = World::with_index(drawn(comments)?, Loaded::AllItems).await?;
    report.step(&format!("{ROUNDS} rounds of rebuild, bare queries and bare pipeline"));
    let (of_few, few_products) = catalogue_rounds(&mut world).await?;
    report.step(&format!("{ROUNDS} rounds of rebuild by scan, bare scan and bare pipeline"));
    let by_scan = scan_rounds(&mut world).await?;
    let began = Instant::now();
    world.table.describe().await?;
    let describing = began.elapsed();
    world.stop().await;
    report.step(&format!("loading as many comments of {COMMENTS_OF_A_PRODUCT} a product"));
    let mut world = World::with_index(drawn_by_product(comments)?, Loaded::PrimaryItems).await?;
    report.step(&format!("{ROUNDS} rounds of rebuild, bare queries and bare pipeline"));
    let (of_many, many_products) = catalogue_rounds(&mut world).await?;
    world.stop().await;
    let rate = |rounds: &RebuildRounds| rounds.against_pipeline.our_rate(count);
    let reading = |rounds: &RebuildRounds| each / median(&rounds.reading_s);
    for (name, rounds, products) in [("rebuild", &of_many, many_products), ("rebuild-few", &of_few, few_products)] {
        report.add(
            name,
            &format!(
                "by the product catalogue: {ROUNDS} rounds of {} comments of {} products each way, {PRODUCTS_AT_ONCE} \
                 products at the same time",
                number(count),
                number(products as u64)
            ),
            &[
                ("rebuild", rate(rounds), "comments/s"),
                ("bare pipeline of ZADD", rounds.against_pipeline.bare_rate(count), "comments/s"),
                ("bare queries for primary items", reading(rounds), "comments/s"),
                ("read units", rounds.read_units / each, "units/comment"),
            ],
        );
    }
    report.add(
        "rebuild-scan",
        &format!("by a scan: {ROUNDS} rounds of {} comments each way, one segment", number(count)),
        &[
            ("rebuild", rate(&by_scan), "comments/s"),
            ("bare pipeline of ZADD", by_scan.against_pipeline.bare_rate(count), "comments/s"),
            ("bare scan for primary items", reading(&by_scan), "comments/s"),
            ("DescribeTable of the engine, with 32 items a comment", describing.as_secs_f64(), "s"),
            ("read units", by_scan.read_units / each, "units/comment"),
        ],
    );
    report.ratio("rebuild_vs_pipeline", of_many.against_pipeline.ratio(), Limit::AtLeast(0.5));
    let few = format!("{} comments of {} products", number(count), number(few_products as u64));
    report.ratio_noted("rebuild_vs_pipeline_few", of_few.against_pipeline.ratio(), Limit::None, &few);
    for (name, rounds) in [(CATALOGUE_RATIO, &of_many), (SCAN_RATIO, &by_scan)] {
        let floor = rounds.against_reading_and_pipeline.ratio();
        report.ratio_noted(name, floor, Limit::None, "the nearer to 1 the better");
    }
    Ok(())
}

/// Comments of products that have as many comments as real ones.
fn drawn_by_product(count: u32) -> anyhow::Result<Vec<Comment>> {
    let mut comments = drawn(count)?;
    for (place, comment) in comments.iter_mut().enumerate() {
        comment.product = ProductId::parse(&format!("shop/item-{:05}", place / COMMENTS_OF_A_PRODUCT))?;
    }
    Ok(comments)
}

/// The products of the catalogue.
async fn listed_products(table: &Table) -> anyhow::Result<Vec<ProductId>> {
    let (mut listed, mut position) = (Vec::new(), None);
    loop {
        let (products, next) = table.listed_products(position).await?;
        listed.extend(products);
        position = next;
        if position.is_none() {
            return Ok(listed);
        }
    }
}

/// Returns the number of primary items.
async fn bare_queries(table: &Table, products: &[ProductId]) -> anyhow::Result<usize> {
    let queries = products.iter().map(|product| async move {
        let (mut found, mut position) = (0, None);
        loop {
            let part = table.primary_part(product, position, READ_LIMIT).await?;
            found += part.comments.len();
            position = part.next;
            if position.is_none() {
                return Ok(found);
            }
        }
    });
    let queries = stream::iter(queries).buffer_unordered(PRODUCTS_AT_ONCE as usize);
    queries.try_fold(0, async |sum, found: usize| Ok(sum + found)).await
}

/// Returns the number of primary items.
async fn bare_placement_scan(table: &Table) -> anyhow::Result<usize> {
    let (mut found, mut position): (usize, Option<ItemKey>) = (0, None);
    loop {
        let scanned = table.scan_segment(ScanOf::Placements, position, 0, 1, READ_LIMIT).await?;
        found += scanned.items.len();
        position = scanned.next;
        if position.is_none() {
            return Ok(found);
        }
    }
}
