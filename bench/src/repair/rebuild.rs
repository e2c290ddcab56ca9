//! The rebuild of the page index from the table's index `primaries`.
//!
//! A rebuild asks for the table's id once, with `DescribeTable`. For that call the engine counts all items of the table
//! (0.7 s per million); DynamoDB does not. So the limit is for a table that holds only the items that a rebuild reads, the
//! primary ones. A table with all items is measured beside it.

use anyhow::ensure;
use futures_util::{StreamExt, TryStreamExt, stream};
use model::{Comment, ProductId, primaries::PRIMARIES_SHARDS};
use table::Table;

use super::{ROUNDS, World, drawn};
use crate::{
    index::time_to_add,
    report::{Limit, Report, count as number},
    statistics::{Rounds, median, timed},
};

pub(super) const RATIO: &str = "rebuild_vs_queries_and_pipeline";
/// Comments per product, like in the real reviews that the design was made for: 976 (42,943 comments of 44 products).
const COMMENTS_OF_A_PRODUCT: usize = 976;
/// Shards read in parallel: the command's default.
const SHARDS_AT_ONCE: u32 = 4;
/// Entries that a query reads in one call, like the rebuild.
const READ_LIMIT: u32 = 4_000;

pub(super) struct RebuildRounds {
    pub(super) against_reading_and_pipeline: Rounds,
    against_pipeline: Rounds,
    reading_s: Vec<f64>,
    /// Read units of the last rebuild.
    read_units: f64,
}

/// Alternates a rebuild, bare queries of the same entries, and a bare pipeline.
pub(super) async fn rounds(world: &mut World) -> anyhow::Result<RebuildRounds> {
    let (mut times, mut read_units) = (Vec::new(), 0.0);
    let against_reading_and_pipeline = Rounds::run(ROUNDS, async || {
        let (rebuilt, ours) = timed(async { Ok(world.job(true).rebuild(SHARDS_AT_ONCE).await) }).await?;
        ensure!(rebuilt.exit_code() == 0 && rebuilt.checked == world.comments.len() as u64, "{rebuilt}");
        let (found, reading) = timed(bare_queries(&world.store.table)).await?;
        ensure!(found == world.comments.len(), "{found} primary items read");
        let pipeline = time_to_add(&mut world.redis, &world.comments).await?;
        times.push((ours, reading, pipeline));
        read_units = rebuilt.read_units;
        Ok((ours, reading + pipeline))
    });
    let against_reading_and_pipeline = against_reading_and_pipeline.await?;
    // The first round warms up.
    let times = times.get(1..).unwrap_or_default();
    let mut against_pipeline = Rounds::default();
    times.iter().for_each(|(ours, _, pipeline)| against_pipeline.add(*ours, *pipeline));
    let reading_s = times.iter().map(|(_, reading, _)| reading.as_secs_f64()).collect();
    Ok(RebuildRounds { against_reading_and_pipeline, against_pipeline, reading_s, read_units })
}

/// Measures the rebuild of the page index of `comments` comments: for products with few comments, and for products with
/// as many as real ones.
pub(crate) async fn measure_rebuild(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    let (count, each) = (u64::from(comments), f64::from(comments.max(1)));
    let limit = Limit::AtLeast(0.5);
    for (name, ratio, limit, comments, has_all_items) in [
        ("rebuild-few", "rebuild_vs_pipeline_few", Limit::None, drawn(comments)?, false),
        ("rebuild-all-items", "rebuild_vs_pipeline_all_items", Limit::None, drawn_by_product(comments)?, true),
        ("rebuild", "rebuild_vs_pipeline", limit, drawn_by_product(comments)?, false),
    ] {
        let products: std::collections::BTreeSet<&ProductId> =
            comments.iter().map(|comment| &comment.product).collect();
        let products = number(products.len() as u64);
        report.step(&format!("loading {} comments of {products} products", number(count)));
        let world =
            if has_all_items { World::of_all_items(comments).await } else { World::of_primary_items(comments).await };
        let mut world = world?;
        report.step(&format!("{ROUNDS} rounds of rebuild, bare queries and bare pipeline"));
        let rounds = rounds(&mut world).await?;
        world.stop().await;
        report.add(
            name,
            &format!(
                "{ROUNDS} rounds of {} comments of {products} products each way, {SHARDS_AT_ONCE} shards at the same time",
                number(count),
            ),
            &[
                ("rebuild", rounds.against_pipeline.our_rate(count), "comments/s"),
                ("bare pipeline of ZADD", rounds.against_pipeline.bare_rate(count), "comments/s"),
                ("bare queries of the index", each / median(&rounds.reading_s), "comments/s"),
                ("read units", rounds.read_units / each, "units/comment"),
            ],
        );
        report.ratio_noted(ratio, rounds.against_pipeline.ratio(), limit, &format!("{products} products"));
        if name == "rebuild" {
            let floor = rounds.against_reading_and_pipeline.ratio();
            report.ratio_noted(RATIO, floor, Limit::None, "the nearer to 1 the better");
        }
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

async fn bare_queries(table: &Table) -> anyhow::Result<usize> {
    let queries = (0..PRIMARIES_SHARDS).map(|shard| async move {
        let (mut found, mut position) = (0, None);
        loop {
            let part = table.primaries_part(shard, position, READ_LIMIT).await?;
            found += part.comments.len();
            position = part.next;
            if position.is_none() {
                return Ok(found);
            }
        }
    });
    let queries = stream::iter(queries).buffer_unordered(SHARDS_AT_ONCE as usize);
    queries.try_fold(0, async |sum, found: usize| Ok(sum + found)).await
}
