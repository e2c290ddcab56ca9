//! `rebuild`: a rebuild of the page index beside a bare pipeline of the same `ZADD`s, in alternating rounds.
//!
//! The table has only primary items: a rebuild calls `DescribeTable` once, and for that call the engine counts all items,
//! which DynamoDB does not.

use std::time::Duration;

use anyhow::ensure;
use model::ProductId;
use repair_job::{Job, JobSettings, Stop};

use super::index::time_to_add;
use crate::{
    measure::{Rounds, timed},
    report::{Report, count},
    stores::{Load, Redis, Store, create_table},
    workload::{Comments, primary_item},
};

/// Comments per product, like in the real reviews that the design was made for: 976 (42,943 comments of 44 products).
const COMMENTS_OF_A_PRODUCT: usize = 976;
/// Shards read in parallel: the command's default.
const SHARDS_AT_ONCE: u32 = 4;

pub(crate) async fn measure(report: &mut Report, comments: u32, rounds: u32) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments", count(comments)));
    let mut drawn = Comments::new(7)?.take(comments)?;
    for (place, comment) in drawn.iter_mut().enumerate() {
        comment.product = ProductId::parse(&format!("shop/item-{:05}", place / COMMENTS_OF_A_PRODUCT))?;
    }
    let store = Store::start().await?;
    create_table(&store.table).await?;
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
    report.step(&format!("{rounds} rounds of rebuild and bare pipeline"));
    let rounds = Rounds::run(rounds, async || {
        let (rebuilt, ours) = timed(async { Ok(job.rebuild(SHARDS_AT_ONCE).await) }).await?;
        ensure!(rebuilt.exit_code() == 0 && rebuilt.checked == drawn.len() as u64, "{rebuilt}");
        Ok([ours, time_to_add(&mut redis, &drawn).await?])
    });
    let rounds = rounds.await?;
    store.stop().await;
    report.add("rebuild", rounds.rate(0, comments), "comments/s");
    report.add("bare pipeline of ZADD", rounds.rate(1, comments), "comments/s");
    report.noted("rebuild_vs_pipeline", rounds.ratio(0, 1), "", "ratio of rates, at least 0.5");
    Ok(())
}
