//! The rebuild of the page index, by the product catalogue and by a scan.

use std::time::{Duration, Instant};

use anyhow::ensure;
use model::ProductId;
use repair_job::{Job, Report as RepairReport};
use stores::{
    Table,
    table::{ItemKey, ScanOf},
};

use super::{ROUNDS, World};
use crate::{
    index::{add_members, base_set_members},
    report::{Limit, Report, count as number},
    statistics::{Rounds, median},
    workload::EVENT_RECORDS,
};

pub(super) const SCAN_RATIO: &str = "rebuild_vs_scan_and_pipeline";
const CATALOGUE_RATIO: &str = "rebuild_vs_queries_and_pipeline";
/// Items that a query or a scan for primary items reads in one call: as the rebuild does.
const READ_LIMIT: u32 = 4_000;

/// What rounds of rebuilding took.
#[derive(Default)]
pub(super) struct RebuildRounds {
    against_pipeline: Rounds,
    pub(super) against_reading_and_pipeline: Rounds,
    reading_s: Vec<f64>,
    /// Read units of the last rebuild.
    read_units: f64,
}

/// A rebuild, bare reading of the same and a bare pipeline in turn; the reading returns how many comments it found.
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

/// A rebuild by a scan, a bare scan and a bare pipeline in turn.
pub(super) async fn scan_rounds(world: &mut World) -> anyhow::Result<RebuildRounds> {
    rebuild_rounds(world, async |job| job.rebuild_by_scan(1).await, bare_placement_scan).await
}

/// Measures the rebuild of the page index of `comments` comments, by the product catalogue and by a scan.
pub(crate) async fn measure_rebuild(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments with all their items", number(comments.into())));
    let mut world = World::with_index(comments).await?;
    let products = listed_products(&world.table).await?;
    report.step(&format!("{ROUNDS} rounds of rebuild, bare queries and bare pipeline"));
    let queries = async |table: &Table| bare_queries(table, &products).await;
    let by_catalogue = rebuild_rounds(&mut world, async |job| job.rebuild(1).await, queries).await?;
    report.step(&format!("{ROUNDS} rounds of rebuild by scan, bare scan and bare pipeline"));
    let by_scan = scan_rounds(&mut world).await?;
    world.stop().await;
    let (count, each) = (u64::from(comments), f64::from(comments.max(1)));
    let rate = |rounds: &RebuildRounds| rounds.against_pipeline.our_rate(count);
    report.add(
        "rebuild",
        &format!(
            "{ROUNDS} rounds of {} comments of {} products each way, one product or segment at a time",
            number(count),
            number(products.len() as u64)
        ),
        &[
            ("rebuild by the product catalogue", rate(&by_catalogue), "comments/s"),
            ("rebuild by a scan", rate(&by_scan), "comments/s"),
            ("bare pipeline of ZADD", by_catalogue.against_pipeline.bare_rate(count), "comments/s"),
            ("bare queries for primary items", each / median(&by_catalogue.reading_s), "comments/s"),
            ("bare scan for primary items", each / median(&by_scan.reading_s), "comments/s"),
            ("by the product catalogue, read units", by_catalogue.read_units / each, "units/comment"),
            ("by a scan, read units", by_scan.read_units / each, "units/comment"),
        ],
    );
    report.ratio("rebuild_vs_pipeline", by_catalogue.against_pipeline.ratio(), Limit::AtLeast(0.5));
    for (name, rounds) in [(CATALOGUE_RATIO, &by_catalogue), (SCAN_RATIO, &by_scan)] {
        let floor = rounds.against_reading_and_pipeline.ratio();
        report.ratio_noted(name, floor, Limit::None, "the nearer to 1 the better");
    }
    Ok(())
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

/// Returns how many primary items there are.
async fn bare_queries(table: &Table, products: &[ProductId]) -> anyhow::Result<usize> {
    let mut found = 0;
    for product in products {
        let mut position = None;
        loop {
            let part = table.primary_part(product, position, READ_LIMIT).await?;
            found += part.items.len();
            position = part.next;
            if position.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

/// Returns how many primary items there are.
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
