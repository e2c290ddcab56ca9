//! `rebuild`: a rebuild of the page index, bare queries of the index `primaries`, whose answers are discarded, and a bare
//! pipeline of the same `ZADD`s, in alternating rounds.
//!
//! The table has no stream, of the indexes only `primaries`, and only primary items: a rebuild calls `DescribeTable` once,
//! and for that call the engine counts all items, which DynamoDB does not.

use std::time::Duration;

use anyhow::ensure;
use futures_util::{StreamExt, TryStreamExt, stream};
use model::{ProductId, item::attribute, primaries::PRIMARIES_SHARDS};
use repair_job::{Job, JobSettings, Stop};
use table::{Table, definition};

use super::index::time_to_add;
use crate::{
    measure::{Rounds, timed},
    report::{Report, count},
    stores::{Load, Redis, Store, create_table_with},
    workload::{Comments, primary_item},
};

/// Comments per product, like in the real reviews that the design was made for: 976 (42,943 comments of 44 products).
const COMMENTS_OF_A_PRODUCT: usize = 976;
/// Shards read in parallel: the command's default.
const SHARDS_AT_ONCE: u32 = 4;
/// Entries that a query reads in one call, like the rebuild.
const READ_LIMIT: u32 = 4_000;

pub(crate) async fn measure(report: &mut Report, comments: u32, rounds: u32) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments", count(comments)));
    let mut drawn = Comments::new(7)?.take(comments)?;
    for (place, comment) in drawn.iter_mut().enumerate() {
        comment.product = ProductId::parse(&format!("shop/item-{:05}", place / COMMENTS_OF_A_PRODUCT))?;
    }
    let store = Store::start().await?;
    create(&store.table).await?;
    let (table, mut load) = (store.table.name().to_owned(), Load::into(store).await?);
    for comment in &drawn {
        load.push(&table, &primary_item(comment)?).await?;
    }
    let (store, mut redis) = (load.finish().await?, Redis::start().await?);
    let settings = JobSettings {
        apply: true,
        settle: Duration::ZERO,
        overlap: Duration::from_secs(600),
        ..JobSettings::default()
    };
    let job = Job::new(store.table.clone(), redis.index.clone(), settings, Stop::default());
    report.step(&format!("{rounds} rounds of rebuild, bare queries and bare pipeline"));
    let rounds = Rounds::run(rounds, async || {
        let (rebuilt, ours) = timed(async { Ok(job.rebuild(SHARDS_AT_ONCE).await) }).await?;
        ensure!(rebuilt.exit_code() == 0 && rebuilt.checked == drawn.len() as u64, "{rebuilt}");
        let (found, reading) = timed(bare_queries(&store.table)).await?;
        ensure!(found == drawn.len(), "{found} primary items read");
        Ok([ours, reading, time_to_add(&mut redis, &drawn).await?])
    });
    let rounds = rounds.await?;
    store.stop().await;
    for (place, name) in ["rebuild", "bare queries of the index", "bare pipeline of ZADD"].into_iter().enumerate() {
        report.add(name, rounds.rate(place, comments), "comments/s");
    }
    report.noted("rebuild_vs_pipeline", rounds.ratio(0, 2), "", "ratio of rates, at least 0.5");
    Ok(())
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

async fn create(table: &Table) -> anyhow::Result<()> {
    let attributes = definition::attribute_definitions()?;
    let of_others = [attribute::CD, attribute::AUTHOR_ID, attribute::UNPUBLISHED, attribute::UNPUBLISHED_CD];
    let attributes = attributes.into_iter().filter(|definition| !of_others.contains(&definition.attribute_name()));
    create_table_with(table, attributes.collect(), vec![definition::primaries()?]).await
}
